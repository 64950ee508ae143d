# SPDX-License-Identifier: GPL-2.0-or-later
"""All that reads what a guest, a patch's author or a stranger wrote, by name, and examples."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import guests as fakes

from lab.base import toml
from lab.base.text import visible
from lab.build import code_diff, mail_thread, patch_mail
from lab.guest import console, orders
from lab.guest.channel import Reader
from lab.inputs.counters import Counter
from lab.inputs.profile import Profile
from lab.inputs.series import Series
from lab.inputs.topology import Topology
from lab.inputs.workload import Workload
from lab.measure import call_log, dbench, fio, insn_counts, sim_counts
from lab.report import record_store

TESTS = Path(__file__).parent
CORPUS = TESTS / "fuzz/corpus"
DATA = TESTS / "data"
PROJECT = TESTS.parent
SYMBOLS = insn_counts.Symbols((0x1000, 0x2000), ("submit_bio", "blk_mq_run_hw_queue"))


def text(content: bytes) -> str:
    """What the lab makes of a guest's bytes."""
    return content.decode(errors="replace")


def mailbox(content: bytes) -> None:
    """Patches, and the thread of whoever sent the first."""
    patches = patch_mail.parse(content, "fuzz")
    senders = {patches[0].sender}
    thread, _, _ = mail_thread.read(content, "fuzz", patches[0].subject, senders)
    assert thread is None or "\n" not in "".join((thread.subject, *thread.to, *thread.cc))


def channel(content: bytes) -> None:
    """Records in pieces, as they come."""
    reader = Reader()
    for start in range(0, len(content), 4096):
        for record in reader.feed(content[start : start + 4096]):
            assert len(record.payload) <= len(content)


def console_(content: bytes) -> None:
    """All that a console is asked."""
    log = text(content)
    said = [console.death(log), *console.complaints(log), console.last_line(log)]
    for line in filter(None, said):
        assert visible(line) == line
        assert len(line) < 1000
        assert console.kind(line)


def dbench_(content: bytes) -> None:
    """A table of one that has a load file."""
    load, dbench.load_file = dbench.load_file, lambda: fakes.LOAD  # type: ignore[assignment]
    try:
        dbench.metrics(text(content), 4, 10)
    finally:
        dbench.load_file = load


def counts(content: bytes) -> None:
    """What the plugin wrote."""
    phases = insn_counts.phases(text(content))
    insn_counts.require_marks(phases, 1, 1)
    insn_counts.by_function(phases[insn_counts.run_place(0)], SYMBOLS)


def simulation(content: bytes) -> None:
    """What the plugin wrote of a simulated guest."""
    phases = sim_counts.phases(text(content))
    sim_counts.simulated(phases, SYMBOLS, SYMBOLS, 0.012)


def system_map(content: bytes) -> None:
    """The functions of a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "System.map"
        path.write_bytes(content)
        insn_counts.symbols(path)


def kernel_image(content: bytes) -> None:
    """A vmlinux, compared with another one that is like it."""
    with tempfile.TemporaryDirectory() as folder:
        image, padded = Path(folder, "vmlinux"), Path(folder, "other")
        image.write_bytes(content)
        padded.write_bytes(content + b"\0")
        code_diff.compare(image, padded)


def record(content: bytes) -> None:
    """The record of a run."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run.json").write_bytes(content)
        record_store.load(Path(folder))


def model(kind: type[toml.Model]) -> Callable[[bytes], object]:
    """A reader of one kind of TOML file."""

    def read(content: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.toml"
            path.write_bytes(content)
            toml.load(path, kind)

    return read


PARSERS: Mapping[str, Callable[[bytes], object]] = {
    "mailbox": mailbox,
    "channel": channel,
    "console": console_,
    "facts": lambda content: orders.facts({"facts.tsv": text(content)}),
    "fio": lambda content: fio.run(text(content)),
    "dbench": dbench_,
    "calls": lambda content: call_log.parse(text(content)),
    "counts": counts,
    "simulation": simulation,
    "system_map": system_map,
    "kernel_image": kernel_image,
    "record": record,
    "series": model(Series),
    "topology": model(Topology),
    "workload": model(Workload),
    "counter": model(Counter),
    "profile": model(Profile),
}
# What was recorded of honest ones, or lies in the project, beside the corpus.
_OTHERS = {
    "console": [DATA / f"console-{name}.log" for name in ("oops", "hung-task", "clean")],
    "facts": [DATA / "facts-raid64.tsv"],
    "fio": [DATA / "fio-randwrite-group.json"],
    "dbench": [DATA / "dbench-4-clients.log"],
    "series": [PROJECT / "kernel-patches/plug_order/series.toml"],
    "topology": [PROJECT / "configs/guest/raid64.toml"],
    "workload": [PROJECT / "workloads/randread_burst.toml"],
    "counter": [PROJECT / "configs/counter/lock_acquisitions.toml"],
    "profile": [PROJECT / "configs/profile/quick.toml"],
}


def examples(parser: str) -> list[Path]:
    """The files that a parser is tried with as they are; at least one."""
    return [*sorted((CORPUS / parser).glob("*")), *_OTHERS.get(parser, [])]


def content(example: Path) -> bytes:
    """What a parser reads of an example; what is no text is kept as hexadecimal digits."""
    if example.suffix == ".hex":
        return bytes.fromhex(example.read_text())
    return example.read_bytes()

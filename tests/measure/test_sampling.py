# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cell tells the agent to do, and what makes two boots the same measurement."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base import toml
from lab.base.errors import GuestError, UsageError
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.guest import boot
from lab.guest.boot import Boot, Orders
from lab.guest.qemu_command import Machine
from lab.inputs import topology, workload
from lab.inputs.terms import Engine
from lab.inputs.workload import Value
from lab.measure import dbench, sampling
from lab.measure.cell import Cell
from lab.measure.dbench import LoadFile
from lab.measure.matrix import SCHEDULERS

DATA = Path(__file__).parents[1] / "data"
KERNEL = Kernel("kernel-id", "6.12.117", "tree", ("base",), "gcc; ld")
GUEST = GuestRoot("guest-id")
LOAD = LoadFile("Flush 1 NT_STATUS_OK\n", "d clients\n", {"NTCreateX": 613})


@pytest.fixture(autouse=True)
def _load_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on an installed dbench."""
    monkeypatch.setattr(dbench, "load_file", lambda: LOAD)


@pytest.fixture(autouse=True)
def _kernels(_own_folders: None) -> None:
    """Three built kernels, of which two execute the same."""
    for identity, code in (("kernel-id", "code"), ("twin", "code"), ("other", "other code")):
        image = replace(KERNEL, id=identity).vmlinux
        image.parent.mkdir(parents=True)
        image.write_text(code)


def cell(
    work: str = "randread_burst",
    machine: str = "raid64",
    engine: Engine = Engine.TCG,
    **changes: Value,
) -> Cell:
    """A cell with bfq and the workload's own parameters, or others."""
    own = {k: v[0] if isinstance(v, tuple) else v for k, v in workload.get(work).parameters.items()}
    return Cell(machine, "bfq", work, tuple(sorted({**own, **changes}.items())), engine)


def places(steps: tuple[str, ...], *starts: str) -> list[int]:
    """Where the first step of each kind stands."""
    return [next(i for i, step in enumerate(steps) if step.startswith(start)) for start in starts]


@pytest.mark.parametrize("name", toml.names(topology.FOLDER))
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_scheduler_is_chosen_on_a_ready_disk_and_reported(name: str, scheduler: str) -> None:
    steps = sampling.orders(replace(cell(machine=name), scheduler=scheduler)).steps
    found = places(
        steps, "phase setup", "disk ", f"scheduler {scheduler}", "facts", "phase workload", "fio "
    )
    assert found == sorted(found)
    assert steps[0] == "phase setup"
    assert steps[-1].startswith("fio ")


def test_attributes_are_set_before_the_scheduler_looks_at_them() -> None:
    steps = sampling.orders(cell()).steps
    found = places(steps, "disk ", "queue rotational=1", "device queue_depth=8", "scheduler")
    assert found == sorted(found)


def test_dbench_gets_a_file_system_and_its_tree_before_the_clock_runs() -> None:
    told = sampling.orders(cell("dbench_xfs", clients=4, seconds=10))
    found = places(
        told.steps, "scheduler", "facts", "mkfs xfs", "mount xfs", "tree 4", "phase workload"
    )
    assert found == sorted(found)
    assert told.steps[-1] == "dbench 4 10"
    assert (told.files["loadfile"], told.files["tree"]) == (LOAD.text, LOAD.tree)


@pytest.mark.parametrize("seconds", [1, 30, 30.0])
def test_dbench_runs_for_the_time_that_its_numbers_are_computed_with(seconds: float) -> None:
    own = cell("dbench_xfs", clients=2, seconds=seconds)
    assert float(sampling.orders(own).steps[-1].split()[-1]) == dict(own.parameters)["seconds"]


def test_a_part_of_a_second_of_dbench_is_refused_and_not_rounded() -> None:
    with pytest.raises(UsageError, match=r"dbench takes whole seconds, not 2\.5"):
        sampling.orders(cell("dbench_xfs", seconds=2.5))


@pytest.mark.parametrize("value", ["soon", ""])
@pytest.mark.parametrize("work", ["randread_burst", "dbench_xfs"])
def test_seconds_that_are_no_number_are_the_users_error(work: str, value: str) -> None:
    with pytest.raises(UsageError, match="seconds"):
        sampling.orders(cell(work, seconds=value))


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("work", toml.names(workload.FOLDER))
def test_every_phase_has_a_deadline_longer_than_the_work(work: str, engine: Engine) -> None:
    told = sampling.orders(cell(work, engine=engine, seconds=100))
    entered = {step.split()[1] for step in told.steps if step.startswith("phase ")}
    assert {"boot", "agent", *entered} == told.deadlines_s.keys()
    assert told.deadlines_s["workload"] > (1000 if engine.sealed else 120)


def test_a_guest_that_clears_a_large_disk_has_longer_to_boot() -> None:
    def boot_s(machine: str, clients: int) -> float:
        return sampling.orders(cell("dbench_xfs", machine, clients=clients)).deadlines_s["boot"]

    # Seen: 15 GiB in some 200 s beside other work.
    assert boot_s("raid64", 512) > boot_s("raid64", 8) + 400
    assert boot_s("megasas", 512) == boot_s("megasas", 8)


def test_equal_orders_are_equal_bytes() -> None:
    steps = ("phase setup", "facts")
    one = Orders(steps, {"boot": 1}, {"a": "1", "b": "2"})
    other = Orders(steps, {"boot": 9}, {"b": "2", "a": "1"})
    assert one.archive() == other.archive()


def test_the_archive_holds_plan_and_files() -> None:
    told = sampling.orders(cell())
    with tarfile.open(fileobj=io.BytesIO(told.archive())) as archive:
        members = archive.getmembers()
        content = {m.name: archive.extractfile(m).read().decode() for m in members}  # type: ignore[union-attr]
    assert content == {"plan": "\n".join(told.steps) + "\n", **told.files}
    assert {member.mtime for member in members} == {0}


def key(
    of: Cell | None = None,
    kernel: Kernel = KERNEL,
    guest: GuestRoot = GUEST,
    version: str = "QEMU 10.0.2",
    host: str = "here",
) -> str:
    """The key of a cell, everything else being equal."""
    return sampling.key(of or cell(), kernel, guest, version, host)


@pytest.mark.parametrize(
    "changed",
    [
        lambda: key(replace(cell(), scheduler="kyber")),
        lambda: key(cell(machine="megasas")),
        lambda: key(cell(work="randwrite_uring")),
        lambda: key(cell(numjobs=11)),
        lambda: key(cell(engine=Engine.KVM)),
        lambda: key(cell(engine=Engine.ICOUNT)),
        lambda: key(kernel=replace(KERNEL, id="other")),
        lambda: key(guest=GuestRoot("other")),
        lambda: key(version="QEMU 10.0.3"),
    ],
    ids=[
        *("scheduler", "topology", "workload", "parameters", "kvm", "icount"),
        *("kernel", "guest", "qemu"),
    ],
)
def test_a_change_of_what_runs_is_another_measurement(changed: Callable[[], str]) -> None:
    assert changed() != key()


def test_the_same_is_the_same_measurement() -> None:
    assert key(cell()) == key(cell())
    assert key(cell(seconds=30)) == key(cell())


def test_kernels_that_execute_the_same_share_a_measurement() -> None:
    assert key(kernel=replace(KERNEL, id="twin")) == key()


@pytest.mark.parametrize("engine", Engine)
def test_only_exact_numbers_are_shared_between_hosts(engine: Engine) -> None:
    own = cell(engine=engine)
    assert (key(own, host="here") == key(own, host="there")) == engine.sealed


@pytest.mark.parametrize("change", ["topology", "template"])
def test_editing_a_file_of_the_project_is_another_measurement(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key()
    module = topology if change == "topology" else workload
    for path in module.FOLDER.iterdir():
        text = path.read_text().replace("queue_depth = 8", "queue_depth = 9")
        (tmp_path / path.name).write_text(text.replace("bs=4k", "bs=8k"))
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    assert key() != before


@pytest.mark.parametrize(
    ("work", "backed", "size"), [("randread_burst", False, 1024), ("dbench_xfs", True, 1920)]
)
def test_a_file_system_gets_a_disk_that_keeps_data(work: str, backed: bool, size: int) -> None:
    own = cell(work, clients=64) if backed else cell(work)
    machine = sampling.machine(own, KERNEL, GUEST, Path("/folder"), None)
    assert (machine.backed, machine.size_mib) == (backed, size)


def facts() -> dict[str, str]:
    lines = (DATA / "facts-raid64.tsv").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines)


@pytest.fixture
def guest_sends(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the next boots return given outputs and facts."""

    def sends(outputs: dict[str, str], reported: dict[str, str]) -> None:
        def run(machine: Machine, orders: Orders, *_: object) -> Boot:
            return Boot(reported, outputs, {"workload": 3.0}, machine.folder)

        monkeypatch.setattr(boot, "run", run)

    return sends


@pytest.mark.parametrize(
    ("work", "name", "recorded", "metric", "value"),
    [
        ("randwrite_uring", "fio.json", "fio-randwrite-group.json", "iops", 57563.255966),
        ("dbench_xfs", "dbench.log", "dbench-4-clients.log", "amean_ms", 24520000 / 3992),
    ],
)
def test_a_boot_gives_numbers_and_leaves_its_raw_files(
    guest_sends: Callable[..., None],
    tmp_path: Path,
    work: str,
    name: str,
    recorded: str,
    metric: str,
    value: float,
) -> None:
    text = (DATA / recorded).read_text()
    guest_sends({name: text}, facts())
    own = cell(work, clients=4, seconds=10) if work == "dbench_xfs" else cell(work)
    sample = sampling.measure(own, KERNEL, GUEST, tmp_path)
    assert sample.values[metric] == pytest.approx(value)
    assert sample.values.keys() <= sample.units.keys()
    assert sample.facts == facts()
    assert (tmp_path / name).read_text() == text


def test_numbers_of_a_guest_that_is_not_its_topology_are_refused(
    guest_sends: Callable[..., None], tmp_path: Path
) -> None:
    text = (DATA / "fio-randwrite-group.json").read_text()
    guest_sends({"fio.json": text}, {**facts(), "hw_queues": "1"})
    with pytest.raises(GuestError) as caught:
        sampling.measure(cell(), KERNEL, GUEST, tmp_path)
    assert caught.value.outcome == "mismatch"
    assert (tmp_path / "fio.json").exists()


def test_a_guest_that_sent_no_result_is_a_failed_guest(
    guest_sends: Callable[..., None], tmp_path: Path
) -> None:
    guest_sends({}, facts())
    with pytest.raises(GuestError, match="no job"):
        sampling.measure(cell(), KERNEL, GUEST, tmp_path)

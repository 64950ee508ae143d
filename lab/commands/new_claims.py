# SPDX-License-Identifier: GPL-2.0-or-later
"""The series.toml of a new series: a check that works, and the published figures as suggestions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lab.base.errors import UsageError
from lab.base.text import visible
from lab.inputs import device_line, workload
from lab.inputs.bounds import HALF
from lab.inputs.message import Figure, Message, runs_fio

_USUAL_DISK, _USUAL_JOB, _USUAL_SCHEDULER = "nullb_mq", "randread_burst", "none"
_NVME, _NVME_PATH = "nvme_mq", re.compile(r"/dev/nvme\d")
# By unit: the metric, and by what factor the lab's unit is smaller or larger.
_METRICS = {
    "IOPS": ("iops", 1.0),
    "MiB/s": ("bw_mib", 1.0),
    "ms": ("lat_mean_ms", 1.0),
    "us": ("lat_mean_ms", 1e-3),
    "µs": ("lat_mean_ms", 1e-3),
    "usec": ("lat_mean_ms", 1e-3),
    "switches": ("ctx", 1.0),
}
_COST = "kernel_insns_per_io"
# Of a change that two seeds of one kernel may differ by.
_SEEDS = 6
# What the engine sim is asked on, until somebody names the machine of the publication.
_MACHINE = "xeon16"


@dataclass(frozen=True)
class _Place:
    """Where the message's figures were measured, as far as it says: keys of a claim."""

    topology: str
    scheduler: str
    job: str
    notes: tuple[str, ...] = ()

    @property
    def keys(self) -> str:
        topology, scheduler = _quoted(self.topology), _quoted(self.scheduler)
        return f"topology = {topology}\nscheduler = {scheduler}\n{self.job}"


def text(message: Message, *, title: str, origin: str, tree: str) -> str:
    """A series.toml that is right as it is: it has the check that nothing costs more, and below it
    a claim for each published figure, commented. origin says who posted the series where, tree is
    the source that it applies to.
    """
    place = _place(message)
    notes = "".join(f"# {note}\n" for note in place.notes)
    return f"""\
# SPDX-License-Identifier: GPL-2.0-or-later
title = {_quoted(title)}
origin = {_quoted(origin)}
tree = {_quoted(tree)}

{notes}[checks.cost]
title = "an I/O costs no more instructions than before"
{place.keys}

[[checks.cost.expect]]
metric = "{_COST}"
change = "<= +1%"
because = "no change is published; twice the 0.5 % by which seeds of one kernel differ"

{_commented(_claims(message.figures, place))}
"""


def _commented(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.split("\n"))


def _claims(figures: Sequence[Figure], place: _Place) -> str:
    if not figures:
        return "The message has no figure that the lab can read. docs/tutorial.md has a claim."
    parts = [
        "Figures of the message. Remove the comment signs of those that are claims, give each\n"
        "claim a name, and see that topology, scheduler and job are the message's."
    ]
    parts += [_claim(f"figure_{number}", f, place) for number, f in enumerate(figures, start=1)]
    return "\n\n".join(parts)


def _claim(name: str, figure: Figure, place: _Place) -> str:
    metric, published = _published(figure)
    is_small = metric == "iops" and abs(_change(figure)) < 2 * workload.Noise().simulated
    seeds = f"seeds = {_SEEDS}\n" if is_small else ""
    machine = f'machine = "{_MACHINE}"\n' if metric == "iops" else ""
    return f"""\
[claims.{name}]
published = {_quoted(figure.line)}
{place.keys}
{seeds}
[[claims.{name}.expect]]
metric = "{metric}"
{machine}change = "{HALF}"
published = {{ {published} }}"""


def _published(figure: Figure) -> tuple[str, str]:
    """The metric of a figure, and the keys of its published table."""
    if figure.change is not None:
        metric = "iops" if "iops" in figure.line.lower() else _COST
        return metric, f'change = "{100 * figure.change:+.3g}%"'
    metric, factor = _METRICS.get(figure.unit, (_COST, 1.0))
    if figure.unit == "%":
        return metric, f'change = "{100 * _of_all(figure):+.3g}%"'
    unit = "ms" if metric == "lat_mean_ms" else figure.unit
    before, after = (_number(level * factor) for level in _levels(figure))
    levels = f"before = {before}, after = {after}"
    return metric, f"{levels}, unit = {_quoted(unit)}" if unit else levels


def _change(figure: Figure) -> float:
    """What was published, as a fraction."""
    if figure.change is not None:
        return figure.change
    before, after = _levels(figure)
    return after / before - 1


def _of_all(figure: Figure) -> float:
    """What a function's share of the CPU time before and after makes of all of an I/O, where the
    rest of it stays as it is: a change as a fraction.
    """
    before, after = _levels(figure)
    return (100 - before) / (100 - after) - 1 if after < 100 else 0.0


def _levels(figure: Figure) -> tuple[float, float]:
    assert figure.before is not None
    assert figure.after is not None
    return figure.before, figure.after


def _place(message: Message) -> _Place:
    notes: list[str] = []
    topology, job = _USUAL_DISK, f'workload = "{_USUAL_JOB}"'
    for line in message.devices:
        try:
            topology = device_line.read((line,))
            break
        except UsageError as exc:
            notes.append(f"The disk of the message cannot be made: {line}: {exc.what}")
    for line in message.jobs:
        if not runs_fio(line):
            notes.append(f"A claim runs fio. For {line}: lab diff --run {_quoted(line)}")
            continue
        try:
            workload.give(line, "the message")
            job = _key("fio", line)
            if topology == _USUAL_DISK and _NVME_PATH.search(line):
                topology = _NVME
            break
        except UsageError as exc:
            notes.append(f"The job of the message does not run: {line}: {exc.what}")
    scheduler = message.schedulers[0] if message.schedulers else _USUAL_SCHEDULER
    return _Place(
        topology, scheduler, job, tuple(visible(" ".join(note.split())) for note in notes)
    )


def _number(value: float) -> str:
    """A number as people write it, without an exponent."""
    return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"


def _key(name: str, text: str) -> str:
    """A key of TOML; a text of several lines stands as it is where TOML can have it so."""
    if "\n" not in text or "'''" in text or not text.replace("\n", "").isprintable():
        return f"{name} = {_quoted(text)}"
    return f"{name} = '''\n{text}\n'''"


def _quoted(text: str) -> str:
    """A string of TOML: as one of JSON, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

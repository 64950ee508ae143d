# SPDX-License-Identifier: GPL-2.0-or-later
"""How near the response times of armdisk are to those of a real disk: its demerit figure.

`python -m tools.disk_trace TRACE --armdisk rpm=7200 --armdisk track_kb=79`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click

from lab.base import cache
from lab.base.errors import LabError, UsageError, nearest
from lab.base.system import data
from lab.cli import main, options
from lab.inputs import workload
from lab.inputs.terms import Engine
from lab.measure.cell import Task, resolved
from lab.measure.runner import Outcome
from lab.measure.session import Session
from lab.report import tables
from lab.report.run_record import TableRecord

# A disk that keeps what is written in a cache, as disks do.
_TOPOLOGY = "raid64_disk"
_FRAGMENT = "armdisk"
_DRIVER = data("kernel-patches") / "hardware/armdisk/0001-scsi-add-a-disk-with-an-arm.patch"
# A command in a guest has 60 s by the guest's clock.
_PART_S = 45.0
_SECTOR = 512


@dataclass(frozen=True)
class Request:
    """A request of a trace, its response time as measured, and the pause after it, both in us."""

    write: bool
    sector: int
    sectors: int
    response: float
    pause: float


@click.command()
@options.measuring
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--armdisk",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of armdisk, such as rpm=7200 or settle_us=1943; repeatable.",
)
def disk_trace(session: Session, trace: Path, parameters: Sequence[str]) -> None:
    """Replay a validation trace of DiskSim on armdisk; compare the response times.

    TRACE has a line for each request: R or W, a word, the first sector, the sectors, the response
    time of a real disk and the pause after it in us. DiskSim 4.0 has such traces of eleven disks.
    """
    require_parameters(parameters)
    requests = parsed(trace)
    outcomes = session.outcomes(_tasks(session, requests, parameters))
    simulated = [time for outcome in outcomes for time in _times(session, outcome)]
    click.echo(tables.text(table(trace.stem, requests, simulated)))


def require_parameters(parameters: Sequence[str]) -> None:
    """Raise UsageError for what is no parameter of armdisk."""
    known = re.findall(r"^\+module_param\((\w+),", _DRIVER.read_text(), re.MULTILINE)
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name not in known or not value.isdecimal():
            raise UsageError(
                f"--armdisk {parameter}: not NAME=NUMBER of armdisk", hint=nearest(name, known)
            )


def parsed(trace: Path) -> list[Request]:
    """The requests of a trace. Raises UsageError for anything else, with the line."""
    requests = []
    for number, line in enumerate(trace.read_text().splitlines(), 1):
        try:
            kind, _, sector, sectors, response, pause = line.split()
            write = {"R": False, "W": True}[kind]
            request = Request(write, int(sector), int(sectors), float(response), float(pause))
        except (KeyError, ValueError) as exc:
            raise UsageError(
                f"not a request of a validation trace: {line!r}", where=f"{trace}:{number}"
            ) from exc
        requests.append(request)
    if not requests:
        raise UsageError("the trace has no request", where=str(trace))
    return requests


def parts(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """A trace in parts that a command can replay in its time."""
    part: list[Request] = []
    us = 0.0
    for request in requests:
        if part and us + request.response + request.pause > _PART_S * 1e6:
            yield part
            part, us = [], 0.0
        part.append(request)
        us += request.response + request.pause
    yield part


def fio_log(requests: Sequence[Request]) -> str:
    """Requests as fio replays them, each at its time in us since the first one."""
    lines = ["fio version 3 iolog", "0 /dev/sda add", "0 /dev/sda open"]
    us = 0.0
    for each in requests:
        kind = "write" if each.write else "read"
        place, size = each.sector * _SECTOR, each.sectors * _SECTOR
        lines.append(f"{us:.0f} /dev/sda {kind} {place} {size}")
        us += each.response + each.pause
    return "\n".join([*lines, f"{us:.0f} /dev/sda close", ""])


def demerit(measured: Sequence[float], simulated: Sequence[float]) -> float:
    """The root mean square of the horizontal distance of two distributions of as many times.

    C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
    D. Kotz, S. B. Toh and S. Radhakrishnan state it as a share of the measured mean ("A detailed
    simulation model of the HP 97560 disk drive", Dartmouth PCS-TR94-220, 1994).
    """
    pairs = zip(sorted(measured), sorted(simulated), strict=True)
    return math.sqrt(fmean((one - other) ** 2 for one, other in pairs))


def table(name: str, requests: Sequence[Request], simulated: Sequence[float]) -> TableRecord:
    """The demerit figure of all requests, of the reads, and of the writes."""
    every = list(zip(requests, simulated, strict=True))
    kinds = {
        "all": every,
        "reads": [(request, time) for request, time in every if not request.write],
        "writes": [(request, time) for request, time in every if request.write],
    }
    return TableRecord(
        title=f"{name}: response times of armdisk beside those of the disk",
        columns=tables.columns(
            "requests", "number", "measured mean, ms", "armdisk, ms", "demerit, ms", "of the mean"
        ),
        rows=tuple(_row(kind, pairs) for kind, pairs in kinds.items() if pairs),
    )


def _row(kind: str, pairs: Sequence[tuple[Request, float]]) -> tuple[str, ...]:
    measured, simulated = [request.response for request, _ in pairs], [time for _, time in pairs]
    mean, distance = fmean(measured), demerit(measured, simulated)
    times = (f"{us / 1e3:.2f}" for us in (mean, fmean(simulated), distance))
    return kind, f"{len(pairs):,}", *times, f"{100 * distance / mean:.1f} %"


def _tasks(session: Session, requests: Sequence[Request], parameters: Sequence[str]) -> list[Task]:
    kernel = session.kernel(fragments=(*session.fragments, _FRAGMENT))
    tasks = []
    for part in parts(requests):
        text = fio_log(part)
        log = cache.root() / "traces" / cache.key(text)
        cache.write_atomically(log, text)
        command, _ = workload.give_command(
            f"fio --name=replay --read_iolog={log} --replay_redirect=$DISK --direct=1"
            " --ioengine=psync --write_lat_log=/tmp/replay --output=/tmp/report"
            " && cut -d, -f2 /tmp/replay_lat.1.log"
        )
        cell = resolved(
            topology_name=_TOPOLOGY,
            scheduler="none",
            workload=command,
            parameters={},
            engine=Engine.EXACT,
            cpus=1,
            hw_queues=1,
            kernel_parameters=tuple(f"armdisk.{parameter}" for parameter in parameters),
        )
        tasks.append(Task(cell=cell, kernel=kernel))
    return tasks


def _times(session: Session, outcome: Outcome) -> list[float]:
    """The response times of a part in us. Raises LabError when the guest failed."""
    outcome.require_boots()
    printed = session.store.boot_folder(outcome.boots[-1].id) / "once.log"
    try:
        return [int(line) / 1e3 for line in printed.read_text().splitlines()]
    except ValueError as exc:
        raise LabError("fio printed no response times", where=str(printed)) from exc


if __name__ == "__main__":
    main.main(disk_trace, "python -m tools.disk_trace")

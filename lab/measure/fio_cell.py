# SPDX-License-Identifier: GPL-2.0-or-later
"""A cell whose fio job is written out: the hardware that the job needs, and its job files."""

from __future__ import annotations

from typing import Any

from lab.base.errors import UsageError
from lab.inputs import fio_job, fio_needs, topology, workload
from lab.inputs.fio_job import Fitted, Guest
from lab.inputs.fio_needs import Needs
from lab.inputs.topology import Topology
from lab.inputs.workload import Workload
from lab.measure.cell import Cell

# What a guest has for buffers without more memory.
_BUFFERS = 1 << 30


def disk_mib(cell: Cell, work: Workload) -> int:
    """The size of a cell's disk: its topology's own, or what the workload asks for."""
    return topology.get(cell.topology).size_mib or work.disk_mib(dict(cell.parameters))


def fitted(cell: Cell, work: Workload) -> Fitted | None:
    """The job of a cell fit for its guest, None where a template makes it; or UsageError."""
    if work.job is None:
        return None
    available = len(topology.get(cell.topology).job_disks)
    guest = Guest(disk_mib(cell, work) << 20, cell.cpus, available)
    return fio_job.fitted(work.job, guest, int(cell.number(workload.JOBS)))


def disks(cell: Cell, work: Workload, guest_topology: Topology) -> tuple[str, ...]:
    """The names of a cell's disks, that under test first; UsageError for more than there are."""
    fit = fitted(cell, work)
    wanted = fit.disks if fit else int(cell.number("disks")) or 1
    names = guest_topology.job_disks
    if wanted > len(names):
        raise UsageError(
            f"{cell.workload} uses {wanted} disks, {cell.topology} has {len(names)} for a job",
            hint=f"take --device 'null_blk nr_devices={wanted}'",
        )
    return names[:wanted]


def hardware(guest_topology: Topology, work: Workload) -> dict[str, Any]:
    """What a job changes of a topology: by field, its value."""
    if work.job is None:
        if not (work.polls and _lacks_poll_queue(guest_topology)):
            return {}
        return {"null_blk": {**(guest_topology.null_blk or {}), "poll_queues": 1}}
    needs = fio_needs.of(work.job)
    changes: dict[str, Any] = {}
    more = max(0, needs.buffers - _BUFFERS) >> 20
    if more:
        changes["memory_mib"] = guest_topology.memory_mib + more
    if guest_topology.null_blk is None:
        if needs.polled and guest_topology.disk.by == "nvme":
            changes["kernel_parameters"] = (*guest_topology.kernel_parameters, "nvme.poll_queues=1")
        return changes
    attributes: dict[str, int | str] = {}
    if _in_memory(needs) and not guest_topology.holds_data:
        attributes["memory_backed"] = 1
        changes |= {"holds_data": True, "disk_in_memory": True}
    if needs.polled and _lacks_poll_queue(guest_topology):
        attributes["poll_queues"] = 1
    if needs.trims:
        attributes["discard"] = 1
    if not attributes:
        return changes
    return {**changes, "null_blk": {**guest_topology.null_blk, **attributes}}


def _lacks_poll_queue(guest_topology: Topology) -> bool:
    """Whether a null_blk disk could have a queue to poll, and has none."""
    return "poll_queues" in (guest_topology.null_blk or {}) and not guest_topology.poll_queues


def _in_memory(needs: Needs) -> bool:
    return needs.on_files or needs.keeps


def keeps_data(work: Workload) -> bool:
    """Whether what a job writes must be there when it reads."""
    return work.job is not None and _in_memory(fio_needs.of(work.job))


def changes(cell: Cell, work: Workload, ios: dict[str, int]) -> str:
    """What the lab changed of a cell's job, in one line; empty where a template makes the job.

    ios are the I/Os of each job by run of fio, none where they are not fixed.
    """
    fit = fitted(cell, work)
    if fit is None:
        return ""
    guest_topology, phrases = topology.get(cell.topology), list(fit.changes)
    if amounts := sorted({number for number in ios.values() if number}):
        counted = " and ".join(f"{number:,}" for number in amounts)
        jobs = int(cell.number(workload.JOBS))
        phrases.append(f"{f'each of {jobs} jobs' if jobs > 1 else 'the job'} does {counted} I/Os")
    changed = hardware(guest_topology, work)
    usual = guest_topology.null_blk or {}
    attributes = {**usual, **changed.get("null_blk", {})}
    if attributes.get("memory_backed") != usual.get("memory_backed"):
        phrases.append("null_blk is memory-backed")
    if attributes.get("poll_queues") != usual.get("poll_queues") or "kernel_parameters" in changed:
        phrases.append("hipri has a poll queue")
    if "memory_mib" in changed:
        phrases.append(f"the guest has {changed['memory_mib']} MiB for the buffers")
    return f"{cell.workload}: {'; '.join(phrases)}"


def require_possible(cell: Cell, where: str = "") -> None:
    """Raise UsageError for a job or an I/O scheduler that the cell's disk or CPUs cannot run."""
    if not topology.get(cell.topology).has_scheduler and cell.scheduler != "none":
        what = f"{cell.topology} has no I/O scheduler"
        raise UsageError(what, where=where, hint="write --scheduler none")
    work, guest_topology = workload.get(cell.workload), topology.get(cell.topology)
    if work.job is None:
        return
    needs, changed = fio_needs.of(work.job), hardware(guest_topology, work)
    holds_data = changed.get("holds_data", guest_topology.holds_data)
    if _in_memory(needs) and not holds_data:
        why = "its files lie on a file system" if needs.on_files else "it reads back what it wrote"
        raise UsageError(
            f"{cell.workload} needs a disk that holds data, {cell.topology} has none: {why}",
            where=where,
            hint="choose null_blk, or a topology with holds_data = true",
        )
    if needs.character and guest_topology.disk.by != "nvme":
        raise UsageError(
            f"the engine io_uring_cmd needs an NVMe character device, which {cell.topology} lacks",
            where=where,
            hint="choose nvme_mq (by wall clock alone), or ioengine=io_uring on this disk",
        )
    can_poll = guest_topology.disk.by == "nvme" or "poll_queues" in (guest_topology.null_blk or {})
    if needs.only_polled and not can_poll:
        raise UsageError(
            f"hipri needs poll queues, which {cell.topology} cannot have",
            where=where,
            hint="choose nullb, nullb_mq or nvme_mq, or leave hipri out",
        )
    if cell.engine.simulated:
        fio_needs.require_busy_disk(work.job)
    fitted(cell, work)

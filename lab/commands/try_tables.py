# SPDX-License-Identifier: GPL-2.0-or-later
"""What `lab try` shows: the answer first, then the evidence as a maintainer quotes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from lab.base.text import number, percent, visible
from lab.commands import result_tables, try_answers, try_cells
from lab.commands.try_measure import SimulatedChange
from lab.commands.try_patches import Tried
from lab.inputs import topology, workload
from lab.inputs.message import Message
from lab.measure.cell import Cell, PlannedCell
from lab.report import view
from lab.report.run_record import TableRecord
from lab.report.tables import columns

# What the lab sets in every job, and what says how long it runs.
_NOT_TOLD = {
    *("filename", "group_reporting", "randrepeat", "norandommap", "time_based"),
    *("ramp_time", "runtime", "number_ios", "thread", "exec_prerun", "exec_postrun"),
}
_ROWS = 8
_SHOWN_NS = 1.0


def of_tried(steps: Sequence[Tried], command: Sequence[str]) -> tuple[TableRecord, ...]:
    """Every step of a series; command is what tries these patches, to repeat a cell with."""
    return tuple(table for step in steps for table in _of_step(step, command, len(steps) > 1))


def of_message(published: Message, source: str) -> tuple[TableRecord, ...]:
    """The figures that the patches' own message gives, and how to have them judged."""
    if not published.figures:
        return ()
    lines = dict.fromkeys(" ".join(visible(figure.line).split()) for figure in published.figures)
    shown = [f"    {line}" for line in [*lines][:_ROWS]]
    rest = [f"    and {len(lines) - _ROWS} lines more"] if len(lines) > _ROWS else []
    how = f"This is not judged here. `{shlex.join(['lab', 'new', 'NAME', source])}` makes claims."
    notes = ("\n".join(shown + rest), how)
    return (TableRecord(title="The message of the patches says", notes=notes),)


def _of_step(step: Tried, command: Sequence[str], several: bool) -> Iterator[TableRecord]:
    trial = step.trial
    first, *further = step.answers
    lead = f"{step.title}: " if several else ""
    yield TableRecord(title=f"{lead}{first}", notes=tuple(map(str, further)))
    notes = [_evidence(first.planned, step, command)] if first.planned else []
    if step.broken and str(first) not in step.broken:
        notes.append(step.broken)
    if step.configuration:
        notes.append(f"The kernel's configuration differs, too: {view.options(step.configuration)}")
    if notes:
        yield TableRecord(title="", notes=tuple(notes))
    if trial.exact:
        yield from result_tables.of_changes(list(trial.exact.values()))
    for change in trial.simulated:
        if not change.failed:
            yield _simulated(change)
    if rest := list(_rest(step, command)):
        yield TableRecord(title="", notes=tuple(rest))


def _evidence(planned: PlannedCell, step: Tried, command: Sequence[str]) -> str:
    """On what it was measured, with which job, and the command that measures it again."""
    cell = planned.cell
    return "\n".join(
        (
            f"Linux {step.trial.pair[0].release}; {try_answers.hardware(cell)}",
            f"job: {job_line(cell)}",
            f"reproduce with: {_repeat(cell, command)}",
        )
    )


def _repeat(cell: Cell, command: Sequence[str]) -> str:
    words = [*command, *topology.options(cell.topology), "--scheduler", cell.scheduler]
    words += workload.options(cell.workload)
    words += [word for pair in cell.queue for word in ("--queue", "=".join(pair))]
    if cell.machine:
        words += ["--engine", cell.engine, "--machine", cell.machine]
        words += ["--set", f"numjobs={cell.number('numjobs'):.0f}"]
    return shlex.join(words)


def job_line(cell: Cell) -> str:
    """The fio job of a cell as options of one command line."""
    parameters = {**dict(cell.parameters), "ios": 0}
    if workload.get(cell.workload).tool != "fio":
        return f"{cell.workload} {cell.sweep([name for name, _ in cell.parameters])}".strip()
    if workload.get(cell.workload).job:
        return workload.command_line(cell.workload, parameters)
    lines = workload.fio_job(cell.workload, parameters).splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    options = [f"--{name}={value}" for name, _, value in pairs if name not in _NOT_TOLD]
    return " ".join(["fio", *options])


def _simulated(change: SimulatedChange) -> TableRecord:
    """Throughput and waiting of both kernels, and the functions that cost more or less time."""
    before, after = (sum(iops) / len(iops) for iops in change.simulated_iops)
    cell, waits = change.planned.cell, [f"{100 * share:.0f} %" for share in change.waiting]
    listed = [f for f in change.functions if abs(f.difference) >= _SHOWN_NS][:_ROWS]
    rows = [
        (f.function, *(f"{v:,.0f}" for v in (f.before, f.after)), f"{f.difference:+,.0f}")
        for f in listed
    ]
    boots = view.counted(len(change.after.boots), "boot")
    return TableRecord(
        title=(
            f"{cell.cpus} simulated CPUs ({try_answers.in_words(cell)}): {number(before)} -> "
            f"{number(after)} simulated IOPS, {percent(change.change, exact=False)}; CPU time that "
            f"waits for spin locks {waits[0]} -> {waits[1]}; {boots} a kernel"
        ),
        columns=columns("ns per I/O by function", "before", "after", "difference"),
        rows=tuple(rows),
    )


def _rest(step: Tried, command: Sequence[str]) -> Iterator[str]:
    """What was checked, and what was not measured."""
    trial = step.trial
    passed = [check.planned for check in trial.checks if not check.after.error]
    for planned in passed:
        kernel = "the debug kernel" if workload.get(planned.cell.workload).kernel else "the kernel"
        yield (
            f"All data that was written was read back and right, and {kernel} complained of "
            f"nothing: {try_answers.in_words(planned.cell)}."
        )
    yield from trial.notes
    if count := len(trial.choice.skipped):
        example = trial.choice.skipped[0].cell
        yield (
            f"{count} more cell{'s execute' if count > 1 else ' executes'} what the patches change "
            f"and {'were' if count > 1 else 'was'} not measured (at most {try_cells.MOST_CELLS}); "
            f"one of them: {_repeat(example, command)}"
        )

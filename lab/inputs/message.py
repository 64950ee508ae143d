# SPDX-License-Identifier: GPL-2.0-or-later
"""What a commit message or a cover letter publishes: figures, the job and the disk of each.

Everything here is a suggestion to somebody who reads the message, too. Nothing of it is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Chosen: a cover letter has some hundred lines, and a table in it some dozen rows.
_MOST_LINES = 5000
_MOST_FIGURES = 40
_LONGEST_LINE = 400

_UNIT = (
    r"(?:[kKMG]?IOPS|iops|[KMG]i?B/s(?:ec)?|GB/s|%|[numµ]?s(?:ec)?s?\b|"
    r"(?:insns?|instructions|cycles|switches))"
)
_NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?)\s?([kKMG]\b|[kKMG](?=IOPS))?"
_LEVEL = rf"{_NUMBER}\s*({_UNIT})?"
_ARROW = re.compile(rf"{_LEVEL}\s*(?:[-=]+>|→|to|vs\.?)\s*(?:about |~)?{_LEVEL}")
_PERCENT = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]+)?)\s?%")
_CHANGES = re.compile(
    r"(?P<more>improv|faster|increas|higher|gain|better|boost|win|bump|\bmore\b)"
    r"|(?P<less>regress|slow|decreas|lower|reduc|drop|less|loss|worse|overhead|fewer)",
    re.IGNORECASE,
)
_OLD = r"before|without|base(?:line)?|old|orig(?:inal)?|vanilla"
_NEW = r"after|with|new|patch(?:ed)?"
_HEADER = re.compile(
    rf"\b(?:{_OLD}|mainline|unpatched)\b.{{1,80}}?\b(?:{_NEW}|patchset)\b", re.IGNORECASE
)
# Lines of their own for before and after.
_BEFORE = re.compile(rf"\s*(?:{_OLD})\b", re.IGNORECASE)
_AFTER = re.compile(rf"\s*(?:{_NEW})\b", re.IGNORECASE)
_CELL = re.compile(rf"(?<![\w.]){_LEVEL}(?![\w.])")
# Chosen: a sentence has more words, and the name of a row seldom.
_WORD = re.compile(r"\b[A-Za-z]{3,}\b")
_WORDS_OF_A_ROW = 4
_SIZES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_PROMPT = re.compile(r"^\s*(?:[$#>]\s+|\[[^\]]*\][#$]\s*|sudo\s+|taskset\s+\S+\s+\S+\s+)*")
_FIO = re.compile(r"^(?:\S*/)?fio\s+(?=-|\S+\.fio\b)")
_URING = re.compile(r"^(?:\S*/)?t/io_uring\s+\S")
_MODULE = re.compile(r"^(?:modprobe|insmod)\s+(?:\S*/)?(null_blk|scsi_debug)(?:\.ko)?\b(.*)$")
_SCHEDULER = re.compile(r"\b(mq-deadline|bfq|kyber)\b")
# A job file in a message: the names of its sections, and options.
_SECTION = re.compile(r"\[[\w.-]+\]")
_OPTION = re.compile(r"[a-z][\w-]*(?:\s*=.*)?")
_DIRECTION = re.compile(r"(?:rw|readwrite)\s*=")
_WITH_UNIT = re.compile(rf"{_NUMBER}\s*({_UNIT})")
# What a shell fills in: the CPUs of the model that the lab takes where nobody names a machine.
_CPUS = re.compile(r"\$\(nproc\)|`nproc`")
_NPROC = "16"


@dataclass(frozen=True)
class Figure:
    """A published figure and its line: two levels with a unit, or a change as a fraction."""

    line: str
    before: float | None = None
    after: float | None = None
    unit: str = ""
    change: float | None = None


@dataclass(frozen=True)
class Message:
    """What a message publishes: its figures, and the lines of its jobs and disks in order.

    schedulers are those that it names, jobs command lines of fio or t/io_uring and texts of job
    files, devices the parameters of a module as `--device` takes them.
    """

    figures: tuple[Figure, ...] = ()
    jobs: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()


def read(text: str) -> Message:
    """What a message publishes, in the order in which it stands there."""
    files, rest = _job_files(text.splitlines()[:_MOST_LINES])
    lines = [_CPUS.sub(_NPROC, line[:_LONGEST_LINE]) for line in _joined(rest)]
    jobs, devices, prose = list[str](), list[str](), list[str]()
    for line in lines:
        command = _PROMPT.sub("", line)
        if _FIO.match(command) or _URING.match(command):
            jobs.append(command.strip())
        elif module := _MODULE.match(command):
            devices.append(f"{module[1]} {' '.join(module[2].split())}".strip())
        else:
            prose.append(line)
    figures = list(dict.fromkeys(_figures(prose)))[:_MOST_FIGURES]
    return Message(
        tuple(figures),
        tuple(dict.fromkeys([*jobs, *files])),
        tuple(dict.fromkeys(devices)),
        tuple(dict.fromkeys(_SCHEDULER.findall(text))),
    )


def _job_files(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts of job files among the lines of a message, and all other lines."""
    files: list[list[str]] = []
    rest: list[str] = []
    inside = False
    for line in lines:
        word = line.strip()
        if not inside and _SECTION.fullmatch(word):
            files.append([])
            inside = True
        elif inside:
            inside = not word or any(form.fullmatch(word) for form in (_SECTION, _OPTION))
        (files[-1] if inside else rest).append(word if inside else line)
    jobs = ["\n".join(file).rstrip() for file in files if any(map(_DIRECTION.match, file))]
    return jobs, rest


def runs_fio(job: str) -> bool:
    """Whether a message's job is one of fio, and not of t/io_uring."""
    return not _URING.match(job)


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """The lines of a text; one that ends with a backslash, or is followed by options, goes on. What
    is joined ends soon after the length that is read of it.
    """
    whole, goes_on = "", False
    for line in lines:
        if goes_on or (line.lstrip().startswith("--") and _runs_fio(whole)):
            if len(whole) <= _LONGEST_LINE:
                whole = f"{whole.removesuffix(chr(92)).rstrip()} {line.strip()}"
        else:
            if whole:
                yield whole
            whole = line.rstrip()
        goes_on = line.rstrip().endswith("\\")
    if whole:
        yield whole


def _runs_fio(line: str) -> bool:
    return bool(_FIO.match(_PROMPT.sub("", line[:_LONGEST_LINE])))


def _figures(lines: Sequence[str]) -> Iterator[Figure]:
    in_table = False
    previous = ""
    for line in lines:
        before, previous = previous, line
        if figure := _labelled(before, line):
            yield figure
        elif _HEADER.search(line):
            in_table = True
        elif figure := _arrow(line) or (_row(line) if in_table else None):
            yield figure
        elif line.strip(" |+-="):
            in_table = False
            yield from _change(line)


def _arrow(line: str) -> Figure | None:
    """The two levels of ``X -> Y`` or ``from X to Y``; with a prefix and no unit they are IOPS."""
    arrow = _ARROW.search(line)
    if not arrow:
        return None
    first, second = _level(*arrow.groups()[:3]), _level(*arrow.groups()[3:])
    unit = second[1] or first[1] or ("IOPS" if arrow[2] and arrow[5] else "")
    return Figure(line.strip(), first[0], second[0], unit) if unit and first[0] else None


def _labelled(first: str, second: str) -> Figure | None:
    """The levels of two lines that begin with what is before and after; each has one of a unit."""
    if not (_BEFORE.match(first) and _AFTER.match(second)):
        return None
    levels = [_WITH_UNIT.findall(line) for line in (first, second)]
    if any(len(each) != 1 for each in levels):
        return None
    (before, unit), (after, same) = (_level(*each[0]) for each in levels)
    line = f"{first.strip()}; {second.strip()}"
    return Figure(line, before, after, unit) if unit == same and before else None


def _row(line: str) -> Figure | None:
    """The first two levels of a row of a table: what is before and after."""
    levels = [_level(*match) for match in _CELL.findall(line)]
    if len(levels) < 2 or not levels[0][0] or len(_WORD.findall(line)) > _WORDS_OF_A_ROW:
        return None
    (before, first), (after, second) = levels[:2]
    if "%" in (first, second) or (first and second and first != second):
        return None
    return Figure(line.strip(), before, after, second or first)


def _change(line: str) -> Iterator[Figure]:
    """The percentage of a sentence that says that something became more or less."""
    percentage, word = _PERCENT.search(line), _CHANGES.search(line)
    if not percentage or not (word or percentage[1]):
        return
    size = float(percentage[2]) / 100
    less = percentage[1] == "-" or (not percentage[1] and word is not None and word["less"])
    if size and not (less and size >= 1):
        yield Figure(line.strip(), change=-size if less else size)


def _level(number: str, prefix: str, unit: str) -> tuple[float, str]:
    """A number and its unit: IOPS without a prefix."""
    value, unit = float(number.replace(",", "")), unit or ""
    if unit[1:] == "IOPS":
        prefix, unit = unit[0], "IOPS"
    return value * _SIZES.get(prefix or "", 1.0), "IOPS" if unit == "iops" else unit

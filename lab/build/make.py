# SPDX-License-Identifier: GPL-2.0-or-later
"""One make of a kernel tree, confined: it reads its source, and writes objects and nothing else.

A tree's Makefiles run whatever their author wrote. So a make has no network, no home and none of
the lab's environment; it ends with all that it started, and at the latest at a deadline.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache, sandbox
from lab.base.errors import BuildError, LabError, UsageError
from lab.base.process import Process, supervised, tail
from lab.base.sandbox import Limits, View

# Fixed, so that two builds of one tree are the same file byte for byte.
_REPRODUCIBLE = {
    "KBUILD_BUILD_USER": "lab",
    "KBUILD_BUILD_HOST": "lab",
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
# All chosen. A kernel takes 10 minutes on two CPUs, its log 1 MiB, a compiler's process a minute,
# and the linker of one with debug information 2 GiB of memory; what passes these by far is no
# build.
DEADLINE_S = 3 * 3600.0
MOST_LOG_BYTES = 64 * 2**20
LEAST_FREE_GIB = 1.0
_LIMITS = Limits(cpu_s=3600, memory_bytes=8 * 2**30)
_POLL_S = 0.5
# With CCACHE_DEPEND ccache knows the headers that a source includes, but not the files that an
# assembler source takes in by .incbin, such as arch/x86/realmode/rmpiggy.S. So it is to leave all
# of these alone: it refuses this option (process_arg() in its src/argprocessing.cpp), by which gcc
# only omits the line numbers of the preprocessor.
_NOT_CACHED = "-Wp,-P,-DLAB_NOT_CACHED"
# What compiler, linker, kconfig and make itself say of a source.
_MISTAKE = re.compile(
    r"error:|undefined reference|multiple definition|syntax error|\*\*\* [^\[].*Stop\."
)
_FAILED = re.compile(r"No space left on device|\*\*\* ")
# What is said, with the same words, when the host took a tool its memory, its disk or itself.
_HOST = re.compile(
    r"internal compiler error|Killed|terminated program|out of memory|memory exhausted"
    r"|Cannot allocate memory|No space left|Input/output error|cannot execute|not found"
    r"|Bus error|Segmentation fault|Text file busy"
)


class Overrun(BuildError):
    """A make that was ended because it took too much of something."""


@dataclass(frozen=True)
class Make:
    """How a tree is made: its source, its objects, a folder for temporary files, and ccache's,
    which keeps what is compiled or is only read; and more variables for make.
    """

    source: Path
    objects: Path
    scratch: Path
    ccache: Path
    keeps: bool
    variables: tuple[str, ...] = ()

    def run(
        self, goal: Sequence[str], log: Path, what: str, files: Mapping[str, str] | None = None
    ) -> None:
        """Make a goal, with all output appended to a log; what is it called in an error.

        The make finds files, by their names, in scratch. Raises BuildError where a tool names a
        mistake, Overrun when it had to be ended, another LabError where nobody knows.
        """
        for folder in (self.objects, self.ccache):
            cache.make_folder(folder)
        delete(self.scratch)
        cache.make_folder(self.scratch)
        for name, content in (files or {}).items():
            (self.scratch / name).write_text(content)
        cache.require_space(self.objects, LEAST_FREE_GIB, "a kernel build")
        with cache.disk_space_matters(log):
            command = sandbox.confined([*self._command(), *goal], self._view())
            with supervised(command, log=log, cwd=self.objects) as process:
                breach = _watched(process, log, self.objects)
                status = process.poll()
            if breach:
                raise Overrun(f"the kernel's {what} {breach}", where=str(log))
            if status:
                raise _failed(what, log)

    def _command(self) -> list[str]:
        compiler = "ccache gcc" if shutil.which("ccache") else "gcc"
        # LOCALVERSION= keeps scripts/setlocalversion from adding a plus sign.
        variables = ["LOCALVERSION=", f"KAFLAGS={_NOT_CACHED}", *self.variables]
        return ["make", "-C", str(self.source), f"O={self.objects}", f"CC={compiler}", *variables]

    @property
    def _is_first(self) -> bool:
        """Whether ccache can give nothing yet. Filling it takes a fifth of a whole build's time;
        what patches touch later is kept.
        """
        return not any(self.ccache.iterdir()) and not (self.objects / "vmlinux").exists()

    def _view(self) -> View:
        """A make that knows nothing of the user's environment: no flag may change a kernel."""
        environment = {
            **_REPRODUCIBLE,
            "TMPDIR": str(self.scratch),
            "HOME": str(self.scratch),  # without one ccache does not start
            "CCACHE_DIR": str(self.ccache),
            # No file of options: one of them starts a program before each compiler.
            "CCACHE_CONFIGPATH": "/dev/null",
            "CCACHE_TEMPDIR": str(self.scratch),
            "CCACHE_MAXSIZE": "4G",
            # Equal trees give equal objects in every folder, so they may be those of another one.
            "CCACHE_BASEDIR": str(self.source),
            "CCACHE_NOHASHDIR": "1",
            # What is not cached yet is not preprocessed first: that takes a third more CPU time.
            "CCACHE_DEPEND": "1",
            **({"CCACHE_DISABLE": "1"} if self._is_first else {}),
            **({} if self.keeps else {"CCACHE_READONLY": "1", "CCACHE_NOSTATS": "1"}),
        }
        tools = [path for tool in ("make", "gcc", "ccache") for path in sandbox.installation(tool)]
        return View(
            read=(self.source, *tools, *(() if self.keeps else (self.ccache,))),
            write=(self.objects, self.scratch, *((self.ccache,) if self.keeps else ())),
            env=environment,
            limits=_LIMITS,
        )


def steps_done(log: Path) -> str:
    """How many files a make has made so far, for the progress line."""
    done = log.read_bytes().count(b"\n  ")
    return f"{done} files"


def failures(output: str) -> str:
    """The lines of a make's output that tell why it failed."""
    lines = (line for line in output.splitlines() if _MISTAKE.search(line) or _FAILED.search(line))
    return "\n".join(lines)


def blames_source(output: str) -> bool:
    """Whether a tool named a mistake in the source; else the host is at fault, or nobody knows."""
    return any(_MISTAKE.search(line) and not _HOST.search(line) for line in output.splitlines())


def delete(folder: Path) -> None:
    """Delete a folder that a make wrote, whatever it forbade; no link is followed, not even one in
    the place of the folder. Raises UsageError when something stays.
    """
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    cache.remove(folder)
    left = [folder] if folder.exists() else []
    while left:
        place = left.pop()
        place.chmod(0o700)  # first, for only then can be seen what is in it
        left += [
            Path(entry.path) for entry in os.scandir(place) if entry.is_dir(follow_symlinks=False)
        ]
    cache.remove(folder)
    if folder.exists():
        raise UsageError(f"cannot delete {folder}", hint="delete it by hand")


def _watched(process: Process, log: Path, objects: Path) -> str:
    """Wait for the end of a make; what it did too much of when it must not go on."""
    end = time.monotonic() + DEADLINE_S
    while process.wait(_POLL_S) is None:
        if time.monotonic() > end:
            return f"did not end within {DEADLINE_S:.0f} s"
        if log.stat().st_size > MOST_LOG_BYTES:
            return f"printed more than {MOST_LOG_BYTES / 2**20:.0f} MiB"
        if shutil.disk_usage(objects).free < LEAST_FREE_GIB * 2**30:
            return f"fills the disk: it left less than {LEAST_FREE_GIB:g} GiB free"
    return ""


def _failed(what: str, log: Path) -> LabError:
    """A BuildError where a tool blames the source, else the host is at fault or nobody knows."""
    output = log.read_text(errors="replace")
    kind = BuildError if blames_source(output) else LabError
    return kind(
        f"the kernel's {what} failed:\n{tail(failures(output) or output)}",
        where=str(log),
        hint="the log holds the whole output",
    )

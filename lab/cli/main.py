# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab command: finds the command that was asked for, and exits with the promised code.

The modules of the commands bring half a second of imports with them, so they are imported when one
of their commands is run. The help and the shell's completion make do with the table here.
"""

from __future__ import annotations

import atexit
import os
import signal
import stat
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from lab import __version__
from lab.base import cache
from lab.base.errors import ExitCode, LabError, UsageError, nearest
from lab.base.process import VERBOSE
from lab.base.progress import QUIET
from lab.base.text import visible

_NOTICE_S = 1.0
_KEPT = "finished results are kept, run it again to go on"

# The commands by what they are for: where in lab.cli each is, and the beginning of its help.
GROUPS = {
    "Judge": {
        "run": ("run:run_command", "Judge the claims of patch series."),
        "try": ("patches:try_", "Report what somebody's patches change."),
        "gate": ("nightly:gate_command", "Compare branches with their baselines: red or green."),
        "bisect": ("bisect:bisect_command", "Find the commit that made an I/O cost more."),
        "check-series": (
            "run:check_series_command",
            "Check every patch of a series: style, build and boot.",
        ),
        "new": ("new:new_command", "Make a series of a mailbox, patches or commits."),
    },
    "Look closer": {
        "diff": ("measure:diff_command", "Show by function what an I/O costs more or less."),
        "matrix": (
            "measure:matrix_command",
            "Measure schedulers, topologies and workloads on one kernel.",
        ),
        "across": (
            "measure:across_command",
            "Compare what an I/O costs on several kernels, by function.",
        ),
        "scaling": ("measure:scaling_command", "Simulate throughput over the number of CPUs."),
        "show": ("show:show", "Print the results of a run, in detail."),
        "report": (
            "show:report_command",
            "Write a report of a run: page, mail, table, flame graph.",
        ),
        "compare": ("show:compare_command", "Show in which verdicts and values two runs differ."),
        "trend": (
            "nightly:trend_command",
            "Show every cell over the gate's nights, and its change points.",
        ),
    },
    "Guests": {
        "shell": (
            "guests:shell_command",
            "Open a shell in a guest: the kernel and disk of a cell.",
        ),
        "rerun": ("guests:rerun_command", "Repeat one boot, and compare its numbers."),
        "fleet": ("fleet:fleet", "Boot deterministic guests on many hosts."),
    },
    "Upkeep": {
        "doctor": (
            "measure:doctor_command",
            "Check this machine, and boot a guest with each engine.",
        ),
        "list": ("show:list_", "List all names that options take: series, topologies, runs ..."),
        "build": ("measure:build_command", "Build a kernel and print its path."),
        "calibrate": (
            "validity:calibrate_command",
            "Measure this machine, and print a machine model of it.",
        ),
        "validate": (
            "validity:validate_command",
            "Compare the simulation with measurements on real machines.",
        ),
        "gc": ("nightly:gc_command", "Delete what no record, baseline or recent run needs."),
        "schema": (
            "show:schema_command",
            "Print the JSON Schema of a TOML file or of --json output.",
        ),
        "completion": ("show:completion", "Print a script for command-line completion."),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def command(name: str) -> click.Command:
    """The command of a name of COMMANDS, its module imported."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    loaded = getattr(import_module(f"lab.cli.{module}"), attribute)
    assert isinstance(loaded, click.Command)
    return loaded


class _Group(click.Group):
    """A group that imports a command when it is run, and knows what a mistyped one was meant to be.

    Help and completion of click's own groups ask every command for its help.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<{width}}", text) for name, (_, text) in group.items()]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(f"no command is called {args[0]!r}", hint=nearest(args[0], COMMANDS))
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@click.version_option(__version__, prog_name="lab")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print every boot and every command; also LAB_VERBOSE=1.",
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print results only, no progress; also LAB_QUIET=1."
)
def lab(verbose: bool, quiet: bool) -> None:
    """Check what a kernel patch claims about the block layer.

    Exit codes: 0 done, or all claims hold. 1 a claim is refuted, or the patches are worse. 2 wrong
    usage or configuration. 3 the lab, a build or a guest failed. 4 inconclusive. 130 interrupted.
    """
    if verbose:
        os.environ[VERBOSE] = "1"
    if quiet:
        os.environ[QUIET] = "1"


def main(entry: click.Command = lab, program: str = "lab") -> None:
    """Run a command line and exit with the code that --help promises; program is its name there.

    Whatever escapes is one message and FAILED: a traceback's exit code would be a verdict.
    """
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is signal.SIG_DFL:  # nohup has the lab ignore one
            signal.signal(signum, _end)
    _notice_signals()
    atexit.register(_stay_done)
    os.umask(os.umask(0) | stat.S_IWOTH)  # what the lab runs, nobody else may change
    try:
        status = _answer(_status(entry, program))
        _flush(reported=status == ExitCode.FAILED)
    except BrokenPipeError:
        _give_up_output()
        status = ExitCode.CLOSED_PIPE
    sys.exit(status)


def _notice_signals() -> None:
    """Wake up every second: Python handles a signal that comes just before it waits for something,
    or that another thread took, only when the wait is over.
    """
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, _NOTICE_S, _NOTICE_S)


def _end(signum: int, frame: object) -> NoReturn:
    """End like an interrupted command: what is half made is deleted. Once is enough."""
    for ending_signal in (signal.SIGTERM, signal.SIGHUP):
        # Not SIG_IGN: Python prints a complaint about one that is on its way.
        signal.signal(ending_signal, lambda *_: None)
    sys.exit(ExitCode.SIGNAL + signum)


def _stay_done() -> None:
    """Ignore signals while Python ends: they would change the exit code of what is done."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)


def _flush(*, reported: bool) -> None:
    """Write what was printed; the lab reports a full disk here, for Python would end in its own
    way. With reported it was: some Pythons drop what they could not write, some try again.
    """
    try:
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        _give_up_output()
        if not reported:
            click.echo(f"lab: cannot print: {exc.strerror}", err=True)
        sys.exit(ExitCode.FAILED)


def _give_up_output() -> None:
    """Throw away what cannot be printed; Python would complain when it flushes that at its end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _status(entry: click.Command, program: str) -> int:
    """What the command ended with; what went wrong has been told."""
    try:
        status = entry.main(prog_name=program, standalone_mode=False)
        return status if isinstance(status, int) else ExitCode.DONE
    except click.ClickException as exc:
        exc.show()
        return ExitCode.USAGE
    except LabError as exc:
        click.echo(visible(f"lab: {exc}"), err=True)
        return exc.exit_code
    except SystemExit as exc:
        if exc.code == 1:  # click's for an output that nobody reads, and a verdict here
            raise BrokenPipeError from exc
        if not isinstance(exc.code, int) or exc.code <= ExitCode.SIGNAL:
            raise
        click.echo(
            f"\nlab: ended by {signal.Signals(exc.code - ExitCode.SIGNAL).name}; {_KEPT}", err=True
        )
        return exc.code
    except (KeyboardInterrupt, click.Abort):
        click.echo(f"\nlab: interrupted; {_KEPT}", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as exc:
        where = f": {exc.filename}" if exc.filename else ""
        click.echo(visible(f"lab: {exc.strerror or exc}{where}"), err=True)
        return ExitCode.FAILED
    except Exception as exc:
        what = f"{type(exc).__name__}: {exc}"
        click.echo(visible(f"lab: a mistake of the lab's own: {what}\n{_crash(exc)}"), err=True)
        return ExitCode.FAILED


def _answer(status: int) -> int:
    """A status, or for `git bisect run` what stops it unless it is good, bad or skip."""
    understood = (ExitCode.DONE, ExitCode.REFUTED, ExitCode.SKIP)
    if "--here" not in sys.argv or status in understood or status >= ExitCode.NO_VERDICT:
        return status
    return ExitCode.NO_VERDICT + status


def _crash(exc: Exception) -> str:
    """Where an exception that nobody expected is written down; itself where that cannot be."""
    text = "".join(traceback.format_exception(exc))
    try:
        folder = cache.make_folder(cache.root() / "logs")
        path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        path.write_text(f"{sys.argv}\n{text}")
    except (LabError, OSError):
        return text
    return f"  where: {path}\n  hint:  please report it with this file"

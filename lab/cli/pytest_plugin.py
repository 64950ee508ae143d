# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims as pytest items: ``pytest -k bfq_burst_merge`` judges that series.

Every series.toml gives an item ``SERIES.well_formed`` and one for each claim and each check. A
claim passes when it holds and fails when it is refuted or inconclusive; a known miss is a strict
xfail, a check that fails an xfail unless --lab-strict says otherwise. It is an error when the lab
failed. All selected claims are judged together, as ``lab run`` does, out of the same store, and
like it they leave a record and a page.
"""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.base.errors import ExitCode, LabError
from lab.base.text import visible
from lab.inputs import profile, series
from lab.inputs.terms import Verdict
from lab.judge import judge, well_formed
from lab.judge.verdict import Judged
from lab.measure.session import Session
from lab.report import finish, terminal, view
from lab.report.finish import Finished
from lab.report.run_builder import RunBuilder
from lab.report.run_record import ClaimRecord, RunRecord

_RUN = pytest.StashKey[RunRecord]()
_FINISHED = pytest.StashKey[Finished]()
_VERDICT = "verdict"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lab-profile", default="quick", help="the profile that claims are judged with"
    )
    parser.addoption(
        "--lab-host-time",
        action="store_true",
        help="time guests by the host's clock without KVM too",
    )
    parser.addoption(
        "--lab-strict",
        action="store_true",
        help="measure the lab's own checks, too, and let them fail like published claims",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "claim: judges a claim of a patch series on real kernels")
    if hasattr(config, "workerinput") or threading.current_thread() is not threading.main_thread():
        return
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, _end)
            config.add_cleanup(partial(_end_as_usual, signum))


def _end_as_usual(signum: int) -> None:
    signal.signal(signum, signal.SIG_DFL)


def _end(signum: int, frame: object) -> NoReturn:
    """End the whole session: what is half made is deleted, and no further claim is measured."""
    pytest.exit(f"ended by {signal.Signals(signum).name}", returncode=ExitCode.SIGNAL + signum)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name == "series.toml" and file_path.parent.parent == series.FOLDER:
        return SeriesFile.from_parent(parent, path=file_path)
    return None


class SeriesFile(pytest.File):
    """One series.toml."""

    def collect(self) -> Iterator[pytest.Item]:
        """The item that checks the file and, when it can be read, one for each claim."""
        name = self.path.parent.name
        yield WellFormed.from_parent(self, name=f"{name}.well_formed")
        try:
            claims = series.get(name).all_claims
        except LabError:
            return  # well_formed says what is wrong, and other series are judged all the same
        for title in claims:
            item = ClaimItem.from_parent(self, name=f"{name}.{title}")
            item.add_marker("claim")
            yield item


class WellFormed(pytest.Item):
    """Whether a series.toml is right."""

    def runtest(self) -> None:
        """Read and check it."""
        well_formed.check(series.get(self.path.parent.name))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> str:
        """The lab's own message."""
        return visible(str(excinfo.value))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands."""
        return self.path, None, f"series.toml: {self.name}"


class NotShownError(Exception):
    """A claim that does not hold; the text says what was measured."""


class ClaimItem(pytest.Item):
    """One claim of a series."""

    @property
    def claim(self) -> tuple[str, str]:
        """Series and claim."""
        name, _, title = self.name.partition(".")
        return name, title

    def setup(self) -> None:
        """Measure, all selected claims at once; the lab's own failures are raised here."""
        record = self._record()
        errors = [finding for finding in record.findings if finding.verdict is Verdict.ERROR]
        if errors:
            raise LabError(errors[0].reason)

    def runtest(self) -> None:
        """Pass when the claim holds, xfail when it is missed as it is recorded; skip when the
        profile leaves all of it out. A check that fails is an xfail unless checks are strict.
        """
        record = self._record()
        self.user_properties.append((_VERDICT, view.verdict(record)))
        text = visible("\n".join(terminal.claim(record)))
        self.add_report_section("call", "claim", text)
        if record.verdict is Verdict.SKIPPED:
            pytest.skip(record.findings[0].reason)
        if record.counts_as is not Verdict.HOLDS:
            if record.is_check and not record.breaks and not self.config.getoption("lab_strict"):
                pytest.xfail(f"a check of the lab's own: {_reason(record)}")
            raise NotShownError(text)
        if record.verdict is not Verdict.HOLDS:
            pytest.xfail(f"known miss: {_reason(record)}")

    def _record(self) -> ClaimRecord:
        """The claim in the record. Raises LabError when its series could not be judged."""
        name, title = self.claim
        (series_record,) = (entry for entry in _run(self.session).series if entry.name == name)
        if series_record.error:
            raise LabError(series_record.error)
        return next(claim for claim in series_record.claims if claim.name == title)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """Published, expected and measured instead of a traceback."""
        if isinstance(excinfo.value, NotShownError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands."""
        return self.path, None, f"claim {self.name}"


def _reason(claim: ClaimRecord) -> str:
    """Why a claim does not hold, on one line."""
    decisive = view.deciding(claim)
    if decisive is None:
        return str(claim.verdict)
    return view.of_finding(decisive).known_miss or decisive.reason


def _run(session: pytest.Session) -> RunRecord:
    """The record of the selected claims; they are measured when it is first asked for."""
    config = session.config
    if _RUN not in config.stash:
        if hasattr(config, "workerinput"):
            raise LabError("claims cannot be judged side by side", hint="run pytest without -n")
        wanted = [item.claim for item in session.items if isinstance(item, ClaimItem)]
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            lab_profile = profile.get(config.getoption("lab_profile"))
            if config.getoption("lab_strict"):
                lab_profile = lab_profile.model_copy(update={"checks": True})
            lab = Session(lab_profile, host_time=config.getoption("lab_host_time"))
            lab.progress.say("")
            config.stash[_RUN] = run = _measured(wanted, lab, config)
            config.stash[_FINISHED] = finish.finish(run, lab.store)
    return config.stash[_RUN]


def _measured(wanted: Sequence[tuple[str, str]], lab: Session, config: pytest.Config) -> RunRecord:
    wanted_series = [series.get(name) for name in dict.fromkeys(name for name, _ in wanted)]
    try:
        judged = judge.judge(wanted_series, lab, claims=wanted)
    except LabError as exc:  # of all claims, not to be met again by each of them
        judged = tuple(Judged(patch_series, (), str(exc)) for patch_series in wanted_series)
    title = f"Verdicts on {', '.join(patch_series.name for patch_series in wanted_series)}"
    command = shlex.join(["pytest", *map(str, config.invocation_params.args)])
    return RunBuilder(lab, title, command).judged(judged)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The lab's own failures as their message: errors of set-up do not go by repr_failure."""
    report = yield
    if isinstance(item, ClaimItem) and call.excinfo and call.excinfo.errisinstance(LabError):
        report.longrepr = visible(str(call.excinfo.value))
    return report


def pytest_report_teststatus(
    report: pytest.TestReport | pytest.CollectReport,
) -> tuple[str, str, str] | None:
    """The verdict in the place of PASSED and FAILED."""
    if not isinstance(report, pytest.TestReport) or report.when != "call":
        return None
    verdict = dict(report.user_properties).get(_VERDICT)
    if verdict is None:
        return None
    if report.skipped:
        return ("xfailed", "x", str(verdict)) if hasattr(report, "wasxfail") else None
    outcome = "passed" if report.passed else "failed"
    return outcome, "." if report.passed else "F", str(verdict)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Published, expected and measured of all that was judged."""
    if finished := config.stash.get(_FINISHED, None):
        terminalreporter.section("claims")
        terminalreporter.write_line(f"{finished.text}\n{finished.places}")

# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims as pytest items: ``pytest -k bfq_burst_merge`` judges that series.

Every series.toml gives an item ``SERIES.well_formed`` and one for each claim. A claim passes when
it holds and fails when it is refuted or inconclusive; it is an error when the lab failed. All
selected claims are judged together, as ``lab run`` does, and out of the same store.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.inputs import profile, series
from lab.inputs.terms import Verdict
from lab.judge import experiment, judge
from lab.judge.verdict import Judged, of_claim
from lab.measure.boot_store import BootStore
from lab.report import terminal

_JUDGED = pytest.StashKey[dict[str, Judged]]()
_VERDICT = "verdict"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--lab-profile", default="quick", help="the profile that claims are judged with"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "claim: judges a claim of a patch series on real kernels")


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
            claims = series.get(name).claims
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
        name = self.path.parent.name
        experiment.check(name, series.get(name))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> str:
        """The lab's own message."""
        return str(excinfo.value)

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
        judged = _judged(self.session)[self.claim[0]]
        if judged.error:
            raise LabError(judged.error)
        errors = [f for f in judged.claims()[self.claim[1]] if f.verdict is Verdict.ERROR]
        if errors:
            raise LabError(errors[0].reason)

    def runtest(self) -> None:
        """Pass when the claim holds; skip when the profile leaves all of it out."""
        judged = _judged(self.session)[self.claim[0]]
        found = judged.claims()[self.claim[1]]
        verdict = of_claim(found)
        self.user_properties.append((_VERDICT, str(verdict)))
        text = "\n".join(terminal.claim(judged, self.claim[1], found))
        self.add_report_section("call", "claim", text)
        if verdict is Verdict.LEFT_OUT:
            pytest.skip(found[0].reason)
        if verdict is not Verdict.HOLDS:
            raise NotShownError(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """Published, expected and measured instead of a traceback."""
        if isinstance(excinfo.value, NotShownError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, *args)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands."""
        return self.path, None, f"claim {self.name}"


def _judged(session: pytest.Session) -> dict[str, Judged]:
    """What was found of the selected claims' series; measured when first asked for."""
    config = session.config
    if _JUDGED not in config.stash:
        if hasattr(config, "workerinput"):
            raise LabError("claims cannot be judged side by side", hint="run pytest without -n")
        wanted = [item.claim for item in session.items if isinstance(item, ClaimItem)]
        names = list(dict.fromkeys(name for name, _ in wanted))
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            progress = Progress()
            progress.say("")
            chosen = profile.get(config.getoption("lab_profile"))
            try:
                found = judge.judge(names, chosen, BootStore(), progress, claims=wanted).series
            except LabError as exc:  # of all claims, not to be met again by each of them
                found = tuple(Judged(name, series.get(name), (), str(exc)) for name in names)
        config.stash[_JUDGED] = {judged.name: judged for judged in found}
    return config.stash[_JUDGED]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The lab's own failures as their message: errors of set-up do not go by repr_failure."""
    report = yield
    if isinstance(item, ClaimItem) and call.excinfo and call.excinfo.errisinstance(LabError):
        report.longrepr = str(call.excinfo.value)
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
    outcome = "passed" if report.passed else "failed"
    return outcome, "." if report.passed else "F", str(verdict)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Published, expected and measured of all that was judged."""
    if judged := config.stash.get(_JUDGED, None):
        chosen = profile.get(config.getoption("lab_profile"))
        terminalreporter.section("claims")
        terminalreporter.write_line(terminal.text(list(judged.values()), chosen))

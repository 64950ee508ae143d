# SPDX-License-Identifier: GPL-2.0-or-later
"""Claims as pytest items: what passes, what fails, what is an error, and what is judged at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import examples
import pytest

from lab.base.errors import LabError
from lab.base.stats import Interval
from lab.base.system import PROJECT
from lab.inputs import series
from lab.inputs.series import Series
from lab.inputs.terms import Verdict
from lab.judge import judge
from lab.judge.finding import Evidence, Finding
from lab.judge.verdict import Judged
from lab.measure.boot_store import BootStore
from lab.measure.session import Session
from lab.report import record_store, terminal

pytest_plugins = ["pytester"]
# Each runs a pytest of its own.
pytestmark = pytest.mark.slow

HEAD = 'title = "a title"\norigin = "somewhere"\n'
_CLAIM = """
[claims.{name}]
published = "40 % faster"
topology = "nullb"
scheduler = "bfq"
workload = "randread_burst"
[[claims.{name}.expect]]
metric = "iops"
change = ">= +20%"
because = "half of it"
"""


def claim(name: str) -> str:
    """The table of a claim in series.toml."""
    return _CLAIM.format(name=name)


@dataclass
class Project:
    """A project whose judge finds what it is told: by claim, else that it holds."""

    pytester: pytest.Pytester
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    broken: BaseException | None = None
    signal: int = 0
    calls: list[tuple[list[str], str, set[tuple[str, str]]]] = field(default_factory=list)

    def run(self, *options: str) -> tuple[dict[str, str], str]:
        """What verbose pytest says of each item, and all that it printed."""
        plugins = ("lab.cli.pytest_plugin", "no:cacheprovider", "no:hypothesispytest")
        chosen = [option for name in plugins for option in ("-p", name)]
        done = self.pytester.runpytest_inprocess(*chosen, "-v", "--strict-markers", *options)
        words = {}
        for line in done.outlines:
            if line.startswith("kernel-patches/") and "::" in line:
                name, word = line.partition("::")[2].split(None, 1)
                words[name] = word.rpartition("[")[0].strip()
        return words, done.stdout.str()

    def write(self, name: str, text: str) -> Path:
        """Make the series.toml of a series."""
        path = self.pytester.path / "kernel-patches" / name / "series.toml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    def judge(
        self,
        wanted: Sequence[Series],
        session: Session,
        *,
        claims: Collection[tuple[str, str]] = (),
    ) -> tuple[Judged, ...]:
        names = [patch_series.name for patch_series in wanted]
        self.calls.append((names, session.profile.title, set(claims)))
        session.progress.say("a line of the judge")
        if self.signal:
            signal.raise_signal(self.signal)
        if self.broken:
            raise self.broken
        return tuple(
            self._series(
                patch_series, {title for name, title in claims if name == patch_series.name}
            )
            for patch_series in wanted
        )

    def _series(self, patch_series: Series, titles: set[str]) -> Judged:
        if patch_series.name in self.errors:
            return Judged(patch_series, (), self.errors[patch_series.name])
        findings = tuple(
            self._finding(patch_series, title)
            for title in patch_series.all_claims
            if title in titles
        )
        return Judged(patch_series, findings)

    def _finding(self, patch_series: Series, title: str) -> Finding:
        claim = patch_series.all_claims[title]
        experiment = examples.experiment(
            claim.expect[0], series=patch_series.name, claim=title, is_check=claim.is_check
        )
        verdict = self.verdicts.get(title, Verdict.HOLDS)
        finding = Finding(experiment=experiment, evidence=Evidence(), verdict=verdict, reason="why")
        if verdict is Verdict.ERROR:
            return replace(finding, reason="arm before failed: BUG")
        evidence = Evidence(((100.0,), (150.0,)))
        interval = Interval(0.4, 0.6)
        finding = replace(finding, evidence=evidence, measured=(100.0, 150.0), measured_change=0.5)
        return replace(finding, interval=interval, p=0.01)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one series, own, that claims one and two; and its judge."""
    made = Project(pytester)
    monkeypatch.setattr(series, "FOLDER", pytester.path / "kernel-patches")
    monkeypatch.setattr(judge, "judge", made.judge)
    made.write("own", HEAD + claim("one") + claim("two"))
    return made


def test_a_claim_passes_when_it_holds_and_shows_its_verdict(project: Project) -> None:
    project.verdicts = {"two": Verdict.REFUTED}
    words, text = project.run()
    assert words == {"own.well_formed": "PASSED", "own.one": "HOLDS", "own.two": "REFUTED"}
    assert "1 failed, 2 passed" in text


@pytest.mark.parametrize("verdict", [Verdict.REFUTED, Verdict.INCONCLUSIVE])
def test_a_claim_that_does_not_hold_shows_what_was_measured_and_no_traceback(
    project: Project, verdict: Verdict
) -> None:
    project.verdicts = {"one": verdict}
    words, text = project.run("-k", "one")
    assert words == {"own.one": verdict}
    failure = text.partition("= FAILURES =")[2].partition("= claims =")[0]
    for part in (
        "Published: 40 % faster",
        "expected  before -> after >= +20%",
        "150.0 host-clock IOPS",
    ):
        assert part in failure
    assert "Traceback" not in text
    assert "runtest" not in text


MISS = 'known_miss = { measured = "%s", date = 2026-11-25, reason = "too few CPUs" }\n'


@pytest.mark.parametrize(
    ("measured", "verdict", "outcome", "message"),
    [
        ("+40% .. +60%", Verdict.REFUTED, "1 xfailed", "too few CPUs"),
        ("-10% .. +10%", Verdict.HOLDS, "1 failed", "remove known_miss from series.toml"),
        ("-10% .. +10%", Verdict.REFUTED, "1 failed", "what is measured lies outside"),
    ],
)
def test_a_known_miss_is_a_strict_xfail(
    project: Project,
    measured: str,
    verdict: Verdict,
    outcome: str,
    message: str,
) -> None:
    project.write("other", HEAD + claim("three") + MISS % measured)
    project.verdicts = {"three": verdict}
    _, text = project.run("-k", "three", "-rx")
    assert f" {outcome}" in text
    assert message in " ".join(text.split())


def test_a_check_that_fails_is_an_xfail_unless_checks_are_strict(project: Project) -> None:
    text = claim("three").replace("[claims", "[checks").replace("published", "title")
    project.write("other", HEAD + text)
    project.verdicts = {"three": Verdict.REFUTED}
    assert " 1 xfailed in" in project.run("-k", "three")[1]
    assert " 1 failed" in project.run("-k", "three", "--lab-strict")[1]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_session_without_a_traceback(
    project: Project, signum: signal.Signals
) -> None:
    project.signal = signum
    before = signal.signal(signum, signal.SIG_DFL)  # as in a session of its own
    try:
        done = project.pytester.runpytest_inprocess(
            "-p", "lab.cli.pytest_plugin", "-p", "no:cacheprovider"
        )
    finally:
        signal.signal(signum, before)
    assert done.ret == 128 + signum
    text = f"{done.stdout}{done.stderr}"
    assert f"Exit: ended by {signum.name}" in text
    assert "Traceback" not in text
    assert len(project.calls) == 1


def test_the_name_of_a_series_selects_its_claims_alone() -> None:
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-k", "bfq_burst_merge"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    items = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(items) > 2
    assert all("series.toml::bfq_burst_merge." in item for item in items)


def test_all_selected_claims_are_judged_together_and_once(project: Project) -> None:
    project.write("other", HEAD + claim("three"))
    words, _ = project.run("--lab-profile", "standard", "-k", "one or three")
    assert words == {"own.one": "HOLDS", "other.three": "HOLDS"}
    ((names, title, claims),) = project.calls
    assert sorted(names) == ["other", "own"]
    assert "several times" in title
    assert claims == {("own", "one"), ("other", "three")}


def test_a_series_is_selected_by_its_name(project: Project) -> None:
    project.write("other", HEAD + claim("three"))
    words, _ = project.run("-k", "other")
    assert words == {"other.well_formed": "PASSED", "other.three": "HOLDS"}
    assert [names for names, _, _ in project.calls] == [["other"]]


@pytest.mark.parametrize("options", [["-m", "not claim"], ["-k", "well_formed"], ["--co"]])
def test_without_a_selected_claim_nothing_is_judged_or_recorded(
    project: Project, options: list[str]
) -> None:
    _, text = project.run(*options)
    assert project.calls == []
    assert "= claims =" not in text
    assert record_store.known(BootStore().folder) == []


def test_a_run_leaves_a_record_and_a_page_and_names_them(project: Project) -> None:
    project.verdicts = {"two": Verdict.REFUTED}
    _, text = project.run()
    results = BootStore().folder
    (name,) = record_store.known(results)
    folder = results / "runs" / name
    assert f"Report: {folder / 'report.html'}" in text
    assert (folder / "report.html").exists()
    made = record_store.load(folder)
    assert made.command.startswith("pytest -p lab.cli.pytest_plugin")
    (series_record,) = made.series
    assert {claim.name: claim.verdict for claim in series_record.claims} == {
        "one": Verdict.HOLDS,
        "two": Verdict.REFUTED,
    }
    report = text.partition("= claims =")[2]
    assert terminal.screen(made).strip() in "\n".join(map(str.rstrip, report.splitlines()))


def test_what_the_judge_says_is_seen_while_it_works(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    project.run()
    assert "a line of the judge" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "not valid TOML"),
        (HEAD.replace("title", "titel") + claim("three"), "did you mean 'title'"),
        (HEAD + claim("three").replace("+20%", "20"), "a change is in percent"),
    ],
)
def test_a_malformed_file_fails_its_own_item_only(project: Project, text: str, said: str) -> None:
    path = project.write("broken", text)
    words, printed = project.run()
    assert words == {
        "broken.well_formed": "FAILED",
        "own.well_formed": "PASSED",
        "own.one": "HOLDS",
        "own.two": "HOLDS",
    }
    assert said in printed
    assert str(path) in printed
    assert "Traceback" not in printed
    assert [names for names, _, _ in project.calls] == [["own"]]


def test_a_name_that_does_not_exist_fails_well_formed(project: Project) -> None:
    project.write("broken", HEAD + claim("three").replace("iops", "iopss"))
    words, printed = project.run("-k", "well_formed")
    assert words == {"broken.well_formed": "FAILED", "own.well_formed": "PASSED"}
    assert "did you mean 'iops'" in printed


def test_a_series_or_a_base_kernel_that_breaks_is_an_error_of_its_claims(project: Project) -> None:
    project.write("other", HEAD + claim("three"))
    project.errors = {"other": "0001.patch does not apply"}
    project.verdicts = {"two": Verdict.ERROR}
    words, text = project.run("-m", "claim")
    assert words == {"own.one": "HOLDS", "own.two": "ERROR", "other.three": "ERROR"}
    errors = text.partition("= ERRORS =")[2]
    assert "0001.patch does not apply" in errors
    assert "arm before failed: BUG" in errors
    assert "Traceback" not in text


def test_a_lab_that_fails_is_asked_once_and_is_an_error_of_every_claim(project: Project) -> None:
    project.broken = LabError("QEMU is missing", hint="install it")
    words, text = project.run()
    assert words == {"own.well_formed": "PASSED", "own.one": "ERROR", "own.two": "ERROR"}
    assert len(project.calls) == 1
    assert "QEMU is missing" in text.partition("= ERRORS =")[2]
    assert "hint:  install it" in text
    assert "Traceback" not in text


def test_an_unknown_profile_is_an_error_with_the_nearest_one(project: Project) -> None:
    words, text = project.run("--lab-profile", "qick", "-k", "one")
    assert words == {"own.one": "ERROR"}
    assert "did you mean 'quick'" in text
    assert project.calls == []


def test_claims_are_not_judged_side_by_side(project: Project) -> None:
    project.pytester.makeconftest("def pytest_configure(config):\n    config.workerinput = {}\n")
    words, text = project.run("-k", "one")
    assert words == {"own.one": "ERROR"}
    assert "run pytest without -n" in text
    assert project.calls == []


def test_only_files_of_the_series_folder_are_collected(project: Project) -> None:
    for name in ("elsewhere/own", "kernel-patches/own/series"):
        path = project.pytester.path / name
        path.mkdir(parents=True)
        (path / "series.toml").write_text(HEAD)
    words, _ = project.run("-m", "not claim")
    assert words == {"own.well_formed": "PASSED"}

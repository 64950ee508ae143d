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
CLAIM = """
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


@dataclass
class Judge:
    """A judge that finds what it is told: by claim, else that it holds."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    broken: BaseException | None = None
    signal: int = 0
    calls: list[tuple[list[str], str, set[tuple[str, str]]]] = field(default_factory=list)

    def __call__(
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
def fake(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A project with one series, own, that claims one and two; and its judge."""
    fake_judge = Judge()
    monkeypatch.setattr(series, "FOLDER", pytester.path / "kernel-patches")
    monkeypatch.setattr(judge, "judge", fake_judge)
    write(pytester, "own", HEAD + CLAIM.format(name="one") + CLAIM.format(name="two"))
    return fake_judge


def write(pytester: pytest.Pytester, name: str, text: str) -> Path:
    path = pytester.path / "kernel-patches" / name / "series.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def run(pytester: pytest.Pytester, *options: str) -> tuple[dict[str, str], str]:
    """What verbose pytest says of each item, and all that it printed."""
    plugins = ("lab.cli.pytest_plugin", "no:cacheprovider", "no:hypothesispytest")
    chosen = [option for name in plugins for option in ("-p", name)]
    done = pytester.runpytest_inprocess(*chosen, "-v", "--strict-markers", *options)
    words = {}
    for line in done.outlines:
        if line.startswith("kernel-patches/") and "::" in line:
            name, word = line.partition("::")[2].split(None, 1)
            words[name] = word.rpartition("[")[0].strip()
    return words, done.stdout.str()


def test_a_claim_passes_when_it_holds_and_shows_its_verdict(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    fake.verdicts = {"two": Verdict.REFUTED}
    words, text = run(pytester)
    assert words == {"own.well_formed": "PASSED", "own.one": "HOLDS", "own.two": "REFUTED"}
    assert "1 failed, 2 passed" in text


@pytest.mark.parametrize("verdict", [Verdict.REFUTED, Verdict.INCONCLUSIVE])
def test_a_claim_that_does_not_hold_shows_what_was_measured_and_no_traceback(
    pytester: pytest.Pytester, fake: Judge, verdict: Verdict
) -> None:
    fake.verdicts = {"one": verdict}
    words, text = run(pytester, "-k", "one")
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
    pytester: pytest.Pytester,
    fake: Judge,
    measured: str,
    verdict: Verdict,
    outcome: str,
    message: str,
) -> None:
    write(pytester, "other", HEAD + CLAIM.format(name="three") + MISS % measured)
    fake.verdicts = {"three": verdict}
    _, text = run(pytester, "-k", "three", "-rx")
    assert f" {outcome}" in text
    assert message in " ".join(text.split())


def test_a_check_that_fails_is_an_xfail_unless_checks_are_strict(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    text = CLAIM.format(name="three").replace("[claims", "[checks").replace("published", "title")
    write(pytester, "other", HEAD + text)
    fake.verdicts = {"three": Verdict.REFUTED}
    assert " 1 xfailed in" in run(pytester, "-k", "three")[1]
    assert " 1 failed" in run(pytester, "-k", "three", "--lab-strict")[1]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_session_without_a_traceback(
    pytester: pytest.Pytester, fake: Judge, signum: signal.Signals
) -> None:
    fake.signal = signum
    before = signal.signal(signum, signal.SIG_DFL)  # as in a session of its own
    try:
        done = pytester.runpytest_inprocess("-p", "lab.cli.pytest_plugin", "-p", "no:cacheprovider")
    finally:
        signal.signal(signum, before)
    assert done.ret == 128 + signum
    text = f"{done.stdout}{done.stderr}"
    assert f"Exit: ended by {signum.name}" in text
    assert "Traceback" not in text
    assert len(fake.calls) == 1


def test_the_name_of_a_series_selects_its_claims_alone() -> None:
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-k", "bfq_burst_merge"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    items = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(items) > 2
    assert all("series.toml::bfq_burst_merge." in item for item in items)


def test_all_selected_claims_are_judged_together_and_once(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    write(pytester, "other", HEAD + CLAIM.format(name="three"))
    words, _ = run(pytester, "--lab-profile", "standard", "-k", "one or three")
    assert words == {"own.one": "HOLDS", "other.three": "HOLDS"}
    ((names, title, claims),) = fake.calls
    assert sorted(names) == ["other", "own"]
    assert "several times" in title
    assert claims == {("own", "one"), ("other", "three")}


def test_a_series_is_selected_by_its_name(pytester: pytest.Pytester, fake: Judge) -> None:
    write(pytester, "other", HEAD + CLAIM.format(name="three"))
    words, _ = run(pytester, "-k", "other")
    assert words == {"other.well_formed": "PASSED", "other.three": "HOLDS"}
    assert [names for names, _, _ in fake.calls] == [["other"]]


@pytest.mark.parametrize("options", [["-m", "not claim"], ["-k", "well_formed"], ["--co"]])
def test_without_a_selected_claim_nothing_is_judged(
    pytester: pytest.Pytester, fake: Judge, options: list[str]
) -> None:
    _, text = run(pytester, *options)
    assert fake.calls == []
    assert "= claims =" not in text


def test_the_report_ends_with_all_that_was_judged(pytester: pytest.Pytester, fake: Judge) -> None:
    fake.verdicts = {"two": Verdict.INCONCLUSIVE}
    _, text = run(pytester)
    report = text.partition("= claims =")[2]
    for part in ("own: INCONCLUSIVE", "one ", "two ", "HOLDS", "INCONCLUSIVE"):
        assert part in report


def test_a_run_leaves_a_record_and_a_page_and_names_them(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    fake.verdicts = {"two": Verdict.REFUTED}
    _, text = run(pytester)
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
    assert terminal.screen(made).strip() in "\n".join(map(str.rstrip, text.splitlines()))


def test_without_a_claim_no_run_is_recorded(pytester: pytest.Pytester, fake: Judge) -> None:
    run(pytester, "-k", "well_formed")
    assert record_store.known(BootStore().folder) == []


def test_what_the_judge_says_is_seen_while_it_works(
    pytester: pytest.Pytester, fake: Judge, capfd: pytest.CaptureFixture[str]
) -> None:
    run(pytester)
    assert "a line of the judge" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "not valid TOML"),
        (HEAD.replace("title", "titel") + CLAIM.format(name="three"), "did you mean 'title'"),
        (HEAD + CLAIM.format(name="three").replace("+20%", "20"), "a change is in percent"),
    ],
)
def test_a_malformed_file_fails_its_own_item_only(
    pytester: pytest.Pytester, fake: Judge, text: str, said: str
) -> None:
    path = write(pytester, "broken", text)
    words, printed = run(pytester)
    assert words == {
        "broken.well_formed": "FAILED",
        "own.well_formed": "PASSED",
        "own.one": "HOLDS",
        "own.two": "HOLDS",
    }
    assert said in printed
    assert str(path) in printed
    assert "Traceback" not in printed
    assert [names for names, _, _ in fake.calls] == [["own"]]


def test_a_name_that_does_not_exist_fails_well_formed(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    write(pytester, "broken", HEAD + CLAIM.format(name="three").replace("iops", "iopss"))
    words, printed = run(pytester, "-k", "well_formed")
    assert words == {"broken.well_formed": "FAILED", "own.well_formed": "PASSED"}
    assert "did you mean 'iops'" in printed


def test_a_series_that_could_not_be_prepared_is_an_error_of_its_claims(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    write(pytester, "other", HEAD + CLAIM.format(name="three"))
    fake.errors = {"other": "0001.patch does not apply"}
    words, text = run(pytester, "-m", "claim")
    assert words == {"own.one": "HOLDS", "own.two": "HOLDS", "other.three": "ERROR"}
    assert "0001.patch does not apply" in text.partition("= ERRORS =")[2]
    assert "Traceback" not in text


def test_a_base_kernel_that_breaks_is_an_error_of_the_claim(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    fake.verdicts = {"two": Verdict.ERROR}
    words, text = run(pytester, "-m", "claim")
    assert words == {"own.one": "HOLDS", "own.two": "ERROR"}
    assert "arm before failed: BUG" in text.partition("= ERRORS =")[2]


def test_a_lab_that_fails_is_asked_once_and_is_an_error_of_every_claim(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    fake.broken = LabError("QEMU is missing", hint="install it")
    words, text = run(pytester)
    assert words == {"own.well_formed": "PASSED", "own.one": "ERROR", "own.two": "ERROR"}
    assert len(fake.calls) == 1
    assert "QEMU is missing" in text.partition("= ERRORS =")[2]
    assert "hint:  install it" in text
    assert "Traceback" not in text


def test_an_unknown_profile_is_an_error_with_the_nearest_one(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    words, text = run(pytester, "--lab-profile", "qick", "-k", "one")
    assert words == {"own.one": "ERROR"}
    assert "did you mean 'quick'" in text
    assert fake.calls == []


def test_claims_are_not_judged_side_by_side(pytester: pytest.Pytester, fake: Judge) -> None:
    pytester.makeconftest("def pytest_configure(config):\n    config.workerinput = {}\n")
    words, text = run(pytester, "-k", "one")
    assert words == {"own.one": "ERROR"}
    assert "run pytest without -n" in text
    assert fake.calls == []


def test_only_files_of_the_series_folder_are_collected(
    pytester: pytest.Pytester, fake: Judge
) -> None:
    for name in ("elsewhere/own", "kernel-patches/own/series"):
        path = pytester.path / name
        path.mkdir(parents=True)
        (path / "series.toml").write_text(HEAD)
    words, _ = run(pytester, "-m", "not claim")
    assert words == {"own.well_formed": "PASSED"}

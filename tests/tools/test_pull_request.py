# SPDX-License-Identifier: GPL-2.0-or-later
"""The job for pull requests: what it asks the lab, what it tells, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import examples
import pytest
from click.testing import CliRunner, Result

from lab.measure.boot_store import BootStore
from lab.report import record_store
from lab.report.run_record import RunRecord
from tools import pull_request

PROJECT = Path(__file__).parents[2]


def git(folder: Path, *words: str) -> str:
    """Run git in a folder as somebody; its output."""
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    argv = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    """A repository with a branch `next`, which went on, and `mine`, checked out, beside it."""
    folder = tmp_path / "linux"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "next")
    git(folder, "commit", "-q", "--allow-empty", "-m", "base")
    git(folder, "branch", "mine")
    git(folder, "commit", "-q", "--allow-empty", "-m", "of others")
    git(folder, "checkout", "-q", "mine")
    git(folder, "commit", "-q", "--allow-empty", "-m", "mine")
    return folder


@dataclass
class Job:
    """A job on a runner with a lab that answers as told."""

    folder: Path
    linux: Path
    monkeypatch: pytest.MonkeyPatch

    def run(self, record: RunRecord | None, status: int, *options: str) -> Result:
        """Run it where `lab` prints a record, or nothing, and ends with a status."""
        lab, said = self.folder / "lab", ""
        if record:
            record_store.save(record, BootStore().folder)
            said = record.model_dump_json()
        (self.folder / "said").write_text(said)
        asked = shlex.quote(str(self.folder / "asked"))
        lab.write_text(f'#!/bin/sh\necho "$@" >{asked}\ncat {self.folder}/said\nexit {status}\n')
        lab.chmod(0o755)
        self.monkeypatch.setattr(pull_request, "LAB", lab)
        for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
            (self.folder / name).write_text("")
            self.monkeypatch.setenv(name, str(self.folder / name))
        words = [str(self.linux), "--base", "next", *options]
        return CliRunner().invoke(pull_request.pull_request, words)

    def file(self, name: str) -> str:
        """What the job wrote to one of its files."""
        return (self.folder / name).read_text()


@pytest.fixture
def job(tmp_path: Path, linux: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, linux, monkeypatch)


def costing(
    before: float, after: float, sure: float | None = None, unit: str = "instructions"
) -> RunRecord:
    """A run that found these costs of an I/O, sure of them that of one function; all by default."""
    run = examples.compared_run()
    functions = (("submit_bio", 0.0, after - before if sure is None else sure),)
    cost = run.costs[0].model_copy(
        update={"totals": (before, after), "functions": functions, "unit": unit}
    )
    return run.model_copy(update={"costs": (cost,), "tables": examples.tables_run().tables})


def test_the_lab_is_asked_about_the_commits_since_the_merge_base(job: Job, linux: Path) -> None:
    job.run(costing(100, 110), 1)
    base, head = git(linux, "rev-parse", "mine~"), git(linux, "rev-parse", "mine")
    assert git(linux, "merge-base", "next", "mine") == base
    words = f"try git:{linux}@{base}..{head} --tree git:{linux}@{base} --no-debug --json"
    assert job.file("asked") == f"{words}\n"


@pytest.mark.parametrize(
    ("after", "status", "told"),
    [
        (100.9, 0, False),
        (99.1, 0, False),
        (101.1, 0, True),
        (98.9, 0, True),
        (100, 1, True),
        (100.6, 4, False),
        (102, 4, True),
    ],
)
def test_what_differs_by_less_than_a_percent_is_not_told(
    job: Job, after: float, status: int, told: bool
) -> None:
    assert job.run(costing(100, after), status).exit_code == 0
    assert bool(job.file("GITHUB_STEP_SUMMARY")) == told


def test_what_chance_does_is_not_told(job: Job) -> None:
    for record in (costing(100, 90, sure=0.9), costing(100, 104, unit="ns")):
        job.run(record, 0)
        assert not job.file("GITHUB_STEP_SUMMARY")
    for record in (costing(100, 90, sure=1.1), costing(100, 94, unit="ns")):
        job.run(record, 0)
        assert job.file("GITHUB_STEP_SUMMARY")


def test_the_summary_begins_with_the_answer_and_has_thirty_lines(job: Job) -> None:
    table = examples.tables_run().tables[0]
    long = table.model_copy(update={"rows": table.rows * 40})
    run = costing(100, 110).model_copy(update={"tables": (long,)})
    job.run(run, 1)
    lines = job.file("GITHUB_STEP_SUMMARY").splitlines()
    assert len(lines) == pull_request.MOST_LINES
    assert any("What is" in line for line in lines[:4])
    assert "artifact" in lines[-1]


def test_the_artifact_is_the_folder_of_the_run(job: Job) -> None:
    run = costing(100, 110)
    job.run(run, 1)
    name, _, folder = job.file("GITHUB_OUTPUT").strip().partition("=")
    assert name == "run"
    assert json.loads((Path(folder) / "run.json").read_text())["id"] == run.id


@pytest.mark.parametrize("status", [0, 1, 4])
def test_the_job_only_fails_where_that_is_asked_for(job: Job, status: int) -> None:
    assert job.run(costing(100, 110), status).exit_code == 0
    assert job.run(costing(100, 110), status, "--strict").exit_code == status


@pytest.mark.parametrize("status", [2, 3])
def test_a_lab_that_fails_is_told(job: Job, status: int) -> None:
    assert job.run(None, status).exit_code == 0
    assert "could not measure" in job.file("GITHUB_STEP_SUMMARY")
    assert job.run(None, status, "--strict").exit_code == status


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "mine"), "no commit that mine has not"),
        (("--base", "nowhere"), "fetch-depth: 0"),
        (("--head", "nowhere"), "fetch-depth: 0"),
    ],
)
def test_commits_that_cannot_be_compared_are_an_error(
    job: Job, options: tuple[str, ...], message: str
) -> None:
    done = job.run(costing(100, 110), 0, *options)
    assert done.exit_code == 1
    assert message in done.output


def test_the_action_hands_its_inputs_to_the_script(tmp_path: Path) -> None:
    """The script is run as a runner does it, with a setup that does nothing."""
    script = tmp_path / "lab/.ci/pull-request"
    script.parent.mkdir(parents=True)
    script.write_text((PROJECT / ".ci/pull-request").read_text())
    script.chmod(0o755)
    (tmp_path / "lab/Makefile").write_text("setup:\n\t@:\n")
    python = tmp_path / "lab/.venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    (tmp_path / "tree").mkdir()
    action = (PROJECT / "action.yml").read_text()
    handed = re.findall(r"^        ([A-Z]+): \${{ inputs\.(\w+) }}$", action, re.MULTILINE)
    assert all(f"\n  {name}:\n" in action for _, name in handed)
    given = {"linux": "tree", "base": "next", "head": "mine", "strict": "true"}
    env = {variable: given[name] for variable, name in handed if name in given}
    assert len(env) == len(given)
    env["PATH"] = os.environ["PATH"]
    done = subprocess.run(
        [script], env=env, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    words = f"-m tools.pull_request {tmp_path}/tree --base next --head mine --strict"
    assert done.stdout == f"{words}\n"

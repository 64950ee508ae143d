# SPDX-License-Identifier: GPL-2.0-or-later
"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.base.errors import UsageError
from lab.cli import cell_options, main


def test_a_workload_is_named_once() -> None:
    assert cell_options.one_workload("randread_burst", "") == "randread_burst"
    assert cell_options.one_workload(None, "randread-01234567") == "randread-01234567"
    with pytest.raises(UsageError, match="--workload and --fio each name a workload"):
        cell_options.one_workload("randread_burst", "randread-01234567")


@pytest.mark.parametrize(
    "job", ["--rw=randread --bs=4k --runtime=9 --filename=/dev/sda", "own job.fio"]
)
def test_a_dry_run_says_what_is_changed_in_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "[a]\nrw=randread\nruntime=9\nfilename=/dev/sda\n"
    Path("own.fio").write_text(text)
    job = job.replace("own job", "own")
    argv = ["matrix", "--dry-run", "--engine", "exact", "--topology", "nullb_mq"]
    done = CliRunner().invoke(
        main.lab, [*argv, "--scheduler", "none", "--queue", "nomerges=2", "--fio", job]
    )
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert "runtime dropped: the amount of I/O is the lab's" in shown
    assert "filename=/dev/sda is the disk" in shown
    assert "1 exact nullb_mq none " in shown


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--lines", "--engine", "sim"], "--lines: sim does not tell that"),
        (["--callers", "submit_bio", "--engine", "sim"], "--callers: sim does not tell that"),
        (["--callers", "submit_bio", "--run", "true"], "--callers is for fio's I/O, not for --run"),
    ],
)
def test_only_fios_io_under_exact_is_told_by_line_and_by_call(more: list[str], what: str) -> None:
    argv = ["diff", "--scheduler", "none", "--scheduler", "bfq", *more]
    done = CliRunner().invoke(main.lab, argv)
    assert what in str(done.exception)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Before anything is built it is said which patches will be, whose they are, and which are not."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
from guests import FakeSession

from lab.base.errors import UsageError
from lab.base.process import run
from lab.base.system import data
from lab.build.patch_mail import Collected
from lab.cli import patches
from lab.cli.main import lab
from lab.inputs import profile


def test_what_will_be_applied_is_printed_and_does_nothing(tmp_path: Path) -> None:
    named, nameless = tmp_path / "0001-x.patch", tmp_path / "0002-y\x1b[2J.patch"
    named.write_text("From: A <a@example.org>\nSubject: x\n\nFrom: B \x07<b@example.org>\n\ny\n")
    nameless.write_text("--- a/x\n+++ b/x\n")
    session = FakeSession(profile.get("quick"))
    paths = patches._report_collected(
        Collected((named, nameless), ("\x1b]0;x\x07, by m@evil",)), session
    )
    assert paths == (named, nameless)
    assert session.said.splitlines() == [
        "  1  0001-x.patch, by B \\x07<b@example.org>",
        "  2  0002-y\\x1b[2J.patch",
        "     skipped: \\x1b]0;x\\x07, by m@evil",
    ]


def test_several_senders_end_it_before_anything_is_built(tmp_path: Path) -> None:
    mail = "From x@y Thu Jan  1 00:00:00 1970\nFrom: {}\nSubject: [PATCH] x\n\n--- a/x\n+++ b/x\n"
    box = tmp_path / "box"
    box.write_text(mail.format("a@b") + "\n" + mail.format("c@d"))
    with pytest.raises(UsageError, match="several people: a@b, c@d"):
        lab.main(["try", str(box)], standalone_mode=False)
    with pytest.raises(UsageError, match="e@f sent no patch"):
        lab.main(["try", str(box), "--from", "e@f"], standalone_mode=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--claim", "x"], "--claim names one of --claims"),
        (["--claims", "CLAIMS", "--each"], "--each goes without --claims"),
        (["--claims", "CLAIMS", "--topology", "nullb_mq"], "leave out --topology"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "x.patch").write_text("--- a/x\n+++ b/x\n")
    (tmp_path / "claims.toml").touch()
    argv = [word.replace("CLAIMS", str(tmp_path / "claims.toml")) for word in options]
    with pytest.raises(UsageError, match=said):
        lab.main(["try", str(tmp_path / "x.patch"), *argv], standalone_mode=False)


def test_a_base_commit_that_the_tree_has_is_taken_and_any_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        run(["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words])
    commit = run(["git", "-C", str(tmp_path), "rev-parse", "HEAD"]).output.strip()
    session = FakeSession(profile.get("quick"))
    spec = f"git:{tmp_path}@HEAD~0"
    assert patches._base(commit, spec, session) == f"git:{tmp_path}@{commit}"
    assert patches._base("0" * 40, spec, session) == spec
    assert patches._base(commit, "", session) == ""
    assert patches._base("", spec, session) == spec
    assert session.said.splitlines() == [
        f"     base-commit {commit[:12]}: applied there",
        f"     base-commit 000000000000 is not in {spec}: applied to that instead",
        f"     base-commit {commit[:12]} is not in {session.profile.tree}: applied to that instead",
    ]


def test_a_claims_file_may_be_a_pipe_and_is_not_read_without_end(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("--- a/x\n+++ b/x\n")
    argv = ["try", str(tmp_path / "x.patch"), "--dry-run", "--claims"]
    with pytest.raises(UsageError, match="larger than 1 MiB") as caught:
        lab.main([*argv, "/dev/zero"], standalone_mode=False)
    assert "/dev/zero" in caught.value.what
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = (data("kernel-patches") / "plug_time_cache/series.toml").read_text()
    writer = threading.Thread(target=lambda: pipe.write_text(text))
    writer.start()
    lab.main([*argv, str(pipe)], standalone_mode=False)
    writer.join()


def test_what_is_wrong_with_claims_is_told_of_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("--- a/x\n+++ b/x\n")
    text = (data("kernel-patches") / "plug_time_cache/series.toml").read_text()
    claims = tmp_path / "claims.toml"
    claims.write_text(text.replace("numjobs = 1", 'numjobs = "1\\nexec_prerun=id"'))
    argv = ["try", str(tmp_path / "x.patch"), "--claims", str(claims), "--dry-run"]
    with pytest.raises(UsageError, match="the parameter numjobs is a number") as caught:
        lab.main(argv, standalone_mode=False)
    assert str(claims) in caught.value.where


@pytest.mark.parametrize("tree", ["git:/nowhere/linux@main", "tar:/nowhere/linux.tar"])
def test_claims_of_a_stranger_name_no_source_of_this_machine(
    tmp_path: Path, tree: str, capsys: pytest.CaptureFixture[str]
) -> None:
    series = data("kernel-patches") / "plug_time_cache/series.toml"
    (tmp_path / "x.patch").write_text("--- a/x\n+++ b/x\n")
    claims = tmp_path / "claims.toml"
    text = series.read_text()
    (line,) = re.findall(r"^tree = .*$", text, re.MULTILINE)
    claims.write_text(text.replace(line, f'tree = "{tree}"'))
    argv = ["try", str(tmp_path / "x.patch"), "--claims", str(claims), "--dry-run"]
    with pytest.raises(UsageError, match="name a source of this machine") as caught:
        lab.main(argv, standalone_mode=False)
    assert f"--tree {tree}" in caught.value.hint
    assert str(claims) in caught.value.where
    lab.main([*argv, "--tree", tree], standalone_mode=False)
    assert f"the tree: {tree}" in capsys.readouterr().err

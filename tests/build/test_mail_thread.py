# SPDX-License-Identifier: GPL-2.0-or-later
"""The mail that a reply goes to, the commit that a series is for, and threads that b4 fetches."""

from __future__ import annotations

import mailbox
import os
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

from lab.base.errors import LabError, UsageError
from lab.base.process import run
from lab.build import lore, mail_thread, patch_mail, source

BOX = Path(__file__).parents[1] / "data/mailed-series.mbox"
BASE = "ebc418d630855b3a5125e690059fba2c59cbbefc"
FIRST = "[PATCH 1/2] block/mq-deadline: Pass over priorities without requests"


def mails() -> list[Message]:
    return [message_from_string(str(mail)) for mail in mailbox.mbox(BOX, create=False)]


def thread(*messages: Message) -> mail_thread.Thread | None:
    """The thread of Ada's series in a mailbox with these mails."""
    content = b"\n".join(message.as_bytes(unixfrom=True) for message in messages)
    return mail_thread.read(content, "box", FIRST, {"ada@example.org"})[0]


def test_a_series_is_answered_at_its_cover_letter() -> None:
    collected = patch_mail.collect(str(BOX))
    assert len(collected.patches) == 2
    assert collected.base_commit == BASE
    assert collected.thread == mail_thread.Thread(
        message_id="<20241119-dd-prio-v1-0-5d1c@example.org>",
        references=(),
        subject="[PATCH 0/2] block/mq-deadline: less work for each dispatch",
        sender="Ada Example <ada@example.org>",
        date="Tue, 19 Nov 2024 09:00:00 +0100",
        to=("Jens Example <jens@example.org>",),
        cc=("linux-block@lists.example.org", "=?utf-8?q?Bj=C3=B6rn_Beispiel?= <bjorn@example.org>"),
    )


def test_the_order_in_which_the_mails_came_does_not_matter() -> None:
    assert patch_mail.collect(str(BOX)).thread == thread(*mails()[::-1])


def test_without_a_cover_letter_the_first_patch_is_answered() -> None:
    patch = thread(*mails()[1:])
    assert patch
    assert patch.message_id == "<20241119-dd-prio-v1-1-5d1c@example.org>"
    assert patch.references == ("<20241119-dd-prio-v1-0-5d1c@example.org>",)


def test_nobody_elses_cover_letter_and_none_of_another_version_is_answered() -> None:
    forged, newer = mails()[0], mails()[0]
    forged.replace_header("From", "Mallory <m@example.org>")
    newer.replace_header("Subject", "[PATCH v2 0/2] block: all of it again")
    patch = thread(forged, newer, *mails()[1:])
    assert patch
    assert patch.message_id == "<20241119-dd-prio-v1-1-5d1c@example.org>"


@pytest.mark.parametrize("written", ["", "<>", "no brackets@x", "<a b@c>", "<x@y\nBcc: m@evil>"])
def test_without_a_message_id_there_is_no_thread(written: str) -> None:
    messages = mails()
    text = str(messages[0]).replace("<20241119-dd-prio-v1-0-5d1c@example.org>", written, 1)
    assert thread(message_from_string(text), *messages[1:]) is None


def test_a_malformed_mail_under_the_name_of_the_sender_is_skipped() -> None:
    head = "From: Ada Example <ada@example.org>\nContent-Type: text/plain; charset*=a\0b'x'y%ff"
    malformed = message_from_string(f"{head}\n\nx\n")
    assert thread(*mails(), malformed) == patch_mail.collect(str(BOX)).thread


def test_only_addresses_that_can_be_written_to_are_kept() -> None:
    messages = mails()
    people = 'a@b.org, A <A@B.org>, "x\\ny" <c@d.org>, undisclosed:;, evil, @'
    messages[0].replace_header("Cc", people)
    cover = thread(*messages)
    assert cover
    assert cover.cc == ("a@b.org", "xny <c@d.org>")


def test_a_folder_of_patches_may_name_its_base(tmp_path: Path) -> None:
    (tmp_path / "0001-x.patch").write_text(f"--- a/x\n+++ b/x\n\nbase-commit: {BASE}\n-- \n2.39\n")
    collected = patch_mail.collect(str(tmp_path))
    assert collected.base_commit == BASE
    assert collected.thread is None


def test_a_source_is_taken_at_a_commit_only_where_it_has_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "x"]):
        run(["git", "-C", str(tmp_path), *words])
    commit = run(["git", "-C", str(tmp_path), "rev-parse", "HEAD"]).output.strip()
    assert source.at_commit(f"git:{tmp_path}@master", commit[:12]) == f"git:{tmp_path}@{commit}"
    assert source.at_commit(f"git:{tmp_path}@master", BASE) == ""
    assert source.at_commit("debian:6.12", commit) == ""
    assert source.at_commit("", commit) == ""


def b4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program of that name, which is the first that is found."""
    program = tmp_path / "b4"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_a_thread_is_fetched_by_b4_and_read_as_any_mailbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = tmp_path / "asked"
    b4(tmp_path, monkeypatch, f'echo "$@" >{arguments}; cp {BOX} "$3/$5"')
    collected = patch_mail.collect("lore:<20241119-dd-prio-v1-0-5d1c@example.org>")
    assert collected == patch_mail.collect(str(BOX))
    words = arguments.read_text().split()
    assert [words[0], words[-1]] == ["mbox", "20241119-dd-prio-v1-0-5d1c@example.org"]


def test_what_b4_says_is_told_when_it_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    b4(tmp_path, monkeypatch, "echo 'Server returned an error: 404' >&2; exit 1")
    with pytest.raises(LabError, match="404") as caught:
        lore.thread("a@example.org")
    assert "mailbox" in caught.value.hint


def test_without_b4_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabError, match="b4 is not installed") as caught:
        lore.thread("a@example.org")
    assert "apt-get install b4" in caught.value.hint


@pytest.mark.parametrize("bad", ["", "x", "--config@x", "a b@c", "../../x@y/z", "a@b?x"])
def test_what_is_no_message_id_goes_to_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    b4(tmp_path, monkeypatch, f"touch {tmp_path}/was-run")
    with pytest.raises(UsageError, match="not a Message-ID"):
        lore.thread(bad)
    assert not (tmp_path / "was-run").exists()

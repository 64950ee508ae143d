# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches out of mailboxes, folders and git ranges: all of a series, in order, and nothing else."""

from __future__ import annotations

import io
import mailbox
import random
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import UsageError
from lab.base.process import run
from lab.build import patch_mail

DIFF = """what and why

Signed-off-by: A <a@example.org>
---
 block/a.c | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/block/a.c b/block/a.c
--- a/block/a.c
+++ b/block/a.c
@@ -1 +1 @@
-old
+new {name}
--
2.39.2
"""


def mail(subject: str, body: str = "", name: str = "x", encoding: str = "7bit") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "A Hacker <a@example.org>"
    message["Subject"] = subject
    message["Message-Id"] = f"<{hash(subject)}@example.org>"
    message.set_content(body or DIFF.replace("{name}", name), cte=encoding)
    return message


def box(tmp_path: Path, *mails: EmailMessage) -> bytes:
    path = tmp_path / "box"
    path.unlink(missing_ok=True)
    made = mailbox.mbox(path)
    for one in mails:
        made.add(one)
    made.close()
    return path.read_bytes()


def series(total: int, version: str = "") -> list[EmailMessage]:
    return [
        mail(f"[PATCH{version} {n}/{total}] block: step {n}", name=f"{version}{n}")
        for n in range(1, total + 1)
    ]


def test_cover_letter_and_replies_are_left_out(tmp_path: Path) -> None:
    one, two = series(2)
    cover = mail("[PATCH 0/2] block: two steps", "diffstat\n")
    reply = mail("Re: [PATCH 1/2] block: step 1", DIFF)
    review = mail("Re: [PATCH 2/2] block: step 2", "> diff --git a/x b/x\nlooks good\n")
    found = patch_mail.parse(box(tmp_path, cover, two, reply, one, review), "box")
    assert [patch.title for patch in found] == ["block: step 1", "block: step 2"]
    assert "+new 1" in found[0].text


@given(order=st.permutations(range(5)))
def test_order_of_arrival_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, order: list[int]
) -> None:
    mails = series(5)
    content = box(tmp_path_factory.mktemp("box"), *(mails[place] for place in order))
    assert [patch.number for patch in patch_mail.parse(content, "box")] == [1, 2, 3, 4, 5]


def test_the_newest_version_counts(tmp_path: Path) -> None:
    mails = series(2) + series(3, " v3") + series(2, " v2")
    random.Random(1).shuffle(mails)
    found = patch_mail.parse(box(tmp_path, *mails), "box")
    assert [(patch.version, patch.number) for patch in found] == [(3, 1), (3, 2), (3, 3)]


def test_a_mail_from_two_lists_counts_once(tmp_path: Path) -> None:
    assert len(patch_mail.parse(box(tmp_path, *series(2), *series(2)), "box")) == 2


def test_a_missing_patch_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="patch 2 of 3 is missing"):
        patch_mail.parse(box(tmp_path, *series(3)[::2]), "box")


@pytest.mark.parametrize("encoding", ["7bit", "quoted-printable", "base64"])
def test_encodings_of_mail_are_undone(tmp_path: Path, encoding: str) -> None:
    (found,) = patch_mail.parse(box(tmp_path, mail("[PATCH] block: ok", encoding=encoding)), "box")
    assert "\n+new x\n" in found.text


def test_a_folded_and_encoded_subject_is_read(tmp_path: Path) -> None:
    subject = "[PATCH RFC v2 1/1] block: größer als jemals zuvor, und das in mehr als einer Zeile"
    (found,) = patch_mail.parse(box(tmp_path, mail(subject)), "box")
    assert (found.version, found.number) == (2, 1)
    assert found.title.startswith("block: größer als")


def test_a_patch_file_is_a_mailbox_of_one() -> None:
    content = b"From 0123456789 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n" + DIFF.encode()
    assert [patch.title for patch in patch_mail.parse(content, "x.patch")] == ["x"]
    assert [patch.title for patch in patch_mail.parse(b"Subject: y\n\n" + DIFF.encode(), "y")] == [
        "y"
    ]


@pytest.mark.parametrize("content", [b"", b"hello\n", b"From x\nSubject: [PATCH] a\n\nno diff\n"])
def test_no_patch_is_said(content: bytes) -> None:
    with pytest.raises(UsageError, match="no patch is in it"):
        patch_mail.parse(content, "here")


def test_files_keep_the_order_and_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    content = box(tmp_path, *reversed(series(11)))

    class Stdin:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Stdin)
    found = patch_mail.collect("-")
    assert [path.name[:4] for path in found] == [f"{n:04}" for n in range(1, 12)]
    (tmp_path / "saved.mbox").write_bytes(content)
    assert patch_mail.collect(str(tmp_path / "saved.mbox")) == found


def test_a_git_range_gives_its_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    repository = tmp_path / "linux"
    git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    run(["git", "init", "-q", str(repository)])
    for number in range(3):
        (repository / "a.c").write_text(f"{number}\n")
        run([*git, "add", "a.c"])
        run([*git, "commit", "-q", "-m", f"step {number}"])
    found = patch_mail.collect(f"git:{repository}@HEAD~2..HEAD")
    assert [path.name for path in found] == ["0001-step-1.patch", "0002-step-2.patch"]
    for wrong in ("HEAD", "HEAD..HEAD", "nowhere..HEAD"):
        with pytest.raises(UsageError):
            patch_mail.collect(f"git:{repository}@{wrong}")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError):
            patch_mail.collect(str(wrong))


def test_an_encoding_that_there_is_not_does_no_harm(tmp_path: Path) -> None:
    head = "From x Mon Sep 17 00:00:00 2001\nFrom: a@b.c\nSubject: =?klingon?q?[PATCH]_x?=\n"
    text = f"{head}Content-Type: text/plain; charset=klingon\n\n{DIFF}"
    (tmp_path / "x.mbox").write_text(text)
    (found,) = patch_mail.collect(str(tmp_path / "x.mbox"))
    assert "+new {name}" in found.read_text()


def test_a_closed_standard_input_has_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no patch"):
        patch_mail.collect("-")

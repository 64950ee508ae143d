# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches out of mailboxes, folders and git ranges: all of a series, in order, and nothing else."""

from __future__ import annotations

import io
import random
import sys
import time
from contextlib import suppress
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


def mail(
    subject: str,
    body: str = "",
    name: str = "x",
    encoding: str = "7bit",
    sender: str = "A Hacker <a@example.org>",
) -> EmailMessage:
    message = EmailMessage()
    message["From"] = sender
    message["Subject"] = subject
    message["Message-Id"] = f"<{hash(subject)}@example.org>"
    message.set_content(body or DIFF.replace("{name}", name), cte=encoding)
    return message


def box(*mails: EmailMessage) -> bytes:
    """A mailbox."""
    return b"\n".join(message.as_bytes(unixfrom=True) for message in mails)


def series(total: int, version: str = "") -> list[EmailMessage]:
    return [
        mail(f"[PATCH{version} {n}/{total}] block: step {n}", name=f"{version}{n}")
        for n in range(1, total + 1)
    ]


def in_order(content: bytes, *senders: str) -> list[patch_mail.Patch]:
    """The series of a mailbox."""
    return patch_mail.series(patch_mail.parse(content, "box"), "box", senders)


def collected(tmp_path: Path, content: bytes, *senders: str) -> patch_mail.Collected:
    """What is collected of a mailbox in a file."""
    path = tmp_path / "x.mbox"
    path.write_bytes(content)
    return patch_mail.collect(str(path), senders)


def test_cover_letter_and_replies_are_left_out() -> None:
    first, second = series(2)
    cover = mail("[PATCH 0/2] block: two steps", "diffstat\n")
    reply = mail("Re: [PATCH 1/2] block: step 1", DIFF)
    review = mail("Re: [PATCH 2/2] block: step 2", "> diff --git a/x b/x\nlooks good\n")
    patches = in_order(box(cover, second, reply, first, review))
    assert [patch.title for patch in patches] == ["block: step 1", "block: step 2"]
    assert "+new 1" in patches[0].text


@given(order=st.permutations(range(5)))
def test_order_of_arrival_does_not_matter(order: list[int]) -> None:
    mails = series(5)
    content = box(*(mails[place] for place in order))
    assert [patch.number for patch in in_order(content)] == [1, 2, 3, 4, 5]


def test_the_newest_version_counts() -> None:
    mails = series(2) + series(3, " v3") + series(2, " v2")
    random.Random(1).shuffle(mails)
    patches = in_order(box(*mails))
    assert [(patch.version, patch.number) for patch in patches] == [(3, 1), (3, 2), (3, 3)]


@pytest.mark.parametrize(
    ("tags", "place"),
    [
        ("[PATCH RFC v2 1/1]", (2, 1)),
        ("[RFC][PATCH v3 1/1]", (3, 1)),
        ("[linux-block] [PATCHv4 1/1]", (4, 1)),
        ("[PATCH v2->v3 1/1]", (3, 1)),
        ("[PATCH]", (1, 0)),
        ("[1/2]", (1, 0)),
    ],
)
def test_tags_are_read_as_people_write_them(tags: str, place: tuple[int, int]) -> None:
    (patch,) = in_order(box(mail(f"{tags} block: x 3/4 v9")))
    assert ((patch.version, patch.number), patch.title) == (place, "block: x 3/4 v9")


def test_a_mail_from_two_lists_counts_once() -> None:
    assert len(in_order(box(*series(2), *series(2)))) == 2


@pytest.mark.parametrize("encoding", ["7bit", "quoted-printable", "base64"])
def test_encodings_of_mail_are_undone(encoding: str) -> None:
    (patch,) = in_order(box(mail("[PATCH] block: ok", encoding=encoding)))
    assert "\n+new x\n" in patch.text


def test_a_folded_and_encoded_subject_is_read() -> None:
    subject = "[PATCH RFC v2 1/1] block: größer als jemals zuvor, und das in mehr als einer Zeile"
    (patch,) = in_order(box(mail(subject)))
    assert (patch.version, patch.number) == (2, 1)
    assert patch.title.startswith("block: größer als")


def test_a_patch_file_is_a_mailbox_of_one() -> None:
    content = b"From 0123456789 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n" + DIFF.encode()
    assert [patch.title for patch in in_order(content)] == ["x"]
    assert [patch.title for patch in in_order(b"Subject: y\n\n" + DIFF.encode())] == ["y"]


@pytest.mark.parametrize("content", [b"", b"hello\n", b"From x\nSubject: [PATCH] a\n\nno diff\n"])
def test_no_patch_is_said(content: bytes) -> None:
    with pytest.raises(UsageError, match="no patch is in it"):
        in_order(content)


def test_files_keep_the_order_and_are_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = box(*reversed(series(11)))

    class Stdin:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Stdin)
    paths = patch_mail.collect("-").patches
    assert [path.name[:4] for path in paths] == [f"{n:04}" for n in range(1, 12)]
    assert collected(tmp_path, content).patches == paths


def test_a_git_range_gives_its_commits(tmp_path: Path) -> None:
    repository = tmp_path / "linux"
    git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    run(["git", "init", "-q", str(repository)])
    for number in range(3):
        (repository / "a.c").write_text(f"{number}\n")
        run([*git, "add", "a.c"])
        run([*git, "commit", "-q", "-m", f"step {number}"])
    paths = patch_mail.collect(f"git:{repository}@HEAD~2..HEAD").patches
    assert [path.name for path in paths] == ["0001-step-1.patch", "0002-step-2.patch"]
    (one,) = patch_mail.collect(f"git:{repository}@HEAD").patches
    assert one.name == "0001-step-2.patch"
    for wrong in ("HEAD~2", "HEAD..HEAD", "nowhere..HEAD", "nowhere", ""):
        with pytest.raises(UsageError):
            patch_mail.collect(f"git:{repository}@{wrong}")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError):
            patch_mail.collect(str(wrong))


def test_an_encoding_that_there_is_not_does_no_harm(tmp_path: Path) -> None:
    head = "From x Mon Sep 17 00:00:00 2001\nFrom: a@b.c\nSubject: =?klingon?q?[PATCH]_x?=\n"
    text = f"{head}Content-Type: text/plain; charset=klingon\n\n{DIFF}"
    (path,) = collected(tmp_path, text.encode()).patches
    assert "+new {name}" in path.read_text()


def test_a_closed_standard_input_has_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no patch"):
        patch_mail.collect("-")


# --- mails of strangers


@pytest.mark.parametrize("subject", ["[PATCH v99 1/1] block: step 1", "[PATCH 1/2] block: step 1"])
@pytest.mark.parametrize("first", [True, False])
def test_a_strangers_patch_never_takes_the_place_of_the_series(subject: str, first: bool) -> None:
    evil = mail(subject, name="evil", sender="Mallory <m@example.com>")
    mails = [evil, *series(2)] if first else [*series(2), evil]
    content = box(*mails)
    with pytest.raises(UsageError, match=r"several people: .*") as caught:
        in_order(content)
    assert {"a@example.org", "m@example.com"} <= set(caught.value.what.replace(",", "").split())
    assert "--from" in caught.value.hint
    assert [patch.title for patch in in_order(content, "A@Example.org")] == [
        "block: step 1",
        "block: step 2",
    ]
    with pytest.raises(UsageError, match="c@d sent no patch"):
        in_order(content, "c@d")


def test_a_name_that_looks_like_an_address_is_none() -> None:
    content = box(*series(1), mail("[PATCH v9 1/1] block: evil", name="evil"))
    forged = b"=?utf-8?q?A_=3Ca=40example.org=3E=2C_?= <m@example.com>"
    before, _, after = content.rpartition(b"A Hacker <a@example.org>")
    with pytest.raises(UsageError, match=r"several people: a@example.org, m@example.com"):
        in_order(before + forged + after)


def test_a_series_may_have_several_senders_who_are_named() -> None:
    content = box(
        series(2)[0], mail("[PATCH 2/2] block: step 2", name="evil", sender="B <b@example.org>")
    )
    patches = in_order(content, "a@example.org", "b@example.org")
    assert [patch.number for patch in patches] == [1, 2]


def test_who_wrote_a_patch_need_not_be_who_sends_it(tmp_path: Path) -> None:
    first, second = series(2)
    second.set_content(f"From: B Author <b@example.org>\n\n{DIFF}")
    patches = collected(tmp_path, box(first, second)).patches
    assert list(map(patch_mail.author, patches)) == [
        "A Hacker <a@example.org>",
        "B Author <b@example.org>",
    ]


def test_what_was_left_out_is_told(tmp_path: Path) -> None:
    evil = mail("[PATCH v99 1/1] block: evil", name="evil", sender="Mallory <m@example.com>")
    content = box(*series(1), evil, *series(1, " v2"))
    assert collected(tmp_path, content, "a@example.org").skipped == (
        "block: step 1, version 1, by a@example.org",
        "block: evil, version 99, by m@example.com",
    )


def test_a_missing_patch_and_one_that_is_there_twice_are_named() -> None:
    with pytest.raises(UsageError, match="patch 2 of 3 is missing"):
        in_order(box(*series(3)[::2]))
    again = mail("[PATCH 1/2] block: another", name="other")
    with pytest.raises(UsageError, match=r"patch 1 is there twice .*'block: step 1' by a@example"):
        in_order(box(*series(2), again))


def test_a_footer_of_a_mailing_list_makes_no_other_patch() -> None:
    again = mail("[PATCH 1/1] block: step 1", DIFF.replace("{name}", "1").replace("--\n", "-- \n"))
    footed = mail("[dm-devel] [PATCH 1/1] block: step 1", again.get_content() + "_____\ndm-devel")
    assert len(in_order(box(footed, again))) == 1


def test_what_only_html_shows_is_not_applied() -> None:
    hidden = f"<pre>{DIFF.replace('{name}', 'hidden')}</pre>"
    without, with_diff = mail("[PATCH] block: x", "please apply\n"), mail("[PATCH] block: x", DIFF)
    for message in (without, with_diff):
        message.add_alternative(hidden, subtype="html")
    with pytest.raises(UsageError, match="no patch is in it"):
        in_order(box(without))
    (patch,) = in_order(box(with_diff))
    assert "hidden" not in patch.text


@pytest.mark.parametrize("encoding", ["7bit", "quoted-printable", "base64"])
def test_an_attached_patch_counts_where_the_mail_has_none(encoding: str) -> None:
    for text, wanted in (("see the attachment\n", "attached"), (DIFF, "{name}")):
        message = mail("[PATCH] block: x", text)
        diff = DIFF.replace("{name}", "attached")
        message.add_attachment(diff, subtype="x-patch", cte=encoding, filename="0001.patch")
        (patch,) = in_order(box(message))
        assert f"\n+new {wanted}\n" in patch.text
        assert patch.text.count("+new") == 1


def test_a_mail_inside_of_a_mail_is_not_its_senders() -> None:
    outer = mail("[PATCH] block: look at this", "what do you think?\n")
    outer.add_attachment(mail("[PATCH] block: x"))
    with pytest.raises(UsageError, match="no patch"):
        in_order(box(outer))


def test_a_sentence_that_begins_with_from_begins_no_mail() -> None:
    text = DIFF.replace("what and why", "From what I know\nFrom 10:00 on it is slow")
    (patch,) = in_order(b"From: a@b\nSubject: [PATCH 1/1] x\n\n" + text.encode())
    assert (patch.title, patch.number) == ("x", 1)


NESTED = b"".join(
    b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3000)
)
HEAD = b"From: a@b\n"
MALFORMED = {
    "a billion patches": HEAD + b"Subject: [PATCH 1/1000000000] x\n\n",
    "5,000 digits": HEAD + b"Subject: [PATCH 1/" + b"9" * 5000 + b"] x\n\n",
    "5,000 digits of a version": HEAD + b"Subject: [PATCH v" + b"9" * 5000 + b"] x\n\n",
    "beyond the end": HEAD + b"Subject: [PATCH 7/3] x\n\n",
    "other digits": HEAD + "Subject: [PATCH ²/³] x\n\n".encode(),
    "encoding of the subject": HEAD + b"Subject: =?no-such?q?[PATCH]_x?=\n\n",
    "base64 of the subject": HEAD + b"Subject: =?utf-8?b?[PATCH?=\n\n",
    "no text": HEAD + b"Content-Type: text/plain; charset=unicode_escape\n\n\\ud800",
    "surrogates": HEAD + b"Content-Type: text/plain; charset=utf-16-le\n\n\x00\xd8",
    "charset of zeros": HEAD + b"Content-Type: text/plain; charset=a\0b\n\n",
    "digits of a charset": HEAD + b"Content-Type: text/plain; charset*" + b"9" * 1900 + b"*=x\n\n",
    "a content type without end": HEAD + b"Content-Type: x" + b';a="' * 300_000 + b"\n\n",
    "bad base64": HEAD + b"Content-Transfer-Encoding: base64\n\n=====",
    "bad uuencode": HEAD + b"Content-Transfer-Encoding: x-uuencode\n\nbegin 644 x\n\xff",
    "nested parts": HEAD + NESTED,
    "many words": HEAD + b"Subject: [" + b"PATCH " * 170_000 + b"\n\n",
    "many brackets": HEAD + b"Subject: " + b"[PATCH" * 170_000 + b"\n\n",
    "many encoded words": HEAD + b"Subject: " + b"=?a?q?" * 170_000 + b"\n\n",
    "many addresses": b"From: " + b'<a@b>,"' * 100_000 + b"\nSubject: [PATCH] x\n\n",
    "zeros": b"\0" * 100_000,
    "no headers": b"\n\n",
    "nothing but headers": b"From: a\n" * 1000,
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_mail_that_nobody_sends_is_an_error_or_none_and_takes_no_time(
    tmp_path: Path, what: str
) -> None:
    started = time.process_time()
    with suppress(UsageError):
        for patch in collected(tmp_path, MALFORMED[what] + DIFF.encode()).patches:
            patch_mail.author(patch)
    assert time.process_time() - started < 2


@given(st.binary(max_size=500), st.binary(max_size=500))
def test_any_bytes_are_patches_or_a_usage_error(head: bytes, body: bytes) -> None:
    mails = (HEAD + b"Subject: [PATCH] " + head + b"\n\n" + body + DIFF.encode(), head + body)
    for content in mails:
        with suppress(UsageError):
            in_order(content)


@pytest.mark.parametrize(
    ("limit", "content", "said"),
    [
        ("patch_mail._MOST_BYTES", b"x" * 3000, "MiB"),
        ("patch_mail._MOST_PATCHES", b"", "more than 3 patches"),
        ("mail_text._MOST_MAILS", b"", "more than 3 mails"),
        ("mail_text._MOST_LINES", b"\r" * 3000, "lines"),
    ],
)
def test_there_are_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, content: bytes, said: str
) -> None:
    monkeypatch.setattr(f"lab.build.{limit}", 2000 if content else 3)
    with pytest.raises(UsageError, match=said):
        collected(tmp_path, content or box(*series(4)))


def test_what_never_ends_is_read_no_further() -> None:
    with pytest.raises(UsageError, match="more than 50 MiB"):
        patch_mail.collect("/dev/zero")

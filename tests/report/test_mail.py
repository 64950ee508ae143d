# SPDX-License-Identifier: GPL-2.0-or-later
"""A reply to the list: a mail that mail programs and git take, and that says no more than is so."""

from __future__ import annotations

from email import message_from_string, policy

import examples
import pytest

from lab.base.errors import UsageError
from lab.base.process import run as run_command
from lab.report import mail
from lab.report.run_record import RunRecord, StepRecord

ME = "Tess Ter <tess@example.org>"


RUNS = [
    examples.mailed(examples.paired_run()),
    examples.mailed(examples.swept_run()),
    examples.mailed(examples.tables_run()),
]


@pytest.mark.parametrize("run", RUNS)
def test_it_is_a_mail_to_all_that_had_the_series(run: RunRecord) -> None:
    message = message_from_string(mail.reply(run), policy=policy.default)
    assert not message.defects
    assert message["To"] == "Ada Example <ada@example.org>"
    assert message["Cc"] == "Jens Example <jens@example.org>, linux-block@lists.example.org"
    assert message["Subject"] == f"Re: {examples.MAIL.subject}"
    assert message["In-Reply-To"] == "<1@example.org>"
    assert message["References"].split() == ["<0@example.org>", "<1@example.org>"]
    assert "Ada Example wrote:" in message.get_payload()


@pytest.mark.parametrize("run", [*RUNS, examples.mailed(examples.matrix_run(4))])
def test_no_line_is_longer_than_a_mail_has_it(run: RunRecord) -> None:
    body = mail.reply(run, ME if run.series or run.steps else "").partition("\n\n")[2]
    long = [line for line in body.splitlines() if len(line) > mail.WIDTH]
    assert [line for line in long if not line.startswith(">")] == []
    assert not any(line != line.rstrip() for line in body.splitlines())


def test_verdicts_what_was_published_and_figures_are_in_it() -> None:
    run = examples.mailed(examples.paired_run())
    body = " ".join(mail.reply(run).split())
    (claim,) = run.series[0].claims
    assert f"{claim.verdict}. Published: {claim.statement}" in body
    assert "+39.9 %" in body
    assert "in pairs of boots in turn" in body


def test_the_command_names_the_series_as_everybody_can_get_it() -> None:
    assert "lab try lore:1@example.org --topology nullb_mq" in mail.reply(RUNS[0])
    plain = mail.reply(RUNS[0].model_copy(update={"mail": None}))
    assert "lab try box.mbx" in plain
    assert plain.startswith("I ran this on Linux")


def test_a_long_command_can_be_pasted() -> None:
    words = [f"--workload work{n}" for n in range(20)]
    text = mail.reply(
        examples.mailed(examples.paired_run(), command=f"lab try box.mbx {' '.join(words)}")
    )
    command = text[text.index("  lab try") :].replace("\\\n", "")
    assert command.split()[-2:] == ["--workload", "work19"]


def test_git_reads_the_trailer_and_there_is_none_unasked() -> None:
    text = mail.reply(RUNS[0], ME)
    parse = ["git", "interpret-trailers", "--parse"]
    assert run_command(parse, stdin=text).output == f"Tested-by: {ME}\n"
    assert "Tested-by" not in mail.reply(RUNS[0])


@pytest.mark.parametrize("verdict", ["REFUTED", "ERROR"])
def test_what_is_refuted_gets_no_trailer(verdict: str) -> None:
    run = examples.mailed(examples.run(examples.series(verdict=verdict)))
    with pytest.raises(UsageError, match="no Tested-by for what is not as claimed"):
        mail.reply(run, ME)


def test_patches_without_a_claim_get_one_unless_they_break_something() -> None:
    steps = (StepRecord(title="2 patches"),)
    whole = examples.mailed(examples.tables_run(), steps=steps)
    assert mail.reply(whole, ME).endswith(f"\n\nTested-by: {ME}\n")
    broken = examples.mailed(
        whole, steps=(*steps, StepRecord(title="0002-x.patch", broken="panic"))
    )
    with pytest.raises(UsageError, match=r"breaks the kernel: 0002-x\.patch"):
        mail.reply(broken, ME)
    with pytest.raises(UsageError, match="tested no patches"):
        mail.reply(examples.mailed(examples.tables_run()), ME)


@pytest.mark.parametrize("bad", ["me", "<a@b>", "A <a@b>\nReviewed-by: x <x@y>", "A <a@b> x"])
def test_an_identity_is_a_name_and_an_address(bad: str) -> None:
    with pytest.raises(UsageError, match="not an identity"):
        mail.reply(RUNS[0], bad)


def test_a_strangers_subject_makes_no_header() -> None:
    evil = examples.MAIL.model_copy(update={"subject": "x\nBcc: victim@example.org\x1b[2J\n\nbody"})
    message = message_from_string(mail.reply(examples.mailed(RUNS[0], mail=evil)))
    assert "Bcc" not in message
    assert "\x1b" not in str(message)

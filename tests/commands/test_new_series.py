# SPDX-License-Identifier: GPL-2.0-or-later
"""A new series: patches for a source go into series/, those that it has into base/, too."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import invoke
from hypothesis import given
from hypothesis import strategies as st

from lab.base import toml
from lab.base.errors import BuildError, UsageError
from lab.base.process import run
from lab.base.progress import Progress
from lab.build import patching, revert, source
from lab.commands import new_claims
from lab.inputs import message, series

MESSAGE = """\
From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001
From: A <a@b.c>
Subject: [PATCH v2] block: do less

This gives 256k -> 594k IOPS under mq-deadline:

    modprobe null_blk submit_queues=2
    fio --name=x --rw=randread --bs=4k --direct=1

Signed-off-by: A <a@b.c>
---
"""
MakePatch = Callable[..., Path]
Tree = Callable[[], str]


@pytest.fixture
def patch(make_patch: MakePatch) -> Path:
    """A patch with a message that publishes something."""
    made = make_patch("0001-less.patch", "block/bfq.c", ("int bfq_9;", "int bfq_nine;"))
    made.write_text(MESSAGE + made.read_text().partition("\n\n")[2])
    return made


@pytest.fixture
def tree(fake_tree: Path) -> Tree:
    """A function: the fake source as it is now, as a commit."""

    def committed() -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        run(["git", "init", "--quiet", str(fake_tree)])
        run(["git", "-C", str(fake_tree), "add", "--all"])
        run(["git", "-C", str(fake_tree), *who, "commit", "--quiet", "--message=x"])
        return f"git:{fake_tree}@HEAD"

    return committed


@pytest.fixture(autouse=True)
def _no_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "FOLDER", tmp_path / "patches")


def changed(fake_tree: Path, old: str, new: str) -> None:
    file = fake_tree / "block/bfq.c"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def uncomment_figures(file: Path) -> None:
    """Make claims of the figures that stand as comments."""
    figures = file.read_text().partition("message's.\n#\n")[2]
    assert figures
    with file.open("a") as appended:
        appended.write(figures.replace("# ", "").replace("#\n", "\n"))


def test_patches_for_the_tree_are_the_series(patch: Path, tree: Tree) -> None:
    done = invoke("new", "mine", str(patch), "--tree", tree())
    assert done.return_value == 0
    made = series.get("mine")
    (copied,) = made.patches("series")
    assert copied.read_text().endswith(patch.read_text().partition("diff")[2])
    assert not (made.folder / "base").exists()
    assert made.title == "block: do less"
    assert made.checks["cost"].topology == "null_blk submit_queues=2"
    assert made.checks["cost"].scheduler == "mq-deadline"
    assert "--rw=randread" in made.checks["cost"].fio
    assert "figure: This gives 256k -> 594k IOPS" in done.output


def test_the_figures_are_claims_when_their_comment_signs_are_removed(
    patch: Path, tree: Tree
) -> None:
    invoke("new", "mine", str(patch), "--tree", tree())
    uncomment_figures(series.get("mine").file)
    (expectation,) = series.get("mine").claims["figure_1"].expect
    published = expectation.published
    assert published is not None
    assert (published.levels, published.unit) == ((256e3, 594e3), "IOPS")
    assert str(expectation.bound) == ">= +52.4%"
    assert "half of the published change" in expectation.because


def test_a_patch_that_the_tree_has_is_taken_out_and_brought_back(
    patch: Path, fake_tree: Path, tree: Tree, quiet: Progress
) -> None:
    changed(fake_tree, "int bfq_9;", "int bfq_nine;")
    spec = tree()
    assert invoke("new", "mine", str(patch), "--tree", spec).return_value == 0
    made, unpatched = series.get("mine"), source.resolve(spec, quiet)
    (base,) = made.patches("base")
    assert 'Subject: [PATCH] Revert "block: do less"' in base.read_text()
    assert "+int bfq_9;" in base.read_text()
    assert patching.patched(unpatched, made.patches("base")).hash != unpatched.tree
    assert patching.patched(unpatched, made.patches("series")).hash == unpatched.tree
    assert made.patches("series")[-1].read_text().startswith("From: A <a@b.c>\nSubject: [PATCH v2]")


def test_several_patches_are_taken_out_the_last_first(
    make_patch: MakePatch, fake_tree: Path, tree: Tree, quiet: Progress
) -> None:
    first = make_patch("0001-a.patch", "block/bfq.c", ("int bfq_9;", "int bfq_a;"))
    changed(fake_tree, "int bfq_9;", "int bfq_a;")
    second = make_patch("0002-b.patch", "block/bfq.c", ("int bfq_a;", "int bfq_b;"))
    changed(fake_tree, "int bfq_a;", "int bfq_b;")
    made = revert.reverted(source.resolve(tree(), quiet), [first, second])
    assert [name[:5] for name in made.base] == ["0001-", "0002-"]
    assert ["-int bfq_b;" in text for text in made.base.values()] == [True, False]
    assert list(made.series) == ["0001-a.patch", "0002-b.patch"]
    assert "+int bfq_b;" in made.series["0002-b.patch"]


def test_a_hunk_that_cannot_be_taken_out_is_named(patch: Path, fake_tree: Path, tree: Tree) -> None:
    changed(fake_tree, "int bfq_9;", "int other;")
    with pytest.raises(BuildError) as caught:
        invoke("new", "mine", str(patch), "--tree", tree())
    assert "does not apply" in caught.value.what
    assert "cannot be taken out of" in caught.value.what
    assert caught.value.what.count("hunk 1 of block/bfq.c") == 2
    assert "--tree git:PATH@REV" in (caught.value.hint or "")
    assert not series.known()


def test_one_commit_of_a_tree_is_a_source(fake_tree: Path, tree: Tree) -> None:
    tree()
    changed(fake_tree, "int bfq_9;", "int bfq_nine;")
    spec = tree()
    assert invoke("new", "mine", spec, "--tree", spec).return_value == 0
    made = series.get("mine")
    assert {part.name for part in made.folder.iterdir()} == {"base", "series", "series.toml"}
    assert made.origin.startswith("commit ")


def test_what_is_missing_is_told_sentence_by_sentence(patch: Path, tree: Tree) -> None:
    invoke("new", "mine", str(patch), "--tree", tree())
    asked = invoke("new", "mine", "--check")
    assert asked.return_value == 2
    assert "no claim: the figures stand as comments" in asked.output
    file = series.get("mine").file
    uncomment_figures(file)
    asked = invoke("new", "mine", "--check")
    assert asked.return_value == 0
    lines = asked.output.splitlines()
    assert lines[0].startswith("kernel: git:")
    claim = next(line for line in lines if line.startswith("figure_1: iops, before -> after"))
    assert ">= +52.4%; sim xeon16, 16 vCPUs, at most 1 seed;" in claim
    assert "mq-deadline, null_blk submit_queues=2; the published levels name no machine" in claim
    assert lines[-1] == "Nothing is missing. Next: lab run mine"


def test_a_folder_that_is_there_is_kept(patch: Path, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "patches/mine").mkdir(parents=True)
    with pytest.raises(UsageError, match="is there already"):
        invoke("new", "mine", str(patch), "--tree", tree())
    with pytest.raises(UsageError, match="SOURCE is missing"):
        invoke("new", "other")


def text_of(said: str, title: str = "t") -> str:
    """The series.toml of a message."""
    return new_claims.text(message.read(said), title=title, origin=title, tree="debian:6.12")


LINES = st.sampled_from(
    [
        "{} 256k -> 594k IOPS {}",
        "{} is 3 % faster {}",
        "modprobe null_blk {} {}",
        "modprobe null_blk submit_queues=2 {}{}",
        "modprobe scsi_debug {}={}",
        "t/io_uring {} {}",
        "{}mq-deadline{}",
        "[{}]",
        "rw={}{}",
        "base {} 1.47%",
        "patch {} 0.75%",
    ]
)


@given(st.lists(st.tuples(LINES, st.text(max_size=9), st.text(max_size=9)), max_size=6), st.text())
def test_whatever_a_message_says_the_file_is_right(
    lines: list[tuple[str, str, str]], title: str
) -> None:
    text = "\n".join(line.format(first, second) for line, first, second in lines)
    written = text_of(text, title)
    made = toml.parse(tomllib.loads(written), series.Series, Path("series.toml"))
    assert (made.title, list(made.checks), made.claims) == (title, ["cost"], {})


def test_a_share_of_the_cpu_is_what_it_makes_of_an_io() -> None:
    text = "base: f() 40%\npatch: f() 25%\n"
    written = text_of(text)
    # Of 100, 60 stay what they were and become 75 % of what is left: 80.
    assert '# published = { change = "-20%" }' in written
    assert '# metric = "kernel_insns_per_io"' in written


def test_a_job_file_stands_in_several_lines() -> None:
    text = "[job1]\nrw=randread\nfilename=/dev/nvme0n1\n\nIOPS improves by 5%\n"
    written = text_of(text)
    check = tomllib.loads(written)["checks"]["cost"]
    assert check["topology"] == "nvme_mq"
    assert check["fio"] == "[job1]\nrw=randread\nfilename=/dev/nvme0n1\n"
    claim = "\n".join(line.removeprefix("# ") for line in written.splitlines() if "#" in line[:1])
    assert tomllib.loads(claim.partition("#\n")[2])["claims"]["figure_1"]["fio"] == check["fio"]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("IOPS improves by 5%", ["# seeds = 6"]),
        ("100K -> 104K IOPS", ["# seeds = 6"]),
        ("100K -> 200K IOPS", []),
        ("IOPS improves by 50%", []),
    ],
)
def test_a_small_change_of_iops_asks_for_six_seeds(text: str, seeds: list[str]) -> None:
    written = text_of(text)
    assert [line for line in written.splitlines() if "seeds =" in line] == seeds

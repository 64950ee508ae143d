# SPDX-License-Identifier: GPL-2.0-or-later
"""Sources and patches: equal content, equal tree hash; what is wrong is named, and does no harm."""

from __future__ import annotations

import io
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from lab.base import apt
from lab.base.errors import BuildError, LabError, UsageError
from lab.base.process import CommandError, run
from lab.base.progress import Progress
from lab.build import patching, source
from lab.build.source import git, import_tar, resolve

MakePatch = Callable[..., Path]


Mode = Literal["w:tar", "w:gz", "w:bz2", "w:xz"]


def pack(folder: Path, tarball: Path, mode: Mode = "w:xz") -> Path:
    """A tarball of a folder under the folder's name."""
    tarball.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(tarball, mode) as tar:
        tar.add(folder, folder.name)
    return tarball


def commit(folder: Path) -> str:
    """Make a folder a git repository with one commit of all it holds; return the commit."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false"]
    run(["git", "init", "--quiet", str(folder)])
    run(["git", "-C", str(folder), "add", "--all"])
    run(["git", "-C", str(folder), *who, "commit", "--quiet", "--message=x"])
    return run(["git", "-C", str(folder), "rev-parse", "HEAD"]).output.strip()


def content(tree_hash: str, path: str) -> str:
    return git("cat-file", "blob", f"{tree_hash}:{path}")


# --- tarballs


def test_the_tree_hash_does_not_depend_on_what_the_tarball_is_called_or_how_it_is_packed(
    fake_tree: Path, fake_tarball: Path, tmp_path: Path
) -> None:
    renamed = fake_tree.rename(tmp_path / "another-top-folder")
    hashes = {
        import_tar(fake_tarball),
        import_tar(pack(renamed, tmp_path / "else where" / "src.tgz", "w:gz")),
        import_tar(pack(renamed, tmp_path / "src.tar", "w:tar")),
    }
    assert len(hashes) == 1


def test_a_tarball_and_a_git_commit_of_the_same_files_are_the_same_tree(
    fake_tree: Path, fake_tarball: Path, quiet: Progress
) -> None:
    commit(fake_tree)
    from_git = resolve(f"git:{fake_tree}@HEAD", quiet)
    from_tar = resolve(f"tar:{fake_tarball}", quiet)
    assert from_git.tree == from_tar.tree
    assert from_git.origin != from_tar.origin


def test_other_content_is_another_tree(fake_tree: Path, tmp_path: Path) -> None:
    before = import_tar(pack(fake_tree, tmp_path / "1.tar.xz"))
    (fake_tree / "block/bfq.c").write_text("int other;\n")
    assert import_tar(pack(fake_tree, tmp_path / "2.tar.xz")) != before


@pytest.mark.parametrize(
    ("path", "mode"),
    [("scripts/link", "120000"), ("scripts/run.sh", "100755"), ("init/main.c", "100644")],
)
def test_links_and_execute_bits_survive_the_import(
    fake_tarball: Path, path: str, mode: str
) -> None:
    assert git("ls-tree", import_tar(fake_tarball), path).startswith(f"{mode} blob ")


def test_a_symbolic_link_keeps_its_target(fake_tarball: Path) -> None:
    assert content(import_tar(fake_tarball), "scripts/link") == "../init/main.c"


def test_a_hard_link_is_a_file_like_any_other(fake_tree: Path, tmp_path: Path) -> None:
    os.link(fake_tree / "init/main.c", fake_tree / "init/same.c")
    imported = import_tar(pack(fake_tree, tmp_path / "linked.tar.xz"))
    names = git("ls-tree", "--name-only", imported, "init/").splitlines()
    assert names == ["init/main.c", "init/same.c"]
    assert content(imported, "init/same.c") == content(imported, "init/main.c")


def test_awkward_file_names_and_bytes_survive_the_import(fake_tree: Path, tmp_path: Path) -> None:
    name = 'a "b" \\n é.bin'
    (fake_tree / name).write_bytes(b"\0\xff\nM 100644 inline x\ndata 0\n")
    (fake_tree / "empty").touch()
    imported = import_tar(pack(fake_tree, tmp_path / "odd.tar.xz"))
    listed = git("ls-tree", "-r", "-z", "--name-only", imported).split("\0")
    assert {name, "empty"} < set(listed)
    wanted = run(["git", "hash-object", "--no-filters", str(fake_tree / name)]).output.strip()
    assert git("rev-parse", f"{imported}:{name}") == wanted


def test_a_tarball_without_a_kernel_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "hello-1.0"
    folder.mkdir()
    (folder / "hello.c").touch()
    with pytest.raises(LabError, match=r"hello\.tar\.xz does not hold a kernel"):
        import_tar(pack(folder, tmp_path / "hello.tar.xz"))


# How a tarball can be damaged: from its bytes, the same unpacked, and where in that the header of
# block/bfq.c starts.
DAMAGE: dict[str, Callable[[bytes, bytes, int], bytes]] = {
    "no archive at all": lambda packed, raw, at: b"no archive\n" * 1000,
    "empty": lambda packed, raw, at: b"",
    "half downloaded": lambda packed, raw, at: packed[: len(packed) // 2],
    "a wrong byte": lambda packed, raw, at: (
        packed[:200] + bytes([packed[200] ^ 0xFF]) + packed[201:]
    ),
    "cut between two files": lambda packed, raw, at: raw[:at],
    "cut in a header": lambda packed, raw, at: raw[: at + 100],
    "cut in a file": lambda packed, raw, at: raw[: at + 512 + 10],
    "a wrong header": lambda packed, raw, at: raw[:at] + b"?" * 512 + raw[at + 512 :],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_tarball_is_refused_and_leaves_the_store_usable(
    fake_tarball: Path, tmp_path: Path, damage: str
) -> None:
    packed = fake_tarball.read_bytes()
    raw = lzma.decompress(packed)
    with tarfile.open(fake_tarball) as tar:
        at = tar.getmember("linux-0.1/block/bfq.c").offset
    broken = tmp_path / "broken.tar"
    broken.write_bytes(DAMAGE[damage](packed, raw, at))
    with pytest.raises(LabError, match=r"broken\.tar"):
        import_tar(broken)
    assert "int bfq_1;" in content(import_tar(fake_tarball), "block/bfq.c")


# --- specs


def test_a_tar_source_is_imported_once_for_as_long_as_the_file_stays_the_same(
    fake_tree: Path, tmp_path: Path
) -> None:
    out = io.StringIO()
    tarball = pack(fake_tree, tmp_path / "src.tar", "w:tar")
    first = resolve(f"tar:{tarball}", Progress(out=out))
    assert resolve(f"tar:{tarball}", Progress(out=out)) == first
    assert out.getvalue().count("importing") == 1
    size = tarball.stat().st_size
    (fake_tree / "block/bfq.c").write_text((fake_tree / "block/bfq.c").read_text().swapcase())
    assert pack(fake_tree, tarball, "w:tar").stat().st_size == size
    assert resolve(f"tar:{tarball}", Progress(out=out)).tree != first.tree


def test_a_lost_object_store_is_filled_again(fake_tarball: Path, quiet: Progress) -> None:
    first = resolve(f"tar:{fake_tarball}", quiet)
    shutil.rmtree(source.store())
    again = resolve(f"tar:{fake_tarball}", quiet)
    assert again == first
    assert content(again.tree, "block/bfq.c")


def test_a_relative_tar_path_means_the_current_folder(
    fake_tarball: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fake_tarball.parent)
    assert resolve("tar:linux-0.1.tar.xz", quiet).version == "linux-0.1.tar.xz"


def test_a_git_source_is_copied_once(fake_tree: Path, quiet: Progress) -> None:
    head = commit(fake_tree)
    copied = set()
    for revision in ("HEAD", head[:10]):
        resolved = resolve(f"git:{fake_tree}@{revision}", quiet)
        assert resolved.version == head[:12]
        copied.add(git("count-objects", "-v"))
    assert len(copied) == 1
    shutil.rmtree(fake_tree)
    assert content(resolved.tree, "init/main.c")


def test_a_git_source_may_be_a_linked_worktree(
    fake_tree: Path, tmp_path: Path, quiet: Progress
) -> None:
    commit(fake_tree)
    run(["git", "-C", str(fake_tree), "worktree", "add", "--quiet", str(tmp_path / "linked")])
    resolved = resolve(f"git:{tmp_path / 'linked'}@HEAD", quiet)
    assert content(resolved.tree, "init/main.c")


@pytest.mark.parametrize("spec", ["", "6.12", "debian:", "zip:/x", "tar", "/usr/src/linux"])
def test_a_spec_of_another_form_is_told_the_forms_there_are(spec: str, quiet: Progress) -> None:
    with pytest.raises(UsageError, match=f"{spec!r}") as caught:
        resolve(spec, quiet)
    assert caught.value.hint == "write debian:6.12, release:6.12.94, git:PATH@REV or tar:PATH"


@pytest.mark.parametrize("spec", ["git:{tree}", "git:{tree}@", "git:@HEAD"])
def test_a_git_spec_without_path_or_revision_is_refused(
    fake_tree: Path, quiet: Progress, spec: str
) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(spec.format(tree=fake_tree), quiet)
    assert caught.value.hint == "write git:PATH@REV"


@pytest.mark.parametrize(
    "spec", ["git:{tree}@no-such-branch", "git:{tree}/none@HEAD", "tar:{tree}.none", "tar:{tree}"]
)
def test_a_source_that_is_not_there_is_named(fake_tree: Path, quiet: Progress, spec: str) -> None:
    commit(fake_tree)
    with pytest.raises(LabError) as caught:
        resolve(spec.format(tree=fake_tree), quiet)
    assert str(fake_tree) in str(caught.value)


@pytest.mark.parametrize(
    ("series", "system", "elsewhere"),
    [
        ("5.10", "bookworm", [["bullseye", "bullseye-security"]]),
        ("6.1", "bookworm", []),
        ("6.12", "bookworm", [["trixie", "trixie-security"]]),
        ("7.3", "bookworm", [["trixie-backports"]]),
        ("7.3", "trixie", []),
        ("6.1", "trixie", [["bookworm", "bookworm-security"]]),
    ],
)
def test_a_series_is_looked_for_at_home_and_then_where_debian_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
    quiet: Progress,
    series: str,
    system: str,
    elsewhere: list[list[str]],
) -> None:
    tried: list[list[str]] = []

    def private(suites: list[str]) -> apt.PrivateApt:
        tried.append(suites)
        raise LabError("no network")

    monkeypatch.setattr(apt, "system_codename", lambda: system)
    monkeypatch.setattr(apt, "private", private)
    with pytest.raises(LabError, match=f"debian:{series} cannot be had: no network") as caught:
        resolve(f"debian:{series}", quiet)
    home = [system, f"{system}-security", f"{system}-backports"]
    assert tried == [home, *elsewhere]
    assert all(suite in caught.value.where for suites in tried for suite in suites)


# --- patches


@pytest.fixture
def plain(fake_tarball: Path, quiet: Progress) -> source.Source:
    """The unpatched source."""
    return resolve(f"tar:{fake_tarball}", quiet)


def test_no_patches_leave_the_source_as_it_is(plain: source.Source) -> None:
    assert patching.patched(plain, []).hash == plain.tree


def test_patches_apply_in_order(plain: source.Source, make_patch: MakePatch) -> None:
    first = make_patch("1.patch", "block/bfq.c", ("int bfq_7;", "int seven;"))
    second = make_patch("2.patch", "block/bfq.c", ("int bfq_7;", "int eight;"))
    second.write_text(second.read_text().replace("-int bfq_7;", "-int seven;"))
    both = patching.patched(plain, [first, second])
    assert "int eight;" in content(both.hash, "block/bfq.c")
    with pytest.raises(BuildError, match=r"^2\.patch does not apply"):
        patching.patched(plain, [second, first])


def test_patching_checks_nothing_out(
    plain: source.Source, make_patch: MakePatch, monkeypatch: pytest.MonkeyPatch, fake_tree: Path
) -> None:
    commit(fake_tree)
    monkeypatch.chdir(fake_tree)
    patching.patched(plain, [make_patch("1.patch", "block/bfq.c", ("int bfq_7;", "int seven;"))])
    assert not run(["git", "status", "--porcelain"]).output


def test_two_orders_that_give_equal_trees_give_equal_hashes(
    plain: source.Source, make_patch: MakePatch
) -> None:
    first = make_patch("1.patch", "block/bfq.c", ("int bfq_7;", "int seven;"))
    second = make_patch("2.patch", "init/main.c", ("return 0", "return 1"))
    there, back = patching.patched(plain, [first, second]), patching.patched(plain, [second, first])
    assert there.hash == back.hash
    assert there.hash != patching.patched(plain, [first]).hash


def test_a_patch_can_add_delete_and_change_the_mode_of_files(
    plain: source.Source, tmp_path: Path
) -> None:
    patch = tmp_path / "files.patch"
    patch.write_text(
        "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n"
        "@@ -0,0 +1 @@\n+int new;\n"
        "diff --git a/scripts/run.sh b/scripts/run.sh\ndeleted file mode 100755\n"
        "--- a/scripts/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-#!/bin/sh\n"
        "diff --git a/Kbuild b/Kbuild\nold mode 100644\nnew mode 100755\n"
    )
    listed = git("ls-tree", "-r", patching.patched(plain, [patch]).hash)
    assert "\tnew.c" in listed
    assert "\tscripts/run.sh" not in listed
    assert "100755 blob" in next(row for row in listed.splitlines() if row.endswith("\tKbuild"))


TWO_HUNKS = (("int bfq_3;", "int three;"), ("int bfq_30;", "int thirty;"))


def test_a_patch_that_does_not_apply_names_the_file_and_the_hunk(
    plain: source.Source, make_patch: MakePatch
) -> None:
    good = make_patch("good.patch", "init/main.c", ("return 0", "return 1"))
    bad = make_patch("bad.patch", "block/bfq.c", *TWO_HUNKS)
    text = bad.read_text()
    for damage, hunk, line in ((" int bfq_33;", 2, 27), (" int bfq_1;", 1, 1)):
        bad.write_text(text.replace(damage, " int other;"))
        with pytest.raises(BuildError) as caught:
            patching.patched(plain, [good, bad])
        assert caught.value.what == (
            f"bad.patch does not apply to {plain.spec}: hunk {hunk} of block/bfq.c (at line {line})"
        )
        assert caught.value.where == str(bad)
        assert plain.version in caught.value.hint
    assert patching.patched(plain, [good]).hash


@pytest.mark.parametrize("stamp", ["", "\t2024-01-01 00:00:00.000000000 +0000"])
def test_the_hunk_is_named_for_a_patch_made_by_diff(
    plain: source.Source, make_patch: MakePatch, stamp: str
) -> None:
    bad = make_patch("bad.patch", "block/bfq.c", *TWO_HUNKS)
    _, _, text = bad.read_text().partition(".c b/block/bfq.c\n")
    text = text.replace("/bfq.c\n", f"/bfq.c{stamp}\n").replace(" int bfq_33;", " int other;")
    bad.write_text(text)
    with pytest.raises(BuildError, match=r"hunk 2 of block/bfq\.c \(at line 27\)"):
        patching.patched(plain, [bad])


def test_the_hunk_is_counted_in_its_own_file(plain: source.Source, make_patch: MakePatch) -> None:
    first = make_patch("one.patch", "init/main.c", ("return 0", "return 1"))
    second = make_patch("two.patch", "block/bfq.c", *TWO_HUNKS)
    second.write_text(first.read_text() + second.read_text().replace(" int bfq_33;", " int other;"))
    with pytest.raises(BuildError, match=r"hunk 2 of block/bfq\.c"):
        patching.patched(plain, [second])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "--- a/block/none.c\n+++ b/block/none.c\n@@ -1 +1 @@\n-a\n+b\n",
            "block/none.c: does not exist",
        ),
        (
            "--- /dev/null\n+++ b/Kbuild\n@@ -0,0 +1 @@\n+a\n",
            "Kbuild: already exists",
        ),
        ("only words\n", "[Nn]o valid patches"),
        ("--- a/Kbuild\n+++ b/Kbuild\n@@ -1 +1 @@\n-obj", "corrupt patch|hunk 1 of Kbuild"),
    ],
)
def test_a_patch_that_cannot_apply_says_why(
    plain: source.Source, tmp_path: Path, text: str, reason: str
) -> None:
    patch = tmp_path / "bad.patch"
    patch.write_text(text)
    with pytest.raises(BuildError, match=rf"^bad\.patch does not apply to tar:.*: .*({reason})"):
        patching.patched(plain, [patch])


def test_a_patch_file_that_is_missing_is_named(plain: source.Source, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"gone\.patch.*No such file"):
        patching.patched(plain, [tmp_path / "gone.patch"])


def test_git_errors_are_not_swallowed() -> None:
    with pytest.raises(CommandError):
        git("cat-file", "-e", "0" * 40)

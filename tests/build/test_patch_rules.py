# SPDX-License-Identifier: GPL-2.0-or-later
"""Patches change ordinary files as text: whatever else git would apply is refused and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import BuildError
from lab.base.process import run
from lab.base.progress import Progress
from lab.base.system import PROJECT
from lab.build import patch_mail, patch_rules, patching, source
from lab.build.source import git


@pytest.fixture
def plain(fake_tarball: Path, quiet: Progress) -> source.Source:
    """The unpatched source."""
    return source.resolve(f"tar:{fake_tarball}", quiet)


def applied(plain: source.Source, tmp_path: Path, text: str) -> str:
    """The files of the source with a patch, as git lists them."""
    patch = tmp_path / "one.patch"
    patch.write_text(text)
    return git("ls-tree", "-r", patching.patched(plain, [patch]).hash)


def created(name: str, mode: str = "100644", line: str = "x") -> str:
    """The diff that makes a file."""
    return (
        f"diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n"
        f"@@ -0,0 +1 @@\n+{line}\n"
    )


QUOTED = 'diff --git "a/a\\nb.c" "b/a\\nb.c"\nnew file mode 100644\n'
HOSTILE = {
    "link": (created("scripts/evil", "120000", "/etc/shadow"), "scripts/evil': it is a symbolic l"),
    "existing link": (
        "--- a/scripts/link\n+++ b/scripts/link\n@@ -1 +1 @@\n-../init/main.c\n"
        "\\ No newline at end of file\n+/etc/shadow\n\\ No newline at end of file\n",
        "scripts/link': it is a symbolic link",
    ),
    "link of a file": (
        "diff --git a/init/main.c b/init/main.c\nold mode 100644\nnew mode 120000\n",
        "init/main.c: it is a symbolic link|new mode",
    ),
    "submodule": (created("sub", "160000", f"Subproject commit {7 * '0123456'[:6]:.40}"), "sub"),
    "parent": (created("../evil"), "../evil': it is not in the tree"),
    "parent inside": (created("block/../../evil"), "it is not in the tree"),
    "hook": (created(".git/hooks/post-checkout"), "git would obey it"),
    "upper case": (created("block/.GIT/config"), "git would obey it"),
    "attributes": (created("block/.gitattributes", line="*.c filter=lfs"), "git would obey it"),
    "modules": (created(".gitmodules"), "git would obey it"),
    "newline": (QUOTED + '--- /dev/null\n+++ "b/a\\nb.c"\n@@ -0,0 +1 @@\n+x\n', "control char"),
    "long name": (created("block/" + 300 * "n"), "its name is too long"),
    "long path": (created("/".join(600 * ["dd"])), "its name is too long"),
    "binary": (
        "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\n"
        "literal 999999999\nzcmZQzU|?Z\n\n",
        "it has binary content",
    ),
    "many files": ("".join(created(f"d/{n}") for n in range(50)), "more than 40 files"),
    "much": ("#" * 20_000 + "\n" + created("a.c"), "more than 0 MiB"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_patch_of_kernel_code_needs_is_refused_and_named(
    plain: source.Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    text, reason = HOSTILE[what]
    monkeypatch.setattr(patch_rules, "MOST_FILES", 40)
    monkeypatch.setattr(patch_rules, "MOST_BYTES", 20_000)
    patches = [tmp_path / "good.patch", tmp_path / "bad.patch"]
    patches[0].write_text(created("new.c"))
    patches[1].write_text(text)
    with pytest.raises(BuildError, match=f"bad.patch .*({reason})") as caught:
        patching.patched(plain, patches)
    assert caught.value.where == str(patches[1])
    assert patching.patched(plain, patches[:1]).hash != plain.tree


def test_an_absolute_name_is_one_in_the_tree(plain: source.Source, tmp_path: Path) -> None:
    text = "--- /dev/null\n+++ /tmp/evil\n@@ -0,0 +1 @@\n+x\n"
    assert "tmp/evil" in applied(plain, tmp_path, text)
    assert not Path("/tmp/evil").exists()


def test_a_link_that_is_there_may_go(plain: source.Source, tmp_path: Path) -> None:
    text = (
        "diff --git a/scripts/link b/scripts/link\ndeleted file mode 120000\n"
        "--- a/scripts/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-../init/main.c\n"
        "\\ No newline at end of file\n"
    )
    assert "scripts/link" not in applied(plain, tmp_path, text)


def test_commits_of_a_range_are_held_to_the_same(plain: source.Source, tmp_path: Path) -> None:
    repository = tmp_path / "linux"
    commands = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@b"]
    run(["git", "init", "-q", str(repository)])
    run([*commands, "commit", "-q", "--allow-empty", "-m", "first"])
    (repository / "evil").symlink_to("/etc/shadow")
    run([*commands, "add", "evil"])
    run([*commands, "commit", "-q", "-m", "second"])
    run(["git", "-C", str(repository), "config", "diff.noprefix", "true"])
    patches = patch_mail.collect(f"git:{repository}@HEAD~1..HEAD").patches
    with pytest.raises(BuildError, match=r"0001-second\.patch .*evil': it is a symbolic link"):
        patching.patched(plain, patches)


def test_what_a_user_has_told_git_changes_no_tree(
    plain: source.Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text("[apply]\n\tignoreWhitespace = change\n")
    text = "--- a/Kbuild\n+++ b/Kbuild\n@@ -1 +1 @@\n-obj-y  +=  init/ block/\n+x\n"
    with pytest.raises(BuildError, match="does not apply"):
        applied(plain, tmp_path, text)


def test_the_projects_own_patches_pass() -> None:
    patches = [
        *PROJECT.glob("kernel-patches/*/*/*.patch"),
        *PROJECT.glob("tools/controls/*/*/*.patch"),
    ]
    assert len(patches) > 20
    patch_rules.check(patches)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of a lab with one series that is committed."""
    top = tmp_path / "lab"
    for name in ("kernel-patches/own/series/1.patch", "elsewhere/1.patch"):
        (top / name).parent.mkdir(parents=True)
        (top / name).write_text(created("x"))
    run(["git", "init", "-q", str(top)])
    run(["git", "-C", str(top), "add", "--all"])
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    run(["git", "-C", str(top), *who, "commit", "-q", "-m", "x"])
    monkeypatch.setattr(patching, "CHECKOUT", top)
    return top


def test_a_patch_is_the_labs_own_as_its_last_commit_has_it(checkout: Path) -> None:
    patch = checkout / "kernel-patches/own/series/1.patch"
    assert not patching.is_foreign(patch)
    copied = checkout / "kernel-patches/strange/series/1.patch"
    copied.parent.mkdir(parents=True)
    copied.write_text(patch.read_text())
    (checkout / "kernel-patches/own/series/link.patch").symlink_to(copied)
    assert patching.is_foreign(copied)
    assert patching.is_foreign(checkout / "kernel-patches/own/series/link.patch")
    assert patching.is_foreign(checkout / "elsewhere/1.patch")
    patch.write_text(created("y"))
    assert patching.is_foreign(patch)


def test_without_a_commit_no_patch_is_the_labs_own(checkout: Path) -> None:
    (checkout / ".git").rename(checkout / "gone")
    assert patching.is_foreign(checkout / "kernel-patches/own/series/1.patch")

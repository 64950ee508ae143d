# SPDX-License-Identifier: GPL-2.0-or-later
"""Git repositories that somebody names: their commits are read, and nothing in them is obeyed.

A repository's configuration can start programs; its grafts, replacements and commit graph can
contradict its commits. So git does not run in it. It runs in a bare repository of the lab's own
that has the other one's references and reads its objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import UsageError
from lab.base.process import CommandError, run

# No option of the user's may change what a tree is, as apply.ignoreWhitespace does, or start a
# program of his; and git fetches nothing, whatever a repository promises.
ISOLATED = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# The commit graph and the index of all packs repeat what objects say, and may say something else.
_CONFIGURATION = """\
[core]
	repositoryformatversion = 0
	bare = true
	commitGraph = false
	multiPackIndex = false
	logAllRefUpdates = false
[gc]
	auto = 0
"""
# Chosen: all of a kernel's files are packed in a minute. A pipe in the place of a file never ends.
PATIENCE_S = 1800.0
_LINKED = ("refs", "logs", "packed-refs", "shallow")
_MOST_BYTES = 4096  # of a file that names a folder or a commit
_GIT_DIR = re.compile(r"gitdir: (.+)")


@dataclass(frozen=True)
class Repository:
    """Somebody's repository, to be read by git through a folder of the lab's own."""

    path: Path
    folder: Path

    def git(self, *args: str, stdin: str | None = None) -> str:
        """What git prints about the repository, without the last newline. Raises CommandError, and
        LabError when it does not end.
        """
        argv = ["git", f"--git-dir={self.folder}", "-c", f"core.hooksPath={os.devnull}", *args]
        done = run(argv, env=ISOLATED, stdin=stdin, timeout_s=PATIENCE_S)
        return done.output.rstrip("\n")

    def commit(self, revision: str) -> str:
        """The full id of the commit that a revision names. Raises CommandError for none."""
        return self.git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")


@contextmanager
def opened(path: Path) -> Iterator[Repository]:
    """The repository that path is, or lies in, for the block; UsageError where there is none."""
    git_folder, common = _git_folders(path)
    with cache.scratch() as folder:
        (folder / "config").write_text(_CONFIGURATION)
        (folder / "objects/info").mkdir(parents=True)
        (folder / "objects/info/alternates").write_text(f"{common / 'objects'}\n")
        for name in _LINKED:
            # Git would wait for a pipe.
            if (common / name).is_dir() or (common / name).is_file():
                (folder / name).symlink_to(common / name)
        # Copied, for git takes no folder for a repository whose HEAD is a link.
        for head in git_folder.glob("*HEAD"):
            if head.is_file():
                (folder / head.name).write_text(_read(head))
        yield Repository(path, folder)


def _git_folders(path: Path) -> tuple[Path, Path]:
    """Where the repository of a folder has its HEAD, and where it has its objects; they differ in a
    linked worktree.
    """
    start = path.expanduser().absolute()
    for folder in (start, *start.parents) if start.is_dir() else ():
        git_folder = _git_folder(folder)
        if git_folder:
            shared = git_folder / "commondir"
            common = git_folder / _read(shared).strip() if shared.is_file() else git_folder
            if (common / "objects").is_dir() and "\n" not in str(common):
                return git_folder, common
            break
    raise UsageError(f"{path} is no git repository", hint="write git:PATH@REV")


def _git_folder(folder: Path) -> Path | None:
    """The folder with a repository's HEAD, of its top folder or of itself; None for another one."""
    inside = folder / ".git"
    if inside.is_file():
        match = _GIT_DIR.match(_read(inside))
        return folder / match[1] if match else None
    bare = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
    return inside if inside.is_dir() else folder if bare else None


def _read(path: Path) -> str:
    with path.open(errors="replace") as file:
        return file.read(_MOST_BYTES)


def merge_base(path: Path, first: str, second: str) -> str:
    """The commit from which two revisions of a repository diverged. Raises UsageError for none."""
    try:
        with opened(path) as repository:
            ends = (repository.commit(first), repository.commit(second))
            return repository.git("merge-base", *ends)
    except CommandError as exc:
        raise UsageError(f"no merge base of {first} with {second}", where=str(path)) from exc

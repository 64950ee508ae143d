# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab's git repository of kernel sources. Git named all that is in it by its content.

A commit that is here is here with all of its files: it is copied last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.base import cache, durable
from lab.base.errors import LabError, UsageError
from lab.base.process import CommandError, run, run_logged
from lab.build.repository import ISOLATED, Repository

# Chosen: eight times what the names of all files of a kernel take.
_MOST_LIST_BYTES = 64 * 2**20
# Of one file, and of all. Chosen: Linux 6.12 has 1.5 GiB; its largest file has 24 MiB.
MOST_FILE_BYTES = 256 * 2**20
MOST_BYTES = 16 * 2**30
# A tree's own .gitattributes could name a filter to run, or have its files written differently.
_ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding -export-ignore -export-subst\n"


def store() -> Path:
    """The lab's bare git repository, created at first use."""
    path = cache.root() / "objects.git"
    if (path / "objects/info/alternates").exists():
        # Earlier labs had it read the objects of repositories, which may have false names.
        durable.discard(path)
    if not (path / "HEAD").exists():
        with cache.building(path, summed=False) as aside:
            run(["git", "init", "--quiet", "--bare", "--template=", str(aside)], env=ISOLATED)
            # The record of a source is on the disk before git's loose objects are, else.
            options = {"gc.auto": "0", "core.autocrlf": "false", "core.fsync": "committed"}
            for name, value in options.items():
                run(["git", "-C", str(aside), "config", name, value], env=ISOLATED)
    attributes = path / "info/attributes"
    if not attributes.exists() or attributes.read_text() != _ATTRIBUTES:
        cache.write_atomically(attributes, _ATTRIBUTES)
    return path


def arguments() -> list[str]:
    """The beginning of a git command on the store, to be run with ISOLATED added."""
    return ["git", f"--git-dir={store()}", "-c", f"core.hooksPath={os.devnull}"]


def git(*args: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> str:
    """Run git in the lab's object store and return its output without the last newline."""
    environment = {**ISOLATED, **(env or {})}
    return run([*arguments(), *args], env=environment, stdin=stdin).output.rstrip("\n")


def copy(repository: Repository, commit: str) -> None:
    """Copy a commit and its files, which get the names that they deserve.

    Raises LabError where the repository has other content under a name, UsageError for a tree that
    is too large for a kernel.
    """
    tree = repository.git("rev-parse", f"{commit}^{{tree}}")
    _take(repository, missing(_below(repository.git, tree)), "--fsck-objects")
    lost = missing([tree]) or missing(_below(git, tree))
    if not lost:
        _require_finite(tree, repository.path)
        # Commits of old histories are not always as git fsck wants them.
        _take(repository, [commit])
        lost = missing([commit])
    if lost:
        raise LabError(
            f"the repository has something else under the name of object {lost[0]}",
            where=str(repository.path),
            hint="`git fsck` there tells more",
        )


def _require_finite(tree: str, where: Path) -> None:
    """Raise UsageError for a tree with more or larger files than any kernel's.

    A few trees that contain each other many times over have more files than any disk, and a file
    of zeros is a thousandth as large in a repository.
    """
    listing = (*arguments(), "ls-tree", "-r", "-l", "-z", tree)
    try:
        with cache.scratch() as folder:
            limited = ["prlimit", f"--fsize={_MOST_LIST_BYTES}", "--core=0", *listing]
            run_logged(limited, log=folder / "files", env=ISOLATED)
            entries = (folder / "files").read_bytes().split(b"\0")
    except CommandError as exc:
        raise UsageError(f"tree {tree} has too many files for a kernel", where=str(where)) from exc
    # Mode, kind, name and size stand before a tab; a submodule has no size.
    sizes = [entry.partition(b"\t")[0].rpartition(b" ")[2] for entry in entries]
    file_sizes = [int(size) for size in sizes if size.isdigit()]
    if max(file_sizes, default=0) > MOST_FILE_BYTES or sum(file_sizes) > MOST_BYTES:
        raise UsageError(
            f"tree {tree} is too large for a kernel: {sum(file_sizes):,} bytes, "
            f"{max(file_sizes):,} in one file",
            where=str(where),
        )


def _below(of: Callable[..., str], tree: str) -> list[str]:
    """The names of a tree and of all in it, each once, as git lists them of a repository."""
    return of("rev-list", "--objects", "--no-object-names", tree).split()


def missing(names: Sequence[str]) -> list[str]:
    """Those of some objects that the store lacks."""
    queries = "".join(f"{name}\n" for name in dict.fromkeys(names))
    answers = git("cat-file", "--batch-check=%(objectname)", stdin=queries)
    return [line.split()[0] for line in answers.splitlines() if line.endswith(" missing")]


def _take(repository: Repository, names: Sequence[str], *options: str) -> None:
    """Copy objects into the store, as one pack whose index git makes from their content."""
    if not names:
        return
    with cache.scratch() as folder:
        packing = ("pack-objects", "-q", "--window=0", str(folder / "pack"))
        name = repository.git(*packing, stdin="".join(f"{object_name}\n" for object_name in names))
        pack = folder / f"pack-{name}.pack"
        index = folder / "checked.idx"
        git("index-pack", *options, "-o", str(index), str(pack))
        durable.sync(folder)
        packs = cache.make_folder(store() / "objects/pack")
        stem = f"pack-{durable.file_hash(pack)[:40]}"  # by all of its content, unlike git's
        for path in (pack, index):
            path.replace(packs / f"{stem}{path.suffix}")
        durable.sync_name(packs / f"{stem}.idx")

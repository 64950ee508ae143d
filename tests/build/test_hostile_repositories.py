# SPDX-License-Identifier: GPL-2.0-or-later
"""Git repositories that attack whoever reads them: by programs in their configuration, and by
objects that are not what their names say.

Each attack is first shown to succeed against git as it is.
"""

from __future__ import annotations

import hashlib
import subprocess
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lab.base import cache
from lab.base.errors import LabError, UsageError
from lab.base.process import CommandError, run
from lab.base.progress import Progress
from lab.build import object_store, patch_mail, repository, source
from lab.build.source import git as store_git
from lab.commands import bisect_search

ABSENT = "1" * 40


class Hostile:
    """A repository with two commits, and a file that appears when one of its programs runs."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self.progress = progress
        self.canary = path.with_name("canary")
        self.program = path.with_name("program")
        self.program.write_text(f"#!/bin/sh\necho ran >>{self.canary}\nexit 1\n")
        self.program.chmod(0o755)
        self.git("init", "-q", "-b", "main")
        self.commit("one")
        (path / "init/main.c").write_text("int two;\n")
        self.commit("two")

    def git(self, *words: str) -> str:
        """Git as it is, in the repository; a failure is none."""
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        return run(["git", "-C", str(self.path), *who, *words], check=False, merge=True).output

    def commit(self, subject: str) -> None:
        """Commit all files."""
        self.git("add", "--all")
        self.git("commit", "-q", "-m", subject)

    def configure(self, **values: str) -> None:
        """Set options; a name has __ for each dot."""
        for name, value in values.items():
            self.git("config", name.replace("__", "."), value)

    def plant(self, name: str, kind: str, content: bytes) -> None:
        """A loose object with another content than its name says."""
        path = self.path / ".git/objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(content), content)))

    def resolve(self, revision: str = "main") -> source.Source:
        """What the lab takes it for."""
        return source.resolve(f"git:{self.path}@{revision}", self.progress)

    def id(self, revision: str) -> str:
        """The name of an object."""
        return self.git("rev-parse", revision).strip()


@pytest.fixture
def hostile(fake_tree: Path, quiet: Progress) -> Hostile:
    """A repository before it attacks."""
    return Hostile(fake_tree, quiet)


def promised(checkout: Hostile, **more: str) -> None:
    """A branch whose commit is missing, and has to be fetched by a program."""
    checkout.configure(
        core__repositoryformatversion="1",
        extensions__partialClone="origin",
        remote__origin__promisor="true",
        remote__origin__uploadpack=str(checkout.program),
        **{"remote__origin__url": str(checkout.path), **more},
    )
    (checkout.path / ".git/refs/heads/feature").write_text(f"{ABSENT}\n")


def promised_by_a_helper(checkout: Hostile) -> None:
    """The same by a program that is the address."""
    address = f"ext::{checkout.program}"
    promised(checkout, protocol__ext__allow="always", remote__origin__url=address)


def promised_by_ssh(checkout: Hostile) -> None:
    """The same by a program in the place of ssh."""
    program = str(checkout.program)
    promised(checkout, core__sshCommand=program, remote__origin__url="ssh://nowhere/x")


def included(checkout: Hostile) -> None:
    """The same in a file that the configuration includes."""
    promised(checkout)
    config = checkout.path / ".git/config"
    config.rename(checkout.path / ".git/more")
    config.write_text(f'[includeIf "gitdir:{checkout.path}/"]\n\tpath = more\n')


def signed(checkout: Hostile) -> None:
    """A signature that a program looks at."""
    text = checkout.git("cat-file", "commit", "HEAD")
    head, _, body = text.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    content = f"{head}\n{signature}\n\n{body}"
    argv = ["git", "-C", str(checkout.path), "hash-object", "-t", "commit", "-w", "--stdin"]
    (checkout.path / ".git/refs/heads/main").write_text(run(argv, stdin=content).output)
    checkout.configure(log__showSignature="true", gpg__program=str(checkout.program))


def converted(checkout: Hostile) -> None:
    """A program that shows files as text."""
    (checkout.path / ".git/info").mkdir(exist_ok=True)
    (checkout.path / ".git/info/attributes").write_text("* diff=evil\n")
    checkout.configure(
        diff__evil__textconv=str(checkout.program), diff__evil__command=str(checkout.program)
    )


def watched(checkout: Hostile) -> None:
    """A program that says which files changed."""
    checkout.configure(core__fsmonitor=str(checkout.program))


def hooked(checkout: Hostile) -> None:
    """Programs that git starts by itself."""
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"):
        hook = checkout.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(checkout.program.read_text())
        hook.chmod(0o755)


ATTACKS: dict[str, tuple[Callable[[Hostile], None], tuple[str, ...]]] = {
    "promisor": (promised, ("rev-parse", "feature^{commit}")),
    "promisor by a remote helper": (promised_by_a_helper, ("rev-parse", "feature^{commit}")),
    "promisor by ssh": (promised_by_ssh, ("rev-parse", "feature^{commit}")),
    "include": (included, ("rev-parse", "feature^{commit}")),
    "signature": (signed, ("log", "-1")),
    "textconv": (converted, ("diff", "--ext-diff", "HEAD~1", "HEAD")),
    "fsmonitor": (watched, ("status",)),
    "hook": (hooked, ("checkout", "-q", "-b", "x", "HEAD~1")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_repository_starts_no_program(hostile: Hostile, attack: str) -> None:
    prepare, trigger = ATTACKS[attack]
    prepare(hostile)
    hostile.git(*trigger)
    assert hostile.canary.exists(), "the attack does not work against git as it is"
    hostile.canary.unlink()
    uses: list[Callable[[], object]] = [
        lambda: hostile.resolve(),
        lambda: hostile.resolve("feature"),
        lambda: source.at_commit(f"git:{hostile.path}@main", ABSENT),
        lambda: patch_mail.collect(f"git:{hostile.path}@main~1..main"),
        lambda: patch_mail.collect(f"git:{hostile.path}@feature~1..feature"),
        lambda: bisect_search.commits(hostile.path, "main~1", "main"),
        lambda: bisect_search.commits(hostile.path, "main", "feature"),
        lambda: bisect_search.subject(hostile.path, "main"),
        lambda: repository.merge_base(hostile.path, "main", "feature"),
    ]
    done = 0
    for use in uses:
        with suppress(UsageError, CommandError):
            use()
            done += 1
        assert not hostile.canary.exists()
    assert done >= 5


def test_a_false_file_does_not_get_the_name_of_an_honest_one(
    hostile: Hostile, tmp_path: Path
) -> None:
    """The honest file comes later, by a tarball or a patch; git does not write what it has."""
    honest = b"int to_come;\n"
    name = hashlib.sha1(b"blob %d\0%s" % (len(honest), honest), usedforsecurity=False).hexdigest()
    hostile.plant(name, "blob", b"int backdoor;\n")
    assert "backdoor" in hostile.git("cat-file", "blob", name)
    hostile.resolve()
    (tmp_path / "file").write_bytes(honest)
    assert store_git("hash-object", "-w", str(tmp_path / "file")) == name
    assert store_git("cat-file", "blob", name) == honest.decode().rstrip("\n")


@pytest.mark.parametrize("kind", ["blob", "tree", "commit"])
def test_a_commit_with_false_objects_is_refused(hostile: Hostile, kind: str) -> None:
    revision = {"blob": "main:init/main.c", "tree": "main^{tree}", "commit": "main"}[kind]
    commit, name = hostile.id("main"), hostile.id(revision)
    argv = ["git", "-C", str(hostile.path), "cat-file", kind, revision.replace("main", "main~1", 1)]
    before = subprocess.run(argv, capture_output=True, check=True).stdout
    hostile.plant(name, kind, before)
    for _ in range(2):
        with pytest.raises(LabError) as caught:
            hostile.resolve(commit)
        assert name in str(caught.value) or "hash mismatch" in str(caught.value)


def test_replacements_change_no_source(hostile: Hostile) -> None:
    bad = hostile.path.with_name("bad")
    bad.write_text("int backdoor;\n")
    name = hostile.git("hash-object", "-w", str(bad)).strip()
    hostile.git("replace", hostile.id("main:init/main.c"), name)
    assert "backdoor" in hostile.git("cat-file", "-p", "main:init/main.c")
    tree = hostile.resolve().tree
    assert store_git("cat-file", "blob", f"{tree}:init/main.c") == "int two;"
    (patch,) = patch_mail.collect(f"git:{hostile.path}@main~1..main").patches
    assert "backdoor" not in patch.read_text()


def test_grafts_change_no_history(hostile: Hostile) -> None:
    first, second = hostile.id("main~1"), hostile.id("main")
    (hostile.path / ".git/info").mkdir(exist_ok=True)
    (hostile.path / ".git/info/grafts").write_text(f"{second}\n")
    assert hostile.git("rev-list", "--count", "--no-show-signature", "main").split()[-1] == "1"
    assert bisect_search.commits(hostile.path, first, second) == [first, second]


def test_a_commit_graph_changes_no_source(hostile: Hostile) -> None:
    """It repeats which tree a commit has, and git believes it."""
    hostile.git("commit-graph", "write", "--reachable")
    graph = hostile.path / ".git/objects/info/commit-graph"
    old, new = (bytes.fromhex(hostile.id(f"{name}^{{tree}}")) for name in ("main~1", "main"))
    forged = graph.read_bytes().replace(new, old)
    graph.unlink()
    graph.write_bytes(forged)
    assert hostile.git("log", "-1", "--format=%T", "main").strip() == old.hex()
    assert hostile.resolve().tree == new.hex()


def test_what_never_answers_is_given_up(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    run(["mkfifo", str(hostile.path / ".git/refs/heads/pipe")])
    monkeypatch.setattr(repository, "PATIENCE_S", 0.5)
    with pytest.raises(LabError, match=r"git did not end within 0\.5 s"):
        hostile.resolve("pipe")


@pytest.mark.parametrize(
    "entries",
    [
        [("100644", ".git")],
        [("100644", "..")],
        [("100644", "../../outside")],
        [("100644", "a/b")],
        [("120000", "a"), ("100644", "a")],
        [("100644", "b"), ("100644", "a")],
    ],
    ids=["git's own folder", "parent", "outside", "slash", "twice", "order"],
)
def test_a_malformed_tree_is_refused(hostile: Hostile, entries: list[tuple[str, str]]) -> None:
    """Its entries are blobs, by mode and name, that git itself would not write."""
    blob = bytes.fromhex(hostile.id("main:init/main.c"))
    content = b"".join(f"{mode} {name}".encode() + b"\0" + blob for mode, name in entries)
    write = ["hash-object", "-t", "tree", "--literally", "-w", "--stdin"]
    argv = ["git", "-C", str(hostile.path), *write]
    tree = subprocess.run(argv, input=content, capture_output=True, check=True).stdout.decode()
    commit = hostile.git("commit-tree", "-m", "malformed", tree.strip()).strip()
    assert len(commit) == 40
    for _ in range(2):  # what was refused is not taken for copied the next time
        with pytest.raises(LabError):
            hostile.resolve(commit)
    assert hostile.resolve()


def test_a_few_trees_with_more_files_than_any_disk_are_refused(hostile: Hostile) -> None:
    argv = ["git", "-C", str(hostile.path), "mktree"]
    kind, name = "100644 blob", hostile.id("main:init/main.c")
    for _ in range(10):
        entries = "".join(f"{kind} {name}\tfile-{number}\n" for number in range(16))
        kind, name = "040000 tree", run(argv, stdin=entries).output.strip()
    commit = hostile.git("commit-tree", "-m", "bomb", name).strip()
    for _ in range(2):
        with pytest.raises(UsageError, match="too many files"):
            hostile.resolve(commit)


@pytest.mark.parametrize(("limit", "most"), [("MOST_FILE_BYTES", 2**20 - 1), ("MOST_BYTES", 2**21)])
def test_a_commit_that_stands_for_a_full_disk_is_refused(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """As a loose object of 1 MiB does that is 1 GiB of zeros."""
    assert hostile.resolve()
    for name in ("zeros", "more-zeros"):
        (hostile.path / name).write_bytes(bytes(2**20))
    hostile.commit("zeros")
    monkeypatch.setattr(object_store, limit, most)
    for _ in range(2):
        with pytest.raises(UsageError, match="too large for a kernel: 2,098,"):
            hostile.resolve()


def test_a_store_of_an_earlier_lab_that_read_repositories_is_made_anew(hostile: Hostile) -> None:
    alternates = source.store() / "objects/info/alternates"
    alternates.write_text(f"{hostile.path}/.git/objects\n")
    hostile.resolve()
    assert not alternates.exists()


@pytest.mark.parametrize("name", ["HEAD", "packed-refs", "shallow", "commondir"])
def test_a_pipe_in_the_place_of_a_file_stops_nobody(hostile: Hostile, name: str) -> None:
    place = hostile.path / ".git" / name
    commit = hostile.id("main")
    place.unlink(missing_ok=True)
    run(["mkfifo", str(place)])
    with suppress(UsageError):
        assert hostile.resolve(commit).version == commit[:12]


def test_a_revision_is_no_option(hostile: Hostile) -> None:
    for revision in ("--all", "--git-dir=/", "-h"):
        with pytest.raises(UsageError):
            hostile.resolve(revision)
        with pytest.raises(UsageError):
            bisect_search.commits(hostile.path, revision, "main")
    outside = hostile.path.with_name("outside")
    with pytest.raises((UsageError, LabError)):
        patch_mail.collect(f"git:{hostile.path}@--output={outside}..main")
    assert not outside.exists()


def test_nothing_is_written_into_a_repository(hostile: Hostile) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        files = (hostile.path / ".git").rglob("*")
        return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in files}

    before = state()
    hostile.resolve()
    patch_mail.collect(f"git:{hostile.path}@main~1..main")
    bisect_search.commits(hostile.path, "main~1", "main")
    assert state() == before
    assert not [*cache.root().glob(".scratch*")]

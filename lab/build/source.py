# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel sources, each resolved to a git tree in one object store of the lab.

A tree id is then a git tree hash: equal content, equal id, whatever it came from, and patches
are applied in the object store without ever checking a tree out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.base import apt, cache
from lab.base.errors import LabError, UsageError
from lab.base.process import CommandError, piped, run
from lab.base.progress import Progress
from lab.base.system import TREE
from lab.build import object_store, release, repository, tarball_import
from lab.build.object_store import arguments as arguments
from lab.build.object_store import git as git
from lab.build.object_store import store as store
from lab.build.repository import ISOLATED, Repository

# Where Debian keeps a kernel series when the running release does not have it. All others pass
# through the backports of the newest release, which hold one or two series at a time.
_HOME_SUITES = {
    "5.10": ("bullseye", "bullseye-security"),
    "6.1": ("bookworm", "bookworm-security"),
    "6.12": ("trixie", "trixie-security"),
}
_PASSING_THROUGH = ("trixie-backports",)
_IMPORT_GIB = 3.0


@dataclass(frozen=True)
class Source:
    """An unpatched kernel source: what was asked for, what it turned out to be, its tree hash; and
    origin, which separates sources whose trees differ everywhere: each has its own workbench.
    """

    spec: str
    version: str
    tree: str
    origin: str

    @property
    def packaged(self) -> bool:
        """Whether it is a distribution's own package; anybody may have written another one."""
        return is_packaged(self.spec)


def at_commit(spec: str, commit: str) -> str:
    """The source of a git tree at a commit that it has; empty for others, and without it."""
    if not spec.startswith("git:"):
        return ""
    path = Path(spec.removeprefix("git:").rpartition("@")[0] or ".").expanduser()
    try:
        with repository.opened(path) as repo:
            return f"git:{path}@{repo.commit(commit)}"
    except (CommandError, UsageError):
        return ""


def is_packaged(spec: str) -> bool:
    """Whether a source is named that a distribution packages and signs."""
    return spec.startswith("debian:")


def resolve(spec: str, progress: Progress) -> Source:
    """Make the source named by spec available and return it.

    spec is debian:VERSION, release:VERSION, git:PATH@REV or tar:PATH. Raises UsageError for a spec
    of another form, LabError when the source cannot be had.
    """
    kind, _, rest = spec.partition(":")
    resolvers: dict[str, Callable[[str, str, Progress], Source]] = {
        "debian": _debian,
        "release": _release,
        "git": _git,
        "tar": _tar,
    }
    if kind not in resolvers or not rest:
        raise UsageError(
            f"not a kernel source: {spec!r}",
            hint="write debian:6.12, release:6.12.94, git:PATH@REV or tar:PATH",
        )
    return resolvers[kind](spec, rest, progress)


def require_possible(spec: str) -> None:
    """Raise UsageError for Debian's source where it is not there and cannot be had."""
    kind, _, series = spec.partition(":")
    if kind == "debian" and not _recorded(f"debian-{series}"):
        apt.require_debian(f"the source {spec}")


def _debian(spec: str, series: str, progress: Progress) -> Source:
    name = f"debian-{series}"
    return _imported_once(name, progress, lambda: _from_debian(spec, series, progress))


def _from_debian(spec: str, series: str, progress: Progress) -> Source:
    """Import a source from the first of the suites that has it."""
    codename = apt.require_debian(f"the source {spec}")
    cache.require_space(cache.root(), _IMPORT_GIB, f"the source of Linux {series}")
    attempts = [[f"{codename}{part}" for part in ("", "-security", "-backports")]]
    home = _HOME_SUITES.get(series, _PASSING_THROUGH)
    if not set(home) <= set(attempts[0]):
        attempts.append([*home])
    package = f"linux-source-{series}"
    for attempt in attempts:
        try:
            return _import_debian(spec, package, apt.private(attempt), progress)
        except LabError as exc:
            failure = exc
    raise LabError(
        f"{spec} cannot be had: {failure.what}",
        where=f"suites {', '.join(name for attempt in attempts for name in attempt)}",
        hint=f"check the network, or name another source: {TREE}=release:VERSION, git:PATH@REV or "
        "tar:PATH, or --tree with one of these",
    ) from failure


def _import_debian(spec: str, package: str, archive: apt.PrivateApt, progress: Progress) -> Source:
    with progress.step(f"asking apt for {package}"):
        archive.update()
        version = archive.newest(package)
    if version is None:
        raise LabError(f"no suite has a package {package}")
    with cache.scratch() as folder:
        with progress.step(f"downloading {package} {version}"):
            deb = archive.download(package, version, folder)
        run(["dpkg-deb", "--extract", str(deb), str(folder / "content")])
        (tarball,) = (folder / "content/usr/src").glob("linux-source-*.tar.*")
        with progress.step(f"importing Linux {version}"):
            tree = import_tar(tarball)
    return Source(spec, version, tree, origin=package)


def _release(spec: str, version: str, progress: Progress) -> Source:
    name = f"release-{release.checked(version)}"

    def fetched() -> Source:
        cache.require_space(cache.root(), _IMPORT_GIB, f"the source of Linux {version}")
        with cache.scratch() as folder:
            tarball = release.fetch(version, folder, progress)
            with progress.step(f"importing Linux {version}"):
                tree = import_tar(tarball)
        return Source(spec, version, tree, origin=name)

    return _imported_once(name, progress, fetched)


def _tar(spec: str, path: str, progress: Progress) -> Source:
    tarball = Path(path).expanduser().absolute()
    try:
        stat = tarball.stat()
        tarball.open("rb").close()
    except OSError as exc:
        raise UsageError(f"cannot read the source {spec}: {exc.strerror}") from exc
    identity = cache.key(str(tarball), stat.st_size, stat.st_mtime_ns)

    def unpacked() -> Source:
        cache.require_space(cache.root(), _IMPORT_GIB, f"the source {tarball.name}")
        with progress.step(f"importing {tarball.name}"):
            tree = import_tar(tarball)
        return Source(spec, tarball.name, tree, origin=f"tar-{tarball.name}-{tree}")

    return _imported_once(f"tar-{identity}", progress, unpacked)


def _git(spec: str, rest: str, progress: Progress) -> Source:
    path, _, revision = rest.partition("@")
    while "@" in revision and not Path(path).expanduser().is_dir():
        more, _, revision = revision.partition("@")
        path = f"{path}@{more}"
    if not path or not revision:
        raise UsageError(f"no revision in {spec!r}", hint="write git:PATH@REV")
    place = Path(path).expanduser().absolute()
    try:
        with repository.opened(place) as repo:
            commit = repo.commit(revision)
            _copy(repo, commit, progress)
    except CommandError as exc:
        raise UsageError(
            f"{spec}: no such repository or revision", where=exc.output.strip()
        ) from exc
    tree = git("rev-parse", f"{commit}^{{tree}}")
    return Source(spec, commit[:12], tree, origin=f"git-{place}")


def _copy(repo: Repository, commit: str, progress: Progress) -> None:
    """Copy a commit into the store where it is not there yet."""
    if not object_store.missing([commit]):
        return
    with _importing(progress):
        cache.require_space(cache.root(), _IMPORT_GIB, f"a copy of commit {commit[:12]}")
        with progress.step(f"copying commit {commit[:12]}"):
            object_store.copy(repo, commit)


def _importing(progress: Progress) -> AbstractContextManager[None]:
    """One source at a time: apt has its lists and git its import for one lab only."""
    return cache.lock(cache.root() / "sources" / "lock", progress, "importing a source")


def import_tar(tarball: Path) -> str:
    """Read a kernel tarball, without its top folder, into the object store; its tree hash. Raises
    LabError for a file that is not a tar archive of a kernel.
    """
    reference = f"refs/sources/{cache.key(str(tarball), tarball.stat().st_mtime_ns)}"
    argv = [*arguments(), "-c", "core.compression=1", "fast-import", "--quiet"]
    with piped([*argv, "--force", "--depth=0"], env=ISOLATED) as stream:
        stream.write(f"commit {reference}\ncommitter lab <lab@lab> 0 +0000\n".encode())
        stream.write(b"data 0\ndeleteall\n")
        tarball_import.feed(tarball, stream)
    tree = git("rev-parse", f"{reference}^{{tree}}")
    if "Kbuild" not in git("ls-tree", "--name-only", tree).splitlines():
        raise LabError(f"{tarball} does not hold a kernel source (it has no Kbuild)")
    return tree


def _imported_once(name: str, progress: Progress, import_source: Callable[[], Source]) -> Source:
    """The source on record by a name; else the one that is imported now."""
    if source := _recorded(name):
        return source
    with _importing(progress):
        source = _recorded(name)
        if source is None:
            source = import_source()
            cache.write_atomically(_record(name), json.dumps(asdict(source), indent=1))
        return source


def _record(name: str) -> Path:
    return cache.root() / "sources" / f"{name}.json"


def _recorded(name: str) -> Source | None:
    """The source on record by a name, when the store has its tree."""
    source = cache.read(_record(name), lambda facts: Source(**facts))
    try:
        return source if source and git("cat-file", "-e", source.tree) == "" else None
    except CommandError:
        return None

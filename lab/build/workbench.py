# SPDX-License-Identifier: GPL-2.0-or-later
"""The workbench: one checked-out source with one object folder a configuration, which are kept.

Changing to another tree rewrites the files that differ, and make compiles just what depends on
them. Objects and what ccache keeps are as good as the makefiles and other programs of the trees
that made them. So they serve sources with the same programs only, and a tree with somebody else's
patches gets a copy of the objects, in their place, which is thrown away: nothing that its programs
left is there when another tree is built.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import BuildError, LabError
from lab.base.process import CommandError, run, run_logged
from lab.base.progress import Progress
from lab.build import make
from lab.build.make import Make
from lab.build.patching import Tree
from lab.build.repository import ISOLATED
from lab.build.source import arguments, git

_WORKBENCH_GIB = 3.0
# A killed compiler leaves half an object file that make would take for whole.
_IN_FLIGHT_NS = 10 * 10**9
_OBJECTS = "obj-"
# Of a command of make's with all files that an object depends on. Chosen: the largest has 100 KiB.
_MOST_COMMAND_BYTES = 2**20
# C code of the kernel alone: no program that a build runs is compiled from it. In 6.12 that holds
# for these folders without what is excepted (hostprogs in their makefiles), and for these headers,
# which no program of the host includes.
_KERNEL_CODE = re.compile(
    r"100(644|755) blob [0-9a-f]+\t(?!fs/unicode/|drivers/scsi/aic7xxx/)"
    r"((block|drivers/(block|md|nvme|scsi)|fs|io_uring|mm)/[\w/-]+\.[ch]"
    r"|include/linux/(bio|blk[\w-]*|bvec|sbitmap)\.h|lib/sbitmap\.c)",
    re.ASCII,
)

_PVH_ENTRY = "arch/x86/platform/pvh/Makefile"
_NOT_SANITIZED = ("KASAN_SANITIZE_enlighten.o=n", "KASAN_SANITIZE_string.o=n")


@dataclass(frozen=True)
class Workbench:
    """The workbench of a tree's origin; its source files are those of the tree."""

    folder: Path
    tree: Tree

    @property
    def source(self) -> Path:
        """The source files; objects lie below, for then kbuild names their sources alike."""
        return self.folder / "src"

    @property
    def _clean(self) -> Path:
        """Objects that foreign ones stand in the place of at the moment, by their names."""
        return self.folder / "clean"

    @property
    def _ccache(self) -> Path:
        """What compilers gave, for sources that no distribution packages."""
        return self.folder / "ccache"

    @property
    def _building(self) -> Path:
        """Names the objects that are being written."""
        return self.folder / "building"

    @contextmanager
    def objects(self, fragments: Sequence[str], progress: Progress) -> Iterator[Make]:
        """How to make the tree with a configuration, in its objects; of foreign trees in a copy."""
        path = self.source / f"{_OBJECTS}{cache.key(sorted(fragments))}"
        dates, left = _dates(path), cache.read(self._times(path), dict) or {}
        if max(dates.values(), default=0) > time.time_ns():
            progress.say("    the clock was set back: make could take old objects for new ones")
            make.delete(path)
        elif any(dates.get(name, when) != when for name, when in left.items()):
            # Where Landlock confines, builds of other trees can do that, and so have make take the
            # object of an old source for that of a new one.
            progress.say("    others changed the times of objects: they are made again")
            make.delete(path)
        # What others' sources gave is not for the compilers of a distribution's.
        ccache = cache.root() / "ccache" if self.tree.source.packaged else self._ccache
        foreign = self.tree.foreign
        scratch, variables = self.folder / "scratch", unwatched(self.tree)
        how = Make(self.source, path, scratch, ccache, keeps=not foreign, variables=variables)
        if not foreign:
            self._times(path).unlink(missing_ok=True)
            self._begin_with_nearest(path, fragments)
            try:
                yield how
            finally:
                cache.write_atomically(self._times(path), json.dumps(_dates(path)))
            return
        cache.make_folder(path)
        cache.make_folder(self._clean)
        path.rename(self._clean / path.name)
        try:
            with cache.disk_space_matters(path):
                run(["cp", "-a", "--reflink=auto", str(self._clean / path.name), str(path)])
            yield how
        finally:
            self.put_back()

    def _begin_with_nearest(self, path: Path, fragments: Sequence[str]) -> None:
        """Give a new configuration the objects of the one that has most of its fragments: make
        compiles anew what depends on the others.
        """
        if path.exists() and any(path.iterdir()):
            return
        candidates = {
            self.source / record.stem: {*record.read_text().split()}
            for record in self.folder.glob(f"{_OBJECTS}*.fragments")
            if (self.source / record.stem / "vmlinux").exists()
        }
        cache.write_atomically(self.folder / f"{path.name}.fragments", "\n".join(fragments))
        if not candidates:
            return
        nearest = min(
            candidates,
            key=lambda candidate: (len(candidates[candidate] ^ {*fragments}), candidate.name),
        )
        aside = self.folder / "copied"
        make.delete(aside)
        run(["cp", "-a", "--reflink=auto", str(nearest), str(aside)])
        _rename_in_commands(aside, nearest.name, path.name)
        make.delete(path)
        aside.rename(path)

    def _times(self, objects: Path) -> Path:
        """Says when each of the objects was written, while nobody builds in them."""
        return self.folder / f"{objects.name}.times"

    @contextmanager
    def writing(self, objects: Path) -> Iterator[None]:
        """Remember that files of these objects may be half-written, until make ends by itself."""
        self._building.write_text(str(objects))
        try:
            yield
        except LabError as exc:
            if not isinstance(exc, make.Overrun):
                self._building.unlink()
            raise
        self._building.unlink()

    def put_back(self) -> None:
        """Throw foreign objects away, also those of a lab that was killed."""
        if not self._clean.exists():
            return
        for kept in self._clean.iterdir():
            make.delete(self.source / kept.name)
            kept.rename(self.source / kept.name)
            self._building.unlink(missing_ok=True)

    def drop_others_objects(self) -> None:
        """Delete what a source with other programs made, before this one could use it."""
        if self.tree.source.packaged:
            return  # all of them come from one distribution
        mark, programs = self.folder / "programs", _programs(self.tree.source.tree)
        if mark.exists() and mark.read_text() == programs:
            return
        for made in (*self.source.glob(f"{_OBJECTS}*"), self._ccache):
            make.delete(made)
        cache.write_atomically(mark, programs)

    def drop_half_written(self) -> None:
        """After a build that was killed, delete the files that it may have left half-written."""
        if not self._building.exists():
            return
        interrupted = Path(self._building.read_text())
        dates = _dates(interrupted)
        newest = max(dates.values(), default=0)
        for name, written in dates.items():
            if written > newest - _IN_FLIGHT_NS:
                (interrupted / name).unlink()
        self._building.unlink()

    def check_out(self) -> None:
        """Make the source files those of the tree; git's index tells which of them already are.

        Raises BuildError for a tree with an entry in the place of objects, before it is there.
        """
        if self.tree.foreign or not self.tree.source.packaged:
            self._refuse_objects()
        index, log, tree = self.folder / "index", self.folder / "checkout.log", self.tree.hash
        argv = [*arguments(), f"--work-tree={self.source}"]
        environment = {**ISOLATED, "GIT_INDEX_FILE": str(index)}

        def read_tree() -> None:
            # The lock is that of a killed git: the workbench is ours.
            for leftover in (self.folder / "index.lock", log):
                leftover.unlink(missing_ok=True)
            # Supervised: a git that outlived its lab would take the next one's lock for its own.
            run_logged([*argv, "read-tree", "-u", "--reset", tree], log=log, env=environment)

        try:
            read_tree()
        except CommandError:
            index.unlink(missing_ok=True)  # when that is what is broken, all files are written anew
            read_tree()
        # Builds that were not confined could leave files of their own, such as a GNUmakefile.
        run_logged([*argv, "clean", "-ffdxq", "-e", f"/{_OBJECTS}*"], log=log, env=environment)

    def _refuse_objects(self) -> None:
        entries = git("ls-tree", "-z", "--name-only", self.tree.hash).split("\0")
        if planted := [name for name in entries if name.lower().startswith(_OBJECTS)]:
            raise BuildError(
                f"{self.tree.source.spec} has {planted[0]!r}, where the lab keeps objects",
                where=f"tree {self.tree.hash}",
                hint=f"no kernel has a top entry that is called {_OBJECTS}*: take it out",
            )


@contextmanager
def opened(tree: Tree, progress: Progress) -> Iterator[Workbench]:
    """The workbench of a tree's origin, locked, its source files made those of the tree."""
    folder = cache.make_folder(cache.root() / "workbench" / cache.key(tree.source.origin))
    bench = Workbench(folder, tree)
    with cache.lock(folder / "lock", progress, "building a kernel here"):
        if not bench.source.exists():
            cache.require_space(folder, _WORKBENCH_GIB, "a kernel source with its objects")
        cache.make_folder(bench.source)
        bench.put_back()
        bench.drop_others_objects()
        with progress.step("checking out the source"), cache.disk_space_matters(folder):
            bench.check_out()
        yield bench


def unwatched(tree: Tree) -> tuple[str, ...]:
    """Variables of make for what KASAN must not watch, where a tree does not exempt it itself.

    The PVH entry runs before KASAN has its memory. Watched, a kernel of 5.10 ends in
    xen_prepare_pvh() (arch/x86/platform/pvh/enlighten.c) or in memcmp(), which that calls.
    """
    try:
        makefile = git("show", f"{tree.hash}:{_PVH_ENTRY}")
    except CommandError:
        return ()
    return () if "KASAN_SANITIZE" in makefile else _NOT_SANITIZED


def _rename_in_commands(objects: Path, old: str, new: str) -> None:
    """Have the commands of copied objects name their new folder, so that make takes them for its
    own: those of tools/ have its whole path.

    A build left there what it liked: nothing but a small file is opened.
    """
    for record in _files(objects / "tools"):
        if record.suffix == ".cmd" and record.lstat().st_size < _MOST_COMMAND_BYTES:
            record.write_bytes(record.read_bytes().replace(old.encode(), new.encode()))


def _programs(tree: str) -> str:
    """A hash of all of a tree that a build may run: of everything but code of the kernel alone."""
    entries = git("ls-tree", "-r", "-z", tree).split("\0")
    return cache.key([entry for entry in entries if not _KERNEL_CODE.fullmatch(entry)])


def _dates(folder: Path) -> dict[str, int]:
    """When each file of a folder was written, in nanoseconds since 1970, by its path there."""
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    """The regular files below a folder; none where it is a link."""
    if folder.is_symlink():
        return []
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]

# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels: built in a workbench that is kept, so that a variant costs only what differs.

A workbench is one checked-out source with one object folder a configuration. Changing to another
tree rewrites the files that differ, and make compiles just what depends on them. What was built
is copied to the cache under the kernel's id; the workbench itself is never used to boot.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from lab.base import cache
from lab.base.errors import BuildError, LabError
from lab.base.process import CommandError, run, run_logged, tail
from lab.base.progress import Progress
from lab.build import block_layer, make_log
from lab.build.patching import Tree
from lab.build.source import git, store
from lab.inputs import kconfig

# Fixed, so that two builds of one tree are the same file byte for byte.
_REPRODUCIBLE = {
    "KBUILD_BUILD_USER": "lab",
    "KBUILD_BUILD_HOST": "lab",
    "KBUILD_BUILD_TIMESTAMP": "2024-01-01 00:00:00 UTC",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
_WORKBENCH_GIB = 3.0
_IMAGE = "arch/x86/boot/bzImage"
_PRODUCTS = (_IMAGE, "vmlinux", "System.map", ".config")
_BLOCK_LAYER = "block-layer"
# A killed compiler leaves half an object file that make would take for whole.
_IN_FLIGHT_S = 10.0


@dataclass(frozen=True)
class Kernel:
    """A built kernel: id, release as uname prints it, tree hash, configuration, and its folder."""

    id: str
    release: str
    tree: str
    fragments: tuple[str, ...]
    toolchain: str

    @property
    def folder(self) -> Path:
        """Where bzImage, vmlinux, System.map, config and block-layer lie."""
        return cache.root() / "kernels" / self.id

    @property
    def image(self) -> Path:
        """The compressed image, for boots whose start-up does not count."""
        return self.folder / "bzImage"

    @property
    def system_map(self) -> Path:
        """The addresses of its functions."""
        return self.folder / "System.map"

    @property
    def vmlinux(self) -> Path:
        """The uncompressed image: QEMU starts it through PVH, without a decompressor."""
        return self.folder / "vmlinux"

    @cached_property
    def block_layer(self) -> frozenset[str]:
        """The names of its block layer's functions."""
        return frozenset((self.folder / _BLOCK_LAYER).read_text().splitlines())

    @cached_property
    def code(self) -> str:
        """A hash of what it executes: kernels whose sources differ in comments only share it."""
        return cache.file_hash(self.vmlinux)


def build(tree: Tree, fragments: Sequence[str], progress: Progress) -> Kernel:
    """The kernel of a tree with a configuration; built only when the cache has none.

    What fails is tried a second time, in clean objects. Raises BuildError with the end of the
    compiler's output, and names the log; another LabError where nothing is said of the source.
    """
    options = kconfig.merge(fragments, _version(tree))
    toolchain = _toolchain()
    identity = cache.key("kernel", 2, tree.hash, kconfig.text(options), toolchain)
    if known := find(identity):
        return known
    with _workbench(tree, progress) as workbench:
        if known := find(identity):
            return known
        objects, log = _objects(workbench, fragments), _log(f"build-{identity}")

        if _newest(objects) > time.time():
            progress.say("    the clock was set back: make could take old objects for new ones")
            cache.remove(objects)

        def make() -> None:
            _configure(workbench, objects, options, tree, log, progress)
            _compile(workbench, objects, log, progress)

        try:
            make()
        except LabError:
            # Objects of another tree that do not fit, a compiler that was killed or that failed
            # by chance must not look like a mistake of this one.
            progress.say("    the build failed; once more without any objects")
            cache.remove(objects)
            log.write_text("")  # only what is said again counts
            make()
        release = (objects / "include/config/kernel.release").read_text().strip()
        kernel = Kernel(identity, release, tree.hash, tuple(fragments), toolchain)
        _keep(kernel, objects)
    return kernel


def configure(tree: Tree, fragments: Sequence[str], progress: Progress) -> str:
    """The .config of a tree with a configuration, every option checked, and nothing built.

    Raises BuildError like build.
    """
    options = kconfig.merge(fragments, _version(tree))
    with _workbench(tree, progress) as workbench:
        objects = _objects(workbench, fragments)
        _configure(workbench, objects, options, tree, _log(f"configure-{tree.hash}"), progress)
        return (objects / ".config").read_text()


def find(identity: str) -> Kernel | None:
    """The kernel with this id, when the cache holds it."""
    folder = cache.root() / "kernels" / identity
    return _read(folder) if cache.whole(folder, sound=lambda own: _read(own) is not None) else None


def _read(folder: Path) -> Kernel | None:
    """The kernel in a folder of the cache; None when it is not complete."""
    files = [folder / Path(product).name.lstrip(".") for product in _PRODUCTS]
    if not all(file.is_file() and file.stat().st_size for file in files):
        return None
    return cache.read(
        folder / "kernel.json",
        lambda facts: Kernel(**{**facts, "fragments": tuple(facts["fragments"])}),
    )


def _version(tree: Tree) -> kconfig.Version:
    """The version in the tree's own Makefile: patches may change it, and a source may lack it."""
    try:
        return kconfig.version(git("show", f"{tree.hash}:Makefile"))
    except CommandError as exc:
        raise BuildError(f"{tree.source.spec} has no Makefile", where=f"tree {tree.hash}") from exc


@contextmanager
def _workbench(tree: Tree, progress: Progress) -> Iterator[Path]:
    """The workbench of a tree's origin, locked, its source files made those of the tree."""
    workbench = cache.make_folder(cache.root() / "workbench" / cache.key(tree.source.origin))
    with cache.lock(workbench / "lock", progress, "building a kernel here"):
        source = workbench / "src"
        if not source.exists():
            cache.require_space(workbench, _WORKBENCH_GIB, "a kernel source with its objects")
        cache.make_folder(source)
        with progress.step("checking out the source"), cache.disk_space_matters(workbench):
            _check_out(tree, workbench, source)
        yield workbench


def _objects(workbench: Path, fragments: Sequence[str]) -> Path:
    """The object folder of a configuration."""
    return workbench / "src" / f"obj-{cache.key(sorted(fragments))}"


def _log(name: str) -> Path:
    """An empty log."""
    log = cache.make_folder(cache.root() / "logs") / f"{name}.log"
    log.write_text("")
    return log


def _check_out(tree: Tree, workbench: Path, source: Path) -> None:
    """Make the source files those of a tree; git's index tells which of them already are."""
    index, log = workbench / "index", workbench / "checkout.log"
    argv = ["git", f"--git-dir={store()}", f"--work-tree={source}"]
    argv += ["read-tree", "-u", "--reset", tree.hash]

    def read_tree() -> None:
        (workbench / "index.lock").unlink(missing_ok=True)  # of a killed git; the lock is ours
        log.unlink(missing_ok=True)
        # Supervised: a git that outlived its lab would take the next one's lock for its own.
        run_logged(argv, log=log, env={"GIT_INDEX_FILE": str(index)})

    try:
        read_tree()
    except CommandError:
        index.unlink(missing_ok=True)  # when that was what is broken, all files are written anew
        read_tree()


def _make(objects: Path) -> list[str]:
    """A make that knows nothing of the user's environment: no flag of it may change a kernel."""
    compiler = "ccache gcc" if shutil.which("ccache") else "gcc"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    # Equal trees give equal objects in every folder, so ccache may take those of another one.
    ccache = {
        "CCACHE_DIR": str(cache.root() / "ccache"),
        "CCACHE_MAXSIZE": "4G",
        "CCACHE_BASEDIR": str(objects.parent),
        "CCACHE_NOHASHDIR": "1",
    }
    environment = {**kept, **_REPRODUCIBLE, **ccache}
    settings = [f"{name}={value}" for name, value in environment.items()]
    # LOCALVERSION= keeps scripts/setlocalversion from adding a plus sign.
    make = ["make", "-C", str(objects.parent), f"O={objects}", f"CC={compiler}", "LOCALVERSION="]
    return ["env", "-i", *settings, *make]


def _configure(
    workbench: Path,
    objects: Path,
    options: dict[str, kconfig.Option],
    tree: Tree,
    log: Path,
    progress: Progress,
) -> None:
    """Write .config: the fragments over allnoconfig, every option checked."""
    _drop_half_written(workbench, objects)
    cache.make_folder(objects)
    fragment = objects / "lab.config"
    fragment.write_text(kconfig.text(options))
    with progress.step("configuring the kernel"):
        _run_make(
            [*_make(objects), f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"], log, "configuration"
        )
    kconfig.check_survivors(options, (objects / ".config").read_text(), lambda: _declared(tree))


def _declared(tree: Tree) -> set[str]:
    """All options that the tree's Kconfig files declare, as CONFIG_ names."""
    found = git("grep", "-hE", r"^\s*(menu)?config [A-Z0-9_]+", tree.hash, "--", "*Kconfig*")
    return {f"CONFIG_{line.split()[1]}" for line in found.splitlines()}


def _compile(workbench: Path, objects: Path, log: Path, progress: Progress) -> None:
    jobs = os.cpu_count() or 1
    building = workbench / "building"
    building.write_text(str(objects))
    argv = [*_make(objects), f"-j{jobs}", "bzImage"]
    with progress.step(f"building the kernel ({jobs} jobs)", lambda: _steps_done(log)):
        try:
            _run_make(argv, log, "build")
        except LabError:
            building.unlink()  # make ended by itself and so left nothing half-written
            raise
    building.unlink()


def _run_make(argv: list[str], log: Path, what: str) -> None:
    with cache.disk_space_matters(log):
        try:
            run_logged(argv, log=log)
        except CommandError as exc:
            kind = BuildError if make_log.blames_source(exc.output) else LabError
            raise kind(
                f"the kernel's {what} failed:\n{tail(make_log.failures(exc.output) or exc.output)}",
                where=str(log),
                hint="the log holds the whole output",
            ) from exc


def _steps_done(log: Path) -> str:
    """How many files make has made so far, for the progress line."""
    done = sum(line.startswith("  ") for line in log.read_text(errors="replace").splitlines())
    return f"{done} files"


def _drop_half_written(workbench: Path, objects: Path) -> None:
    """After a build that was killed, delete the object files that it may have left half-written."""
    marker = workbench / "building"
    if not marker.exists():
        return
    interrupted = Path(marker.read_text())
    newest = _newest(interrupted)
    for path in _files(interrupted):
        if path.stat().st_mtime > newest - _IN_FLIGHT_S and path.name != "lab.config":
            path.unlink()
    marker.unlink()


def _newest(folder: Path) -> float:
    """When the newest file of a folder was written, in seconds since 1970; 0 without any."""
    return max((path.stat().st_mtime for path in _files(folder)), default=0.0)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def _keep(kernel: Kernel, objects: Path) -> None:
    with cache.building(kernel.folder) as folder:
        for product in _PRODUCTS:
            shutil.copy2(objects / product, folder / Path(product).name.lstrip("."))
        names = block_layer.functions(objects)
        (folder / _BLOCK_LAYER).write_text("".join(f"{name}\n" for name in names))
        (folder / "kernel.json").write_text(json.dumps(asdict(kernel), indent=1))


def _toolchain() -> str:
    """Compiler and linker as they name themselves; part of a kernel's identity."""
    try:
        versions = [run([tool, "--version"]).output.splitlines()[0] for tool in ("gcc", "ld")]
    except CommandError as exc:
        raise LabError(f"the compiler does not work: {exc.what}") from exc
    return "; ".join(versions)

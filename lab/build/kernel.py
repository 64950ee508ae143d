# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels: built in a workbench that is kept, so that a variant costs only what differs.

What was built is copied to the cache under the kernel's id; the workbench (lab/build/workbench.py)
itself is never used to boot.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from lab.base import cache, host_time
from lab.base.errors import BuildError, LabError
from lab.base.process import CommandError, run
from lab.base.progress import Progress
from lab.build import block_layer, make, products, workbench
from lab.build.make import Make
from lab.build.patching import Tree
from lab.build.source import git
from lab.build.workbench import Workbench
from lab.inputs import kconfig

_PRODUCTS = ("vmlinux", "System.map", ".config")
_FRAGMENT = "lab.config"
# In a line of git ls-tree: Kconfig files, and what makes and runs the program that reads them.
_CONFIGURES = re.compile(r"\t(?:.*/)?Kconfig[^/]*$|\t(?:scripts/|Makefile$|arch/x86/Makefile)")


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
        """Where vmlinux, System.map, config and block-layer lie."""
        return cache.root() / "kernels" / self.id

    @property
    def system_map(self) -> Path:
        """The addresses of its functions."""
        return self.folder / "System.map"

    @property
    def vmlinux(self) -> Path:
        """The image: QEMU starts it through PVH, so nothing has to compress and unpack it."""
        return self.folder / "vmlinux"

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of all its functions."""
        return block_layer.symbols(self.system_map)

    @cached_property
    def symbols_hash(self) -> str:
        """A hash of System.map, which the kernel's own build wrote beside the image."""
        return cache.file_hash(self.system_map)

    def block_layer(self, reference: Kernel) -> frozenset[str]:
        """The names of its functions that count as the block layer, beside a reference kernel."""
        known, listed = (block_layer.of_kernel(kernel.id) for kernel in (reference, self))
        return block_layer.beside(known, reference.functions, listed, self.functions)

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
    identity = cache.key("kernel", 3, tree.hash, kconfig.text(options), toolchain)
    if known := find(identity):
        return known
    with workbench.opened(tree, progress) as bench, bench.objects(fragments, progress) as how:
        if known := find(identity):
            return known
        log = _log(f"build-{identity}")

        def build_all() -> None:
            _configure(how, bench, options, log, progress)
            _compile(how, bench, log, progress)

        try:
            build_all()
        except make.Overrun:
            raise
        except LabError:
            # Objects of another tree that do not fit, a compiler that was killed or that failed
            # by chance must not look like a mistake of this one.
            progress.say("    the build failed; once more without any objects")
            make.delete(how.objects)
            log.write_text("")  # only what is said again counts
            build_all()
        release = products.release(how.objects)
        kernel = Kernel(identity, release, tree.hash, tuple(fragments), toolchain)
        _keep(kernel, how.objects)
    return kernel


def find(identity: str) -> Kernel | None:
    """The kernel with this id, when the cache holds it."""
    folder = cache.root() / "kernels" / identity
    is_whole = cache.whole(folder, sound=lambda entry: _read(entry) is not None)
    return _read(folder) if is_whole else None


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


def _log(name: str) -> Path:
    """An empty log."""
    log = cache.make_folder(cache.root() / "logs") / f"{name}.log"
    log.write_text("")
    return log


def _configure(
    how: Make,
    bench: Workbench,
    options: dict[str, kconfig.Option],
    log: Path,
    progress: Progress,
) -> None:
    """Write .config: the fragments over allnoconfig, every option checked.

    That takes seconds, and makes make look at its configuration again; it is not done where the
    objects have the .config that it would write.
    """
    bench.drop_half_written()
    inputs = cache.key(kconfig.text(options), _toolchain(), _configuring_files(bench.tree))
    record = bench.folder / f"{how.objects.name}.configured"
    written = how.objects / ".config"
    known = [inputs, cache.file_hash(written) if written.is_file() else ""]
    if cache.read(record, list) == known:
        return
    goal = [f"KCONFIG_ALLCONFIG={how.scratch / _FRAGMENT}", "allnoconfig"]
    with progress.step("configuring the kernel"):
        how.run(goal, log, "configuration", {_FRAGMENT: kconfig.text(options)})
    config = products.text(how.objects, ".config")
    kconfig.check_survivors(options, config, lambda: _declared(bench.tree))
    if how.keeps:  # objects of a foreign tree are thrown away
        known = [inputs, cache.file_hash(products.product(how.objects, ".config"))]
        cache.write_atomically(record, json.dumps(known))


def _configuring_files(tree: Tree) -> list[str]:
    """All files of a tree that decide what its configuration becomes, with their hashes."""
    listed = git("ls-tree", "-r", tree.hash).splitlines()
    return [line for line in listed if _CONFIGURES.search(line)]


def _declared(tree: Tree) -> set[str]:
    """All options that the tree's Kconfig files declare, as CONFIG_ names."""
    lines = git("grep", "-hE", r"^\s*(menu)?config [A-Z0-9_]+", tree.hash, "--", "*Kconfig*")
    return {f"CONFIG_{line.split()[1]}" for line in lines.splitlines()}


def _compile(how: Make, bench: Workbench, log: Path, progress: Progress) -> None:
    jobs = os.cpu_count() or 1
    with (
        host_time.showing_wait(host_time.disturbing, progress),
        progress.step(f"building the kernel ({jobs} jobs)", lambda: make.steps_done(log)),
        bench.writing(how.objects),
    ):
        how.run([f"-j{jobs}", "vmlinux"], log, "build")


def _keep(kernel: Kernel, objects: Path) -> None:
    made = [products.product(objects, name) for name in _PRODUCTS]
    products.check_symbols(objects)
    with cache.building(kernel.folder) as folder:
        for product in made:
            shutil.copy2(product, folder / product.name.lstrip("."), follow_symlinks=False)
        names = block_layer.functions(objects)
        (folder / block_layer.FILE).write_text("".join(f"{name}\n" for name in names))
        (folder / "kernel.json").write_text(json.dumps(asdict(kernel), indent=1))


def _toolchain() -> str:
    """Compiler and linker as they name themselves; part of a kernel's identity."""
    try:
        versions = [run([tool, "--version"]).output.splitlines()[0] for tool in ("gcc", "ld")]
    except CommandError as exc:
        raise LabError(f"the compiler does not work: {exc.what}") from exc
    return "; ".join(versions)

# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's root folder, made of the host's packages, and the same folder as an initramfs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.base.system import PACKAGE, which
from lab.build.guest_libraries import LOADER, called, loaded

AGENT = PACKAGE / "guest/agent"
# Steps that stand before the agent in a root that has more than fio and dbench need.
MORE_STEPS = PACKAGE / "guest/more_steps"
# Compiled, it is loaded before the C library by the guest's fio.
_MARK = PACKAGE / "guest/mark.c"
_MARK_FLAGS = ("-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none")
# Raise it when a root is made differently of the same files: it is part of the id.
_LAYOUT = 2
_PROGRAMS = ("fio", "dbench", "mkfs.xfs", "dmsetup")
# The agent mounts over these where nothing is mounted.
_MOUNTED = ("/tmp", "/run")
# Mount points and folders that virtme-ng or the agent expects.
_FOLDERS = (
    *("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "lib/lab", "lib64", "etc", "root"),
    *("dev", "proc", "sys", "run", "tmp", "mnt", "var/log", "var/tmp", "var/lib", "lib/modules"),
)
# virtme-ng mounts a file over /etc/fstab and looks the user up.
_FILES = {
    "etc/fstab": "",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\ntty:x:5:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}


@dataclass(frozen=True)
class GuestRoot:
    """The guest's files; id is a hash of all of them."""

    id: str

    @property
    def folder(self) -> Path:
        """Where the two forms lie."""
        return cache.root() / "guests" / self.id

    @property
    def root(self) -> Path:
        """The folder for vng --root."""
        return self.folder / "root"

    @property
    def initramfs(self) -> Path:
        """The same as an uncompressed cpio archive."""
        return self.folder / "initramfs.cpio"


def build(
    progress: Progress, *static: Path, user_files: Mapping[str, Path] | None = None
) -> GuestRoot:
    """The guest root of this host's programs; made anew when one of them changed.

    static are further programs, which need no library. With user_files, those of a user's command
    by where the guest has them, the agent has more steps. Raises LabError when a program is not
    installed.
    """
    busybox = _busybox()
    programs = {name: _find(name) for name in _PROGRAMS}
    libraries: dict[str, Path] = {}
    for name, path in programs.items():
        libraries |= called(path) if name == "fio" else loaded(path)
    libraries["mark.so"] = _mark_library()
    programs |= {path.name: path for path in static}
    inputs = {
        "agent": AGENT,  # by its name: equal checkouts in two places have one guest
        **{str(path): path for path in (busybox, *programs.values(), *libraries.values())},
    }
    files = dict(user_files or {})
    if user_files is not None:
        dash = which("dash")
        files |= {"/bin/dash": Path(dash)} if dash else {}
        files = {place: path for place, path in files.items() if Path(place).name not in _PROGRAMS}
        for path in files.values():
            libraries |= {n: p for n, p in _loaded_if_program(path).items() if n not in libraries}
        inputs |= {"steps": MORE_STEPS, **{f"at {n}": path for n, path in files.items()}}
        inputs |= {str(path): path for path in libraries.values()}
    content = [(name, cache.file_hash(path)) for name, path in inputs.items()]
    kept = [d for d in _MOUNTED if any(Path(place).is_relative_to(d) for place in files)]
    identity = cache.key("guest", _LAYOUT, content, *([kept] if kept else []))
    guest = GuestRoot(identity)
    if not cache.whole(guest.folder):
        with progress.step("making the guest's root"), cache.building(guest.folder) as folder:
            _fill(folder / "root", busybox, programs, libraries)
            if user_files is not None:
                _add(folder / "root", files, kept)
            _pack(folder / "root", folder / "initramfs.cpio")
    return guest


def _mark_library() -> Path:
    """The library that makes fio's marks, compiled."""
    folder = cache.root() / "stubs" / cache.key(_MARK.read_text())
    path = folder / "mark.so"
    if not cache.whole(folder):
        with cache.building(folder) as making:
            run(["gcc", *_MARK_FLAGS, "-o", str(making / path.name), str(_MARK)])
    return path


def _busybox() -> Path:
    path = _find("busybox")
    if "statically linked" not in run(["file", "-L", str(path)]).output:
        raise LabError(
            f"{path} is not statically linked", hint="install the package busybox-static"
        )
    return path


def _find(program: str) -> Path:
    path = which(program)
    if not path:
        raise LabError(
            f"{program} is not installed",
            hint="`make setup`, or `python3 -m lab.setup`, installs what the lab needs",
        )
    return Path(path)


def _fill(root: Path, busybox: Path, programs: dict[str, Path], libraries: dict[str, Path]) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, content in _FILES.items():
        (root / name).write_text(content)
    shutil.copy(busybox, root / "bin/busybox")
    for applet in run([str(busybox), "--list"]).output.split():
        if applet not in {*programs, "busybox"}:
            (root / "bin" / applet).symlink_to("busybox")
    for name, path in programs.items():
        shutil.copy(path.resolve(), root / "bin" / name)
    for name, path in libraries.items():
        place = root / ("lib64" if name == LOADER else "lib/lab") / name
        shutil.copy(path, place)
        place.chmod(0o755)
    (root / "bin/agent").symlink_to("../init")
    shutil.copy(AGENT, root / "init")
    (root / "init").chmod(0o755)


def _loaded_if_program(path: Path) -> dict[str, Path]:
    """The libraries of a file of the user's; none of one that loads none."""
    with path.open("rb") as content:
        if content.read(4) != b"\x7fELF":
            return {}
    try:
        return loaded(path)
    except LabError:
        return {}


def _add(root: Path, files: Mapping[str, Path], kept: Sequence[str]) -> None:
    """Add files of the user's, and more steps of the agent's; kept are folders with files of the
    user's that the agent would mount over.
    """
    for name, path in files.items():
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        shutil.copy(path, place)
    agent = root / "init"
    first, rest = agent.read_text().split("\n", 1)
    binds = "".join(f"mount --bind {folder} {folder}\n" for folder in kept)
    agent.write_text(f"{first}\n{MORE_STEPS.read_text()}{binds}{rest}")


def _pack(root: Path, archive: Path) -> None:
    """Pack root so that equal files give an equal archive: sorted, owned by root, dated 1970."""
    paths = sorted(root.rglob("*"))
    for path in paths:
        os.utime(path, (0, 0), follow_symlinks=False)
    listing = "".join(f"{path.relative_to(root)}\n" for path in paths)
    pack = ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "--reproducible"]
    run([*pack, "-O", str(archive)], cwd=root, stdin=listing)

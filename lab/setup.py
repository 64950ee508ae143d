# SPDX-License-Identifier: GPL-2.0-or-later
"""Set-up of a fresh machine: system packages and the Python environment.

``python3 -m lab.setup`` runs before any dependency is there: it and what it imports need the
standard library only. It does nothing, quickly, when everything is in place.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.base import apt, cache
from lab.base.errors import ExitCode, LabError
from lab.base.packages import APT, manager
from lab.base.process import CommandError, paste, run, run_logged
from lab.base.progress import Progress
from lab.base.system import CHECKOUT, MIN_QEMU, PROJECT, qemu_version, which

VENV = PROJECT / ".venv"
LOCK = PROJECT / "requirements.lock"
_MIN_PYTHON = (3, 11)
_LOCKED = ["--require-hashes", "--only-binary", ":all:", "--requirement"]


@dataclass(frozen=True)
class Need:
    """Something the lab needs from the system: a program or a file, and the Debian package."""

    package: str
    program: str = ""
    file: str = ""

    def met(self) -> bool:
        """Whether it is there."""
        if self.program:
            return which(self.program) is not None
        return Path(self.file).exists()


# Programs that are in a package of the same name.
_TOOLS = (
    *("gcc", "make", "flex", "bison", "bc", "cpio", "file"),
    *("git", "fio", "dbench", "dmsetup", "ccache", "shellcheck"),
)
NEEDS = (
    *(Need(tool, program=tool) for tool in _TOOLS),
    Need("binutils", program="ld"),
    Need("xz-utils", program="xz"),
    Need("kmod", program="depmod"),
    Need("util-linux", program="setpriv"),
    Need("bubblewrap", program="bwrap"),
    Need("xfsprogs", program="mkfs.xfs"),
    Need("busybox-static", program="busybox"),
    Need("libelf-dev", file="/usr/include/gelf.h"),
    Need("libssl-dev", file="/usr/include/openssl/ssl.h"),
    Need("libc6-dev", file="/usr/include/stdio.h"),
    Need("libcapstone-dev", file="/usr/include/capstone/capstone.h"),
    # Programs that are on every Debian, but not everywhere.
    *(Need(tool, program=tool) for tool in ("gzip", "perl")),
    Need("diffutils", program="cmp"),
    Need("findutils", program="find"),
    Need("gawk", program="awk"),
    # Where it was built from its source, its load file may lie elsewhere.
    Need("dbench", file="/usr/share/dbench/client.txt"),
)


def main() -> int:
    """Install what is missing; the exit code is 2 when the user has to do something first."""
    progress = Progress()
    try:
        require_python()
        system_packages(progress)
        if CHECKOUT:  # an installed lab is in a Python environment already
            python_environment(progress)
    except LabError as exc:
        print(f"setup: {exc}", file=sys.stderr)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run it again to go on", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def require_python() -> None:
    """Raise LabError when this Python is too old."""
    if sys.version_info < _MIN_PYTHON:
        raise LabError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} is too old",
            hint="install a newer one beside it and name that, as in make PYTHON=python3.11: "
            "apt-get install python3.11-venv on Ubuntu 22.04, dnf install python3.11 on RHEL 9, "
            "zypper install python311 on openSUSE Leap 15",
        )


@dataclass(frozen=True)
class Installation:
    """Packages to install, by Debian's names, and the apt options that choose their suite."""

    packages: tuple[str, ...]
    options: tuple[str, ...] = ()


def system_packages(progress: Progress) -> None:
    """Install missing packages where that is allowed, else say how.

    Raises LabError with the commands to run when this user may not install packages, and when
    QEMU is too old and no suite has a newer one.
    """
    wanted = _wanted()
    if not wanted:
        return
    _install(wanted, progress)
    if lacking := [need.program or need.file for need in NEEDS if not need.met()]:
        raise LabError(
            f"what was installed does not have {', '.join(lacking)}",
            hint="install what has it; a program may lie in any folder of PATH",
        )
    if (installed := qemu_version()) < MIN_QEMU:
        raise LabError(
            f"QEMU {_dotted(MIN_QEMU)} or newer is needed, this system has {_dotted(installed)}",
            hint="put a newer QEMU first in PATH, or take the image (docs/systems.md)",
        )


def _wanted() -> list[Installation]:
    """What this system lacks. QEMU comes last: its suite is another one."""
    packages = {need.package for need in NEEDS if not need.met()}
    if not _module_works("ensurepip"):
        packages.add(_venv_package())
    installations = [Installation(tuple(sorted(packages)))] if packages else []
    if qemu_version() < MIN_QEMU:
        options = _qemu_suite() if manager() is APT else ()
        installations.append(Installation(("qemu-system-x86", "seabios"), options))
    return installations


def _venv_package() -> str:
    """The package with ensurepip, which Debian keeps apart, of the Python that runs this."""
    system_python = Path("/usr/bin/python3")
    if system_python.exists() and system_python.resolve() != Path(sys.executable).resolve():
        return f"python3.{sys.version_info[1]}-venv"
    return "python3-venv"


def _qemu_suite() -> tuple[str, ...]:
    """Apt arguments that choose the suite with a new enough QEMU: backports on Debian 12."""
    if apt.system_codename() != "bookworm":
        return ()
    suites = ["bookworm", "bookworm-security", "bookworm-updates", "bookworm-backports"]
    return (*apt.private(suites).options, "-t", "bookworm-backports")


def _install(wanted: Sequence[Installation], progress: Progress) -> None:
    packages = [package for installation in wanted for package in installation.packages]
    names = ", ".join(packages)
    package_manager = manager()
    if package_manager is None:
        raise LabError(
            f"missing on this system: {names} (Debian package names)",
            hint="install them with the system's package manager, then run this again",
        )
    commands = [
        command
        for installation in wanted
        for command in package_manager.commands(installation.packages, installation.options)
    ]
    lacking = package_manager.lacking(packages)
    elsewhere = list(dict.fromkeys(lacking.values()))
    if not commands:
        raise LabError(f"missing on this system: {names}", hint="; ".join(elsewhere))
    prefix = _privilege()
    if prefix is None:
        line = " && ".join(f"sudo {paste(command)}" for command in commands)
        raise LabError(f"missing packages: {names}", hint="; ".join([f"run: {line}", *elsewhere]))
    log = cache.make_folder(cache.root() / "logs") / f"{package_manager.program}.log"
    with progress.step(f"installing {names}"):
        for command in commands:
            run_logged([*prefix, *command], log=log, env={"DEBIAN_FRONTEND": "noninteractive"})
    if lacking:
        raise LabError(f"missing on this system: {', '.join(lacking)}", hint="; ".join(elsewhere))


def _privilege() -> list[str] | None:
    """What to put before a command that root must run; None when this user may not."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not run(["sudo", "-n", "true"], check=False).status:
        return ["sudo", "-n", "--preserve-env=DEBIAN_FRONTEND"]
    return None


def python_environment(progress: Progress) -> None:
    """Make .venv with the lab and what it needs; again when either file that says so changed."""
    stamp = VENV / "lab-stamp"
    wanted = cache.key(*(cache.file_hash(path) for path in (PROJECT / "pyproject.toml", LOCK)))
    wanted += sys.version
    if stamp.exists() and stamp.read_text() == wanted:
        return
    log = cache.make_folder(cache.root() / "logs") / "pip.log"
    with progress.step("making the Python environment .venv"):
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            run_logged([sys.executable, "-m", "venv", str(VENV)], log=log)
            # Compiling all of it takes longer than what is ever imported does.
            install = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", "--no-compile"]
            for words in ([*_LOCKED, str(_pip_of_lock())], *pip_steps(progress)):
                run_logged([*install, *words], log=log)
        except CommandError as exc:
            raise LabError(
                f"the Python environment cannot be made: {exc.what}",
                where=str(log),
                hint="check the network and pip's configuration, then run this again",
            ) from exc
        stamp.write_text(wanted)


def pip_steps(progress: Progress) -> list[list[str]]:
    """What pip is to install, one call each: what the lock says, where it covers this Python."""
    python, machine = f"{sys.version_info[0]}.{sys.version_info[1]}", platform.machine()
    match = re.search(r"^# Covers: (\S+) (.*)$", LOCK.read_text(), re.MULTILINE)
    if not match or machine != match[1] or python not in match[2].split():
        progress.say(
            f"  {LOCK.name} does not cover Python {python} on {machine}: "
            "installing the newest versions that pyproject.toml allows"
        )
        return [["--editable", f"{PROJECT}[dev,fleet]"]]
    # The second call builds with the setuptools of the lock, and fetches nothing.
    return [
        [*_LOCKED, str(LOCK)],
        ["--no-deps", "--no-build-isolation", "--editable", str(PROJECT)],
    ]


def _pip_of_lock() -> Path:
    """What the lock says of pip itself, as a file: the one that venv brings may be three years old
    and takes three times as long to choose what to install.
    """
    (requirement,) = re.findall(r"^pip==(?:.*\\\n)*.*\n", LOCK.read_text(), re.MULTILINE)
    path = VENV / "pip.lock"
    path.write_text(requirement)
    return path


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version)) if version != (0,) else "none"


def _module_works(name: str) -> bool:
    return not run([sys.executable, "-c", f"import {name}"], check=False, merge=True).status


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-2.0-or-later
"""Set-up: what is missing is found, and installed or told with the very command to type."""

from __future__ import annotations

import io
import os
import platform
import re
import shlex
import stat
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import setup
from lab.base import apt, packages
from lab.base.errors import LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.base.system import PROJECT, qemu_version
from lab.setup import Need

Fake = Callable[[str, str], Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A function that puts a shell script of a name first in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        return path

    return make


@pytest.fixture
def machine(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's machine that lacks one program; apt-get installs it and writes what it was told.

    Returns that record of apt-get's arguments.
    """
    record = tmp_path / "apt-calls"
    program = tmp_path / "bin/missing-program"
    fake("apt-get", f'echo "$DEBIAN_FRONTEND: $*" >> {record}\ncp /bin/true {program}')
    fake("sudo", "exit 1")
    fake("qemu-system-x86_64", "echo QEMU emulator version 10.0.2")
    monkeypatch.setattr(setup, "NEEDS", (Need("its-package", program="missing-program"),))
    monkeypatch.setattr(setup, "_module_works", lambda name: True)
    monkeypatch.setattr(apt, "system_codename", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return record


@pytest.mark.parametrize(
    ("need", "met"),
    [
        (Need("dash", program="sh"), True),
        (Need("x", program="no-such-program"), False),
        (Need("x", file=__file__), True),
        (Need("x", file=f"{__file__}.none"), False),
    ],
)
def test_a_need_is_met_when_its_program_or_file_is_there(need: Need, met: bool) -> None:
    assert need.met() == met


def test_a_program_that_only_root_has_in_its_path_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = next(path for path in Path("/usr/sbin").iterdir() if os.access(path, os.X_OK))
    monkeypatch.setenv("PATH", "/nowhere")
    assert Need("x", program=program.name).met()


def test_every_need_names_a_package_and_just_one_thing_to_look_for() -> None:
    for need in setup.NEEDS:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", need.package)
        assert bool(need.program) != bool(need.file)


def test_who_may_not_install_is_given_the_exact_command(machine: Path, quiet: Progress) -> None:
    with pytest.raises(LabError, match="missing packages: its-package") as caught:
        setup.system_packages(quiet)
    assert caught.value.hint == (
        "run: sudo apt-get update && sudo apt-get install -y --no-install-recommends its-package"
    )
    assert not machine.exists()


def test_the_virtual_environment_module_is_a_need_too(
    machine: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_module_works", lambda name: name != "ensurepip")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    with pytest.raises(LabError, match="missing packages: its-package, python3-venv"):
        setup.system_packages(quiet)


def test_sudo_that_asks_no_password_is_used(machine: Path, fake: Fake, quiet: Progress) -> None:
    fake("sudo", 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"')
    setup.system_packages(quiet)
    assert machine.read_text().splitlines() == [
        "noninteractive: update",
        "noninteractive: install -y --no-install-recommends its-package",
    ]


def test_root_installs_without_sudo(
    machine: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    setup.system_packages(quiet)
    assert machine.read_text().endswith("its-package\n")


def test_a_failed_installation_shows_what_apt_said(
    machine: Path, fake: Fake, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake("apt-get", "echo E: Unable to locate package; exit 100")
    with pytest.raises(LabError, match="E: Unable to locate package") as caught:
        setup.system_packages(quiet)
    assert "apt-get.log" in caught.value.where


def test_nothing_is_installed_when_nothing_is_missing(
    machine: Path, fake: Fake, quiet: Progress
) -> None:
    fake("missing-program", "true")
    setup.system_packages(quiet)
    assert not machine.exists()


def test_a_system_without_apt_is_told_what_to_install(
    machine: Path, tmp_path: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin/apt-get").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(platform, "freedesktop_os_release", dict)
    with pytest.raises(LabError, match="its-package") as caught:
        setup.system_packages(quiet)
    assert "package manager" in caught.value.hint


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7+deb12u12)", (7, 2, 17)),
        ("QEMU emulator version 10.0.2", (10, 0, 2)),
        ("QEMU emulator version 9.1.50 (v9.1.0-1-gabc)", (9, 1, 50)),
        ("something else", (0,)),
    ],
)
def test_the_version_of_qemu_is_read(fake: Fake, printed: str, version: tuple[int, ...]) -> None:
    fake("qemu-system-x86_64", f"echo {shlex.quote(printed)}")
    assert qemu_version() == version


def test_an_old_qemu_is_to_be_replaced(machine: Path, fake: Fake, quiet: Progress) -> None:
    fake("missing-program", "true")
    fake("qemu-system-x86_64", "echo QEMU emulator version 7.2.0")
    with pytest.raises(LabError) as caught:
        setup.system_packages(quiet)
    assert caught.value.hint.endswith("--no-install-recommends qemu-system-x86 seabios")


def test_a_qemu_that_stays_too_old_is_told_with_its_version(
    machine: Path, fake: Fake, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake("qemu-system-x86_64", "echo QEMU emulator version 8.2.2")
    with pytest.raises(LabError, match=r"10\.0 or newer is needed, this system has 8\.2\.2"):
        setup.system_packages(quiet)


def test_a_python_that_is_too_old_is_told_how_to_give_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup.require_python()
    monkeypatch.setattr(setup, "_MIN_PYTHON", (99, 0))
    with pytest.raises(LabError, match=r"Python \d+\.\d+ is too old") as caught:
        setup.require_python()
    assert "PYTHON=" in caught.value.hint


def test_the_least_python_is_the_same_everywhere() -> None:
    least = ".".join(map(str, setup._MIN_PYTHON))
    project = (PROJECT / "pyproject.toml").read_text()
    assert f'requires-python = ">={least}"' in project


def test_the_lock_covers_the_least_python_and_names_no_index() -> None:
    text = setup.LOCK.read_text()
    assert f" {setup._MIN_PYTHON[0]}.{setup._MIN_PYTHON[1]} " in text.splitlines()[2]
    assert "://" not in text
    # Of a size that a reviewer's mail client takes.
    assert len(text) < 200_000


def test_the_lock_has_all_that_is_declared_with_hashes() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    declared = [*project["dependencies"], *optional["dev"], *optional["fleet"]]
    locked = re.findall(
        r"^([\w.-]+)==.*\\\n    --hash=sha256:", setup.LOCK.read_text(), re.MULTILINE
    )
    assert {re.split("[<>=]", line)[0] for line in declared} <= set(locked)
    assert len(locked) == len(re.findall(r"^\w", setup.LOCK.read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("version", "machine", "covered"),
    [((3, 11), "x86_64", True), ((3, 99), "x86_64", False), ((3, 11), "riscv64", False)],
)
def test_what_the_lock_covers_is_installed_by_it_and_nothing_else(
    version: tuple[int, int],
    machine: str,
    covered: bool,
    quiet: Progress,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    steps = setup.pip_steps(quiet)
    assert isinstance(quiet.out, io.StringIO)
    said = quiet.out.getvalue()
    if covered:
        assert ["--require-hashes" in step for step in steps] == [True, False]
        assert "--no-deps" in steps[1]
        assert said == ""
    else:
        assert steps == [["--editable", f"{PROJECT}[dev,fleet]"]]
        assert "does not cover Python" in said


def test_an_installed_lab_makes_no_python_environment(
    machine: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("missing-program", "true")
    monkeypatch.setattr(setup, "CHECKOUT", None)
    monkeypatch.setattr(setup, "python_environment", lambda progress: pytest.fail("it did"))
    assert setup.main() == 0


def test_setup_that_cannot_go_on_ends_with_the_users_exit_code(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup.main() == 2
    assert "hint:  run: sudo apt-get update" in capsys.readouterr().err


# What a distribution's os-release says of it, and what it is told to install.
SYSTEMS = [
    ({"ID": "debian", "VERSION_ID": "13"}, "apt-get update && sudo apt-get install"),
    (
        {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_ID": "24.04"},
        "apt-get update && sudo apt-get",
    ),
    ({"ID": "linuxmint", "ID_LIKE": "ubuntu debian"}, "apt-get update && sudo apt-get"),
    ({"ID": "fedora", "VERSION_ID": "43"}, "dnf install -y"),
    ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, "dnf install -y"),
    ({"ID": "arch"}, "pacman -Syu --noconfirm && sudo pacman -S"),
    ({"ID": "opensuse-tumbleweed", "ID_LIKE": "opensuse suse"}, "zypper --non-interactive install"),
]


@pytest.mark.parametrize(("facts", "said"), SYSTEMS, ids=lambda value: str(value)[:30])
def test_every_distribution_is_told_its_own_command(
    facts: dict[str, str],
    said: str,
    machine: Path,
    quiet: Progress,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: facts)
    with pytest.raises(LabError, match="missing packages: its-package") as caught:
        setup.system_packages(quiet)
    assert caught.value.hint.startswith(f"run: sudo {said}")
    assert caught.value.hint.endswith(" its-package")


@pytest.mark.parametrize("manager", packages.MANAGERS, ids=lambda manager: manager.program)
def test_every_need_has_a_name_everywhere(manager: packages.Manager) -> None:
    wanted = [*(need.package for need in setup.NEEDS), "qemu-system-x86", "seabios"]
    names = manager.packages(wanted)
    assert len(names) == len(set(wanted) - manager.elsewhere.keys())
    assert manager.names.keys() | manager.elsewhere.keys() <= {*wanted, "python3-venv"}
    if manager is not packages.APT:
        assert not any(name.endswith("-dev") for name in names)


def test_what_a_distribution_does_not_have_is_told_with_where_it_is(
    machine: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "arch"})
    needs = (Need("dbench", program="no-dbench"), Need("libelf-dev", file="/none"))
    monkeypatch.setattr(setup, "NEEDS", needs)
    with pytest.raises(LabError) as caught:
        setup.system_packages(quiet)
    assert "pacman -S --noconfirm --needed libelf; dbench 4.0 is in the AUR" in caught.value.hint
    monkeypatch.setattr(setup, "NEEDS", needs[:1])
    with pytest.raises(LabError, match="missing on this system: dbench"):
        setup.system_packages(quiet)


def test_where_a_newer_qemu_is_not_packaged_it_is_told_once(
    machine: Path, fake: Fake, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"ID": "almalinux", "ID_LIKE": "rhel centos fedora"}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: facts)
    fake("qemu-system-x86_64", "echo QEMU emulator version 7.2.0")
    with pytest.raises(LabError) as caught:
        setup.system_packages(quiet)
    assert caught.value.hint.endswith(
        " its-package; QEMU 10.0 or newer is to be built from its source"
    )


def test_a_package_that_does_not_have_its_program_is_told(
    machine: Path, fake: Fake, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fake("apt-get", "exit 0")
    with pytest.raises(LabError, match="does not have missing-program"):
        setup.system_packages(quiet)


def test_the_module_of_another_python_has_a_package_of_its_own(
    machine: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(setup, "_module_works", lambda name: name != "ensurepip")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(LabError, match=rf"its-package, python3\.{sys.version_info[1]}-venv"):
        setup.system_packages(quiet)


def test_an_older_python_is_told_so_by_setup_itself() -> None:
    # What Python 3.11 brought and set-up's modules could want before they have asked for it.
    lines = (
        "import enum, hashlib, sys",
        "del enum.StrEnum, hashlib.file_digest",
        "sys.modules['tomllib'] = None",
        "sys.version_info = (3, 10, 12, 'final', 0)",
        "from lab import setup",
        "sys.exit(setup.main())",
    )
    done = run([sys.executable, "-c", "\n".join(lines)], cwd=PROJECT, check=False, merge=True)
    assert done.status == 2
    assert "setup: Python 3.10 is too old" in done.output
    assert "python3.11-venv" in done.output

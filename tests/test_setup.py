# SPDX-License-Identifier: GPL-2.0-or-later
"""Set-up: what is missing is found, and installed or told with the very command to type."""

from __future__ import annotations

import io
import os
import platform
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import setup
from lab.base import apt, packages
from lab.base.errors import LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.base.system import PROJECT, qemu_version
from lab.setup import Need


@dataclass
class FakeMachine:
    """A user's machine whose programs lie in a folder that is first in PATH."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch

    def program(self, name: str, script: str) -> None:
        """Put a shell script into PATH."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def of(self, **facts: str) -> None:
        """Say in os-release which distribution this is."""
        self.monkeypatch.setattr(platform, "freedesktop_os_release", lambda: facts)

    def needs(self, *needs: Need) -> None:
        self.monkeypatch.setattr(setup, "NEEDS", needs)

    def run_by_root(self) -> None:
        self.monkeypatch.setattr(os, "geteuid", lambda: 0)

    @property
    def apt_calls(self) -> list[str]:
        """What apt-get was told."""
        record = self.folder / "apt-calls"
        return record.read_text().splitlines() if record.exists() else []

    def set_up(self) -> None:
        setup.system_packages(Progress(io.StringIO()))

    def refusal(self, what: str) -> LabError:
        """The error that ends set-up, which says so."""
        with pytest.raises(LabError, match=what) as caught:
            self.set_up()
        return caught.value


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A machine that lacks one program, which its apt-get installs."""
    made = FakeMachine(tmp_path / "bin", monkeypatch)
    made.folder.mkdir()
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    calls, program = made.folder / "apt-calls", made.folder / "missing-program"
    made.program("apt-get", f'echo "$DEBIAN_FRONTEND: $*" >> {calls}\ncp /bin/true {program}')
    made.program("sudo", "exit 1")
    made.program("qemu-system-x86_64", "echo QEMU emulator version 10.0.2")
    made.needs(Need("its-package", program="missing-program"))
    monkeypatch.setattr(setup, "_module_works", lambda name: True)
    monkeypatch.setattr(apt, "system_codename", lambda: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return made


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


def test_who_may_not_install_is_given_the_exact_command(machine: FakeMachine) -> None:
    assert machine.refusal("missing packages: its-package").hint == (
        "run: sudo apt-get update && sudo apt-get install -y --no-install-recommends its-package"
    )
    assert not machine.apt_calls


@pytest.mark.parametrize(
    ("python", "package"),
    [
        ("/usr/bin/python3", "python3-venv"),
        ("/nowhere/python", rf"python3\.{sys.version_info[1]}-venv"),
    ],
)
def test_the_virtual_environment_module_is_a_need_too(
    python: str, package: str, machine: FakeMachine
) -> None:
    machine.monkeypatch.setattr(setup, "_module_works", lambda name: name != "ensurepip")
    machine.monkeypatch.setattr(sys, "executable", python)
    machine.refusal(f"missing packages: its-package, {package}\n")


def test_sudo_that_asks_no_password_is_used(machine: FakeMachine) -> None:
    machine.program("sudo", 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"')
    machine.set_up()
    assert machine.apt_calls == [
        "noninteractive: update",
        "noninteractive: install -y --no-install-recommends its-package",
    ]


def test_root_installs_without_sudo(machine: FakeMachine) -> None:
    machine.run_by_root()
    machine.set_up()
    assert machine.apt_calls[-1].endswith("its-package")


def test_a_failed_installation_shows_what_apt_said(machine: FakeMachine) -> None:
    machine.run_by_root()
    machine.program("apt-get", "echo E: Unable to locate package; exit 100")
    assert "apt-get.log" in machine.refusal("E: Unable to locate package").where


def test_nothing_is_installed_when_nothing_is_missing(machine: FakeMachine) -> None:
    machine.program("missing-program", "true")
    machine.set_up()
    assert not machine.apt_calls


def test_a_system_without_apt_is_told_what_to_install(machine: FakeMachine) -> None:
    (machine.folder / "apt-get").unlink()
    machine.monkeypatch.setenv("PATH", str(machine.folder))
    machine.of()
    assert "package manager" in machine.refusal("its-package").hint


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7+deb12u12)", (7, 2, 17)),
        ("QEMU emulator version 10.0.2", (10, 0, 2)),
        ("QEMU emulator version 9.1.50 (v9.1.0-1-gabc)", (9, 1, 50)),
        ("something else", (0,)),
    ],
)
def test_the_version_of_qemu_is_read(
    machine: FakeMachine, printed: str, version: tuple[int, ...]
) -> None:
    machine.program("qemu-system-x86_64", f"echo {shlex.quote(printed)}")
    assert qemu_version() == version


def test_an_old_qemu_is_to_be_replaced(machine: FakeMachine) -> None:
    machine.program("missing-program", "true")
    machine.program("qemu-system-x86_64", "echo QEMU emulator version 7.2.0")
    hint = machine.refusal("missing packages").hint
    assert hint.endswith("--no-install-recommends qemu-system-x86 seabios")


def test_a_qemu_that_stays_too_old_is_told_with_its_version(machine: FakeMachine) -> None:
    machine.run_by_root()
    machine.program("qemu-system-x86_64", "echo QEMU emulator version 8.2.2")
    machine.refusal(r"10\.0 or newer is needed, this system has 8\.2\.2")


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


def test_an_installed_lab_makes_no_python_environment(machine: FakeMachine) -> None:
    machine.program("missing-program", "true")
    machine.monkeypatch.setattr(setup, "CHECKOUT", None)
    machine.monkeypatch.setattr(setup, "python_environment", lambda progress: pytest.fail("it did"))
    assert setup.main() == 0


def test_setup_that_cannot_go_on_ends_with_the_users_exit_code(
    machine: FakeMachine, capsys: pytest.CaptureFixture[str]
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
    facts: dict[str, str], said: str, machine: FakeMachine
) -> None:
    machine.of(**facts)
    hint = machine.refusal("missing packages: its-package").hint
    assert hint.startswith(f"run: sudo {said}")
    assert hint.endswith(" its-package")


@pytest.mark.parametrize("manager", packages.MANAGERS, ids=lambda manager: manager.program)
def test_every_need_has_a_name_everywhere(manager: packages.Manager) -> None:
    wanted = [*(need.package for need in setup.NEEDS), "qemu-system-x86", "seabios"]
    names = manager.packages(wanted)
    assert len(names) == len(set(wanted) - manager.elsewhere.keys())
    assert manager.names.keys() | manager.elsewhere.keys() <= {*wanted, "python3-venv"}
    if manager is not packages.APT:
        assert not any(name.endswith("-dev") for name in names)


def test_what_a_distribution_does_not_have_is_told_with_where_it_is(machine: FakeMachine) -> None:
    machine.of(ID="arch")
    dbench = Need("dbench", program="no-dbench")
    machine.needs(dbench, Need("libelf-dev", file="/none"))
    hint = machine.refusal("missing packages: dbench, libelf-dev").hint
    assert "pacman -S --noconfirm --needed libelf; dbench 4.0 is in the AUR" in hint
    machine.needs(dbench)
    machine.refusal("missing on this system: dbench")


def test_where_a_newer_qemu_is_not_packaged_it_is_told_once(machine: FakeMachine) -> None:
    machine.of(ID="almalinux", ID_LIKE="rhel centos fedora")
    machine.program("qemu-system-x86_64", "echo QEMU emulator version 7.2.0")
    hint = machine.refusal("missing packages: its-package").hint
    assert hint.endswith(" its-package; QEMU 10.0 or newer is to be built from its source")


def test_a_package_that_does_not_have_its_program_is_told(machine: FakeMachine) -> None:
    machine.run_by_root()
    machine.program("apt-get", "exit 0")
    machine.refusal("does not have missing-program")


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

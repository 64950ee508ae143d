# SPDX-License-Identifier: GPL-2.0-or-later
"""Package managers, and what they call the packages that the lab needs.

Needs are named as Debian names them. Debian 12 and 13 were tried; what the others call them is
theirs to say, and was taken from their package lists.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

_OF_SOURCE = "to be built from its source, its client.txt put into /usr/share/dbench"
_OWN_QEMU = "QEMU 10.0 or newer is to be built from its source"


@dataclass(frozen=True)
class Manager:
    """A package manager: its program, the distributions (ID in os-release) that use it, the words
    that fetch lists and install, and the names that differ from Debian's; empty for what needs no
    package. elsewhere says where the user finds what the distribution does not have.
    """

    program: str
    systems: tuple[str, ...]
    install: tuple[str, ...]
    refresh: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def packages(self, wanted: Sequence[str]) -> list[str]:
        """What it calls packages, those skipped that it does not have or need."""
        translated = [self.names.get(name, name) for name in wanted if name not in self.elsewhere]
        return list(dict.fromkeys(filter(None, translated)))

    def lacking(self, wanted: Sequence[str]) -> dict[str, str]:
        """Those of packages that it does not have, each with where it is."""
        return {name: self.elsewhere[name] for name in wanted if name in self.elsewhere}

    def commands(self, wanted: Sequence[str], options: Sequence[str] = ()) -> list[list[str]]:
        """The commands that install packages, to be run by root; options go before the words."""
        packages = self.packages(wanted)
        if not packages:
            return []
        refresh = [[self.program, *options, *self.refresh]] if self.refresh else []
        return [*refresh, [self.program, *options, *self.install, *packages]]


APT = Manager(
    "apt-get",
    ("debian", "ubuntu"),
    install=("install", "-y", "--no-install-recommends"),
    refresh=("update",),
)
DNF = Manager(
    "dnf",
    ("fedora",),
    install=("install", "-y", "--setopt=install_weak_deps=False"),
    names={
        "dmsetup": "device-mapper",
        "shellcheck": "ShellCheck",
        "xz-utils": "xz",
        "busybox-static": "busybox",
        "libelf-dev": "elfutils-libelf-devel",
        "libcapstone-dev": "capstone-devel",
        "libssl-dev": "openssl-devel",
        "libc6-dev": "glibc-devel",
        "qemu-system-x86": "qemu-system-x86-core",
        "seabios": "seabios-bin",
        "python3-venv": "",
    },
)
# RHEL's own QEMU has few devices, and lies in no folder of PATH.
RHEL = replace(
    DNF,
    systems=("rhel", "centos"),
    elsewhere={
        "dbench": f"dbench 4.0 is {_OF_SOURCE}",
        "busybox-static": "busybox is to be built from its source, statically linked",
        "qemu-system-x86": _OWN_QEMU,
        "seabios": _OWN_QEMU,
    },
)
PACMAN = Manager(
    "pacman",
    ("arch",),
    install=("-S", "--noconfirm", "--needed"),
    # Arch upgrades as a whole: packages of newer lists on an older system may not run.
    refresh=("-Syu", "--noconfirm"),
    names={
        "dmsetup": "device-mapper",
        "xz-utils": "xz",
        "busybox-static": "busybox",
        "libelf-dev": "libelf",
        "libcapstone-dev": "capstone",
        "libssl-dev": "openssl",
        "libc6-dev": "glibc",
        "python3-venv": "",
    },
    elsewhere={"dbench": f"dbench 4.0 is in the AUR, or {_OF_SOURCE}"},
)
ZYPPER = Manager(
    "zypper",
    ("opensuse", "opensuse-tumbleweed", "opensuse-leap", "suse", "sles"),
    install=("--non-interactive", "install", "--no-recommends"),
    names={
        "dmsetup": "device-mapper",
        "shellcheck": "ShellCheck",
        "xz-utils": "xz",
        "dbench": "dbench4",  # what is called dbench there is version 3
        "libelf-dev": "libelf-devel",
        "libcapstone-dev": "libcapstone-devel",
        "libssl-dev": "libopenssl-devel",
        "libc6-dev": "glibc-devel",
        "qemu-system-x86": "qemu-x86",
        "seabios": "qemu-seabios",
        "python3-venv": "",
    },
)
MANAGERS = (APT, DNF, RHEL, PACMAN, ZYPPER)


def manager() -> Manager | None:
    """The manager of this system: that of its os-release, else the first whose program is there."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        facts = {}
    for system in (facts.get("ID", ""), *facts.get("ID_LIKE", "").split()):
        for candidate in MANAGERS:
            if system in candidate.systems:
                return candidate
    return next((candidate for candidate in MANAGERS if shutil.which(candidate.program)), None)

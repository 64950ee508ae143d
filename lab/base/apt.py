# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian packages from more suites than the system is set up for, without touching its set-up.

apt gets a source list and state folders of the lab's own. The mirrors are the ones that the
system's apt already uses; the signatures are checked against Debian's own keyring as ever.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from lab.base import cache
from lab.base.errors import LabError, UsageError
from lab.base.process import run
from lab.base.system import TREE

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_NO_APT = f"set {TREE}=release:6.12.94, git:PATH@REV or tar:PATH, or give that with --tree"


@dataclass(frozen=True)
class PrivateApt:
    """apt with its own source list; options are the arguments that make apt-get use it."""

    options: tuple[str, ...]

    def update(self) -> None:
        """Fetch the package lists of all suites; raises LabError when a mirror cannot be had."""
        run(["apt-get", *self.options, "-qq", "-o", "APT::Update::Error-Mode=any", "update"])

    def newest(self, package: str) -> str | None:
        """The newest version of a package over all suites, or None."""
        rows = run(["apt-cache", *self.options, "madison", package]).output.splitlines()
        versions = [row.split("|")[1].strip() for row in rows if row.count("|") == 2]
        best = ""  # which dpkg takes for older than all
        for version in versions:
            if not run(["dpkg", "--compare-versions", version, "gt", best], check=False).status:
                best = version
        return best or None

    def download(self, package: str, version: str, folder: Path) -> Path:
        """Download one package, verified by apt, and return the file. Raises LabError."""
        run(["apt-get", *self.options, "-qq", "download", f"{package}={version}"], cwd=folder)
        if not (archive := next(folder.glob("*.deb"), None)):
            raise LabError(f"apt downloaded no {package}, and said nothing", where=str(folder))
        return archive

    def download_source(self, package: str, folder: Path) -> Path:
        """Download the newest source of a package, verified by apt, and return what upstream
        released. Raises LabError.
        """
        words = ["-qq", "--only-source", "--download-only", "source", package]
        run(["apt-get", *self.options, *words], cwd=folder)
        if not (archive := next(folder.glob("*.orig.tar.*[!c]"), None)):
            raise LabError(f"apt downloaded no source of {package}", where=str(folder))
        return archive


def system_codename() -> str | None:
    """The Debian release of this system, such as bookworm; None elsewhere."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        return None
    return facts.get("VERSION_CODENAME") if facts.get("ID") == "debian" else None


def require_debian(wanted: str) -> str:
    """The codename of this Debian; UsageError, naming what is wanted, on other systems."""
    codename = system_codename()
    if codename is None:
        raise UsageError(f"{wanted} can be had on Debian only", hint=_NO_APT)
    return codename


def private(suites: list[str], types: str = "deb") -> PrivateApt:
    """Apt with the named suites, such as bookworm-backports or bullseye-security; of types
    ``deb-src`` with their source packages.

    Raises UsageError on systems other than Debian.
    """
    codename = require_debian("a package of Debian's")
    mirrors = _mirrors(codename)
    blocks = []
    for suite in suites:
        # A system may be set up without Debian's security archive.
        if uri := mirrors.get(f"{codename}-security" if suite.endswith("-security") else codename):
            blocks.append(
                f"Types: {types}\nURIs: {uri}\nSuites: {suite}\nComponents: main\n"
                f"Signed-By: {_KEYRING}\n"
            )
    folder = cache.root() / "apt" / cache.key(blocks)
    sources = folder / "lab.sources"
    cache.write_atomically(sources, "\n".join(blocks))
    for sub in ("lists/partial", "archives/partial"):
        cache.make_folder(folder / sub)
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache::Archives": folder / "archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    return PrivateApt(tuple(options))


def _mirrors(codename: str) -> dict[str, str]:
    """The URI that this system's apt uses for each suite, that of codename among them."""
    rows = run(["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)"]).output
    uris = dict(row.split(" ", 1) for row in rows.splitlines() if " " in row)
    if codename not in uris:
        raise LabError(
            f"apt on this system has no source for {codename}",
            where="/etc/apt/sources.list, /etc/apt/sources.list.d",
            hint=_NO_APT,
        )
    return uris

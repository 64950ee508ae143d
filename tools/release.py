# SPDX-License-Identifier: GPL-2.0-or-later
"""All that a release consists of, from a tag: `python -m tools.release` (`make release`).

A wheel and a source distribution for PyPI, a Debian package, and an image. The version is
lab.__version__ and the changelog CHANGES.md; equal commits give equal files.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from email.utils import formatdate
from pathlib import Path

import click

from lab import __version__
from lab.base import cache
from lab.base.errors import ExitCode, LabError
from lab.base.process import run
from lab.base.system import PROJECT, which

PACKAGE = "blocklab"
_MAINTAINER = re.compile(r"^Maintainer: (.+)$", re.MULTILINE)
_BUILDERS = ("podman", "buildah")
_BUILD = "from setuptools import build_meta; build_meta.{}({!r})"


@click.command()
@click.option("--revision", default=f"v{__version__}", show_default=True, help="What to release.")
@click.option("--image/--no-image", default=True, show_default=True, help="Build the image, too.")
@click.argument("folder", type=click.Path(path_type=Path), default=PROJECT / "build/release")
def release(revision: str, folder: Path, *, image: bool) -> None:
    """Make the wheel, source distribution, Debian package and image of a tag in FOLDER."""
    try:
        for line in make(revision, cache.make_folder(folder.absolute()), image=image):
            click.echo(line)
    except LabError as exc:
        click.echo(f"release: {exc}", err=True)
        sys.exit(ExitCode.FAILED)


def make(revision: str, folder: Path, *, image: bool) -> list[str]:
    """Make all that this host can, and return what was made, and what was not and why.

    Raises LabError for a revision that there is not or that is of another version.
    """
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}")
    epoch = _git("show", "-s", "--format=%ct", commit)
    source = folder / f"{PACKAGE}-{__version__}"
    shutil.rmtree(source, ignore_errors=True)
    archive = folder / "source.tar"
    _git("archive", f"--output={archive}", f"--prefix={source.name}/", commit)
    run(["tar", "-C", str(folder), "-xf", str(archive)])
    archive.unlink()
    if f'__version__ = "{__version__}"' not in (source / "lab/__init__.py").read_text():
        raise LabError(f"{revision} is not version {__version__}", hint="check that commit out")
    (source / "debian/changelog").write_text(changelog(source, int(epoch)))
    os.environ["SOURCE_DATE_EPOCH"] = epoch
    made = [*_python(source, folder, epoch), _deb(source), *([_image(source)] if image else [])]
    shutil.rmtree(source)
    return made


def changelog(source: Path, epoch: int) -> str:
    """Debian's changelog: the entry of this version in CHANGES.md, and when it was committed."""
    text = (source / "CHANGES.md").read_text()
    entry = re.search(rf"^## {re.escape(__version__)}\b.*?\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if not entry:
        raise LabError(f"CHANGES.md has no entry for {__version__}")
    points = re.findall(r"^- (.*?)(?=^- |\n\n|\Z)", entry[1], re.M | re.S)
    lines = [
        textwrap.fill(" ".join(point.split()), 76, initial_indent="  * ", subsequent_indent="    ")
        for point in points
    ]
    maintainer = _MAINTAINER.search((source / "debian/control").read_text())
    if not maintainer:
        raise LabError("debian/control names no maintainer")
    head = f"{PACKAGE} ({__version__}) unstable; urgency=medium"
    return "\n\n".join([head, "\n".join(lines), f" -- {maintainer[1]}  {formatdate(epoch)}\n"])


def _python(source: Path, folder: Path, epoch: str) -> list[str]:
    """The wheel and the source distribution."""
    for what in ("build_wheel", "build_sdist"):
        run([sys.executable, "-c", _BUILD.format(what, str(folder))], cwd=source, merge=True)
    # What setuptools packs has the time of the build in it.
    sdist = folder / f"{source.name}.tar.gz"
    unpacked = cache.make_folder(folder / "sdist")
    run(["tar", "-C", str(unpacked), "-xf", str(sdist)])
    plain = ["--owner=0", "--group=0", "--numeric-owner", "--sort=name", f"--mtime=@{epoch}"]
    run(["tar", "-C", str(unpacked), *plain, "-I", "gzip -n", "-cf", str(sdist), source.name])
    shutil.rmtree(unpacked)
    return [str(path) for path in sorted(folder.glob(f"{source.name}[.-]*"))]


def _deb(source: Path) -> str:
    """The Debian package, beside the source."""
    if not which("dpkg-buildpackage"):
        return "no Debian package: that takes dpkg-dev, and Debian 13 or newer"
    checked = run(["dpkg-checkbuilddeps"], cwd=source, check=False, merge=True)
    if checked.status:
        return f"no Debian package: {checked.output.strip().rpartition('error: ')[2]}"
    run(["dpkg-buildpackage", "--build=binary", "--no-sign"], cwd=source, merge=True)
    return str(source.parent / f"{PACKAGE}_{__version__}_all.deb")


def _image(source: Path) -> str:
    """The image, in the host's own store of images."""
    builder = next((name for name in _BUILDERS if which(name)), None)
    if not builder:
        return f"no image: install {' or '.join(_BUILDERS)}"
    name = f"{PACKAGE}:{__version__}"
    run([builder, "build", "--tag", name, str(source)], merge=True)
    return f"image {name} ({builder})"


def _git(*words: str) -> str:
    done = run(["git", "-C", str(PROJECT), *words], check=False, merge=True)
    if done.status:
        raise LabError(f"git {words[0]}: {done.output.strip()}", where=str(PROJECT))
    return done.output.strip()


if __name__ == "__main__":
    release()

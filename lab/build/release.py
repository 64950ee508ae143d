# SPDX-License-Identifier: GPL-2.0-or-later
"""Releases of the kernel as tarballs: the user's own, or from kernel.org or a mirror of it.

A tarball is compared with the list of hashes that lies beside it there, sha256sums.asc, which is
signed: by gpg, where that is installed and has the key; else it is said that nobody vouches for it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import tempfile
import urllib.request
from pathlib import Path

from lab.base.errors import LabError, UsageError
from lab.base.process import run
from lab.base.progress import Progress

# A folder with tarballs of the user's, and another mirror than kernel.org's own.
FOLDER, MIRROR = "LAB_TARBALLS", "LAB_KERNEL_MIRROR"
_MIRROR = "https://cdn.kernel.org/pub/linux/kernel"
_SUMS = "sha256sums.asc"
_VERSION = re.compile(r"(\d{1,2})\.\d{1,3}(\.\d{1,4})?", re.ASCII)
_TIMEOUT_S = 60.0
_PIECE = 1 << 20
# Chosen: ten times what a kernel's tarball has.
_MOST_BYTES = 2 << 30


def checked(version: str) -> str:
    """A version such as 6.12.94. Raises UsageError for what is none."""
    if not _VERSION.fullmatch(version):
        raise UsageError(f"not a release of the kernel: {version!r}", hint="write release:6.12.94")
    return version


def fetch(version: str, folder: Path, progress: Progress) -> Path:
    """The tarball of a release: the user's own, else downloaded into folder; what vouches for it is
    said. Raises LabError when it cannot be had, or is another one than a list of hashes says.
    """
    name = f"linux-{checked(version)}.tar.xz"
    local = os.environ.get(FOLDER)
    if local and (Path(local) / name).is_file():
        tarball, sums = Path(local) / name, Path(local) / _SUMS
    else:
        tarball, sums = folder / name, folder / _SUMS
        mirror = os.environ.get(MIRROR, "").rstrip("/") or _MIRROR
        url = f"{mirror}/v{version.partition('.')[0]}.x"
        with progress.step(f"downloading {name}"):
            for target in (sums, tarball):
                _download(f"{url}/{target.name}", target, f"curl -O {url}/{name} -O {url}/{_SUMS}")
    progress.say(f"  {name}: {_vouched(tarball, sums)}")
    return tarball


def _download(url: str, target: Path, elsewhere: str) -> None:
    """Fetch a file; LabError with the command that fetches it elsewhere when it cannot be had."""
    try:
        with (
            urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer,
            target.open("wb") as file,
        ):
            while piece := answer.read(_PIECE):
                file.write(piece)
                if file.tell() > _MOST_BYTES:
                    raise LabError(f"{url} is too long for a kernel")
    except (OSError, http.client.HTTPException, ValueError) as exc:
        reason = getattr(exc, "reason", exc)
        raise LabError(
            f"{url} cannot be had: {reason}",
            hint=f"where there is a network: {elsewhere}; put both files into a folder, name it in "
            f"{FOLDER}; or name a mirror of {_MIRROR} in {MIRROR}",
        ) from exc


def _vouched(tarball: Path, sums: Path) -> str:
    """What vouches for a tarball, in words. Raises LabError when its hash is not the listed one."""
    if not sums.is_file():
        return f"not verified, for no {_SUMS} lies beside it"
    listed = re.findall(
        rf"^([0-9a-f]{{64}})  {re.escape(tarball.name)}$", sums.read_text(errors="replace"), re.M
    )
    if not listed:
        return f"not verified, for {_SUMS} does not list it"
    with tarball.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest not in listed:
        raise LabError(
            f"{tarball.name} is not what {_SUMS} lists: its SHA-256 is {digest}",
            where=str(tarball),
            hint="fetch it again",
        )
    if not shutil.which("gpg"):
        return f"as {_SUMS} lists it; its signature was not looked at, for gpg is not installed"
    signer, signed = _signed(sums)
    if f"{digest}  {tarball.name}" in signed:
        return f"verified by the signature of {_SUMS}, that of {signer}"
    if signer:
        raise LabError(f"what {signer} signed in {_SUMS} does not list it", where=str(sums))
    return (
        f"as {_SUMS} lists it; its signature was not verified, for gpg lacks the key (gpg "
        "--locate-keys autosigner@kernel.org)"
    )


def _signed(sums: Path) -> tuple[str, list[str]]:
    """Who signed a list, and the lines that are signed, which need not be all of the file; nobody
    and none where gpg lacks the key. Raises LabError for a wrong signature, or none.
    """
    with tempfile.TemporaryDirectory() as folder:
        content = Path(folder) / "content"
        # Apart from what gpg says: whoever wrote the list may have written gpg's words into it.
        words = ["gpg", "--batch", "--status-fd", "1", "--output", str(content), "--decrypt"]
        said = run([*words, str(sums)], check=False).output
        if good := re.search(r"^\[GNUPG:\] GOODSIG \S+ (.+)$", said, re.MULTILINE):
            return good[1], content.read_text(errors="replace").splitlines()
    if re.search(r"^\[GNUPG:\] NO_PUBKEY ", said, re.MULTILINE):
        return "", []
    raise LabError(f"the signature of {_SUMS} is wrong, or there is none", where=str(sums))

# SPDX-License-Identifier: GPL-2.0-or-later
"""Releases: the user's tarball or a mirror's, and what vouches for it."""

from __future__ import annotations

import hashlib
import http.client
import io
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab.base.errors import LabError, UsageError
from lab.base.process import run
from lab.base.progress import Progress
from lab.build import release, source

NAME = "linux-6.12.94.tar.xz"
Fetch = Callable[[], Path]


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of version 6 of a mirror on this host, with a release and the list of hashes."""
    folder = tmp_path / "mirror/v6.x"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(b"kernel")
    digest = hashlib.sha256(b"kernel").hexdigest()
    (folder / "sha256sums.asc").write_text(f"{'0' * 64}  other.tar.xz\n{digest}  {NAME}\n")
    handler = partial(Silent, directory=str(tmp_path / "mirror"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(release.MIRROR, f"http://127.0.0.1:{server.server_port}/")
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield folder
        server.shutdown()


@pytest.fixture
def fetch(tmp_path: Path, quiet: Progress) -> Fetch:
    """A function that fetches the release."""
    return lambda: release.fetch("6.12.94", tmp_path, quiet)


def gpg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A gpg of that name alone in PATH, or none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    if script:
        (folder / "gpg").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "gpg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin" if script else str(folder))


def said(quiet: Progress) -> str:
    assert isinstance(quiet.out, io.StringIO)
    return quiet.out.getvalue()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", "gpg is not installed"),
        ('cp "$7" "$5"; echo "[GNUPG:] GOODSIG 1A2B A Signer <a@b.org>"', "that of A Signer <a@b"),
        ('cp "$7" "$5"; echo "[GNUPG:] NO_PUBKEY 1A2B"; exit 2', "gpg lacks the key"),
    ],
)
@pytest.mark.usefixtures("mirror")
def test_a_download_is_compared_with_the_mirrors_hashes(
    fetch: Fetch,
    tmp_path: Path,
    quiet: Progress,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    words: str,
) -> None:
    gpg(tmp_path, monkeypatch, script)
    assert fetch().read_bytes() == b"kernel"
    assert words in said(quiet)


def test_another_content_is_refused(mirror: Path, fetch: Fetch) -> None:
    (mirror / NAME).write_bytes(b"another")
    with pytest.raises(LabError, match=r"is not what sha256sums\.asc lists"):
        fetch()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo '[GNUPG:] BADSIG 1A2B A Signer'; exit 1", "is wrong, or there is none"),
        ('echo other >"$5"; echo "[GNUPG:] GOODSIG 1A2B A Signer"', "what A Signer signed"),
    ],
    ids=["wrong signature", "hash outside of what is signed"],
)
@pytest.mark.usefixtures("mirror")
def test_what_no_signature_vouches_for_is_refused(
    fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    gpg(tmp_path, monkeypatch, script)
    with pytest.raises(LabError, match=message):
        fetch()


@pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")
def test_a_list_that_is_packed_as_if_it_were_signed_vouches_for_nothing(
    mirror: Path, fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    sums = mirror / "sha256sums.asc"
    forged = sums.read_text() + "[GNUPG:] GOODSIG 1A2B A Signer\n"
    packed = run(["gpg", "--batch", "--store", "--armor"], stdin=forged).output
    sums.write_text(forged + packed)
    with pytest.raises(LabError, match="is wrong, or there is none"):
        fetch()


def test_the_users_own_tarball_needs_no_network(
    fetch: Fetch, tmp_path: Path, quiet: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(release.MIRROR, "http://127.0.0.1:1")
    monkeypatch.setenv(release.FOLDER, str(tmp_path))
    (tmp_path / NAME).write_bytes(b"own")
    assert fetch() == tmp_path / NAME
    assert "not verified, for no sha256sums.asc" in said(quiet)


def test_without_network_it_is_told_what_to_do(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(release.MIRROR, "http://127.0.0.1:1")
    with pytest.raises(LabError, match="cannot be had") as caught:
        fetch()
    url = "http://127.0.0.1:1/v6.x"
    assert f"curl -O {url}/{NAME} -O {url}/sha256sums.asc; put both" in caught.value.hint
    assert release.FOLDER in caught.value.hint


@pytest.mark.usefixtures("mirror")
def test_a_download_that_breaks_off_is_told(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(answer: object, size: int) -> bytes:
        raise http.client.IncompleteRead(b"")

    monkeypatch.setattr(http.client.HTTPResponse, "read", broken)
    with pytest.raises(LabError, match="cannot be had: IncompleteRead"):
        fetch()


def test_a_release_that_there_is_not_is_told(mirror: Path, fetch: Fetch) -> None:
    (mirror / NAME).unlink()
    with pytest.raises(LabError, match="cannot be had"):
        fetch()


@pytest.mark.parametrize("version", ["", "6", "next", "6.12.94/../x", "6.12-rc1", "-6.12"])
def test_what_is_no_release_is_told(version: str) -> None:
    with pytest.raises(UsageError, match="release"):
        source.resolve(f"release:{version}", Progress(out=io.StringIO()))


def test_a_release_is_a_source_like_any_other(
    fake_tarball: Path,
    tmp_path: Path,
    quiet: Progress,
    monkeypatch: pytest.MonkeyPatch,
    make_patch: Callable[..., Path],
) -> None:
    monkeypatch.setenv(release.FOLDER, str(tmp_path))
    (tmp_path / NAME).write_bytes(fake_tarball.read_bytes())
    resolved = source.resolve("release:6.12.94", quiet)
    assert (resolved.version, resolved.packaged) == ("6.12.94", False)
    assert resolved.tree == source.resolve(f"tar:{fake_tarball}", quiet).tree
    (tmp_path / NAME).unlink()
    assert source.resolve("release:6.12.94", quiet) == resolved

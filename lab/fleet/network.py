# SPDX-License-Identifier: GPL-2.0-or-later
"""How hosts of a fleet reach each other: by TLS with one key for all, on one host as well.

Who reaches a scheduler has its hosts execute what he likes, and every user of a host reaches what
listens on its loopback interface. So nothing else is spoken.
"""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path
from urllib.parse import urlsplit

import dask
from distributed import Security

from lab.base import cache
from lab.base.errors import UsageError
from lab.base.process import run

_KEY, _CERTIFICATE = "fleet.key", "fleet.pem"
_DAYS = "3650"
# Every task has its host, and no host is asked to be helped.
_SETTINGS = {
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.dashboard.status.task-stream-length": 0,
    "distributed.worker.use-file-locking": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.tick.limit": "1h",
    "distributed.comm.timeouts.connect": "10s",
    # Nothing is served to browsers.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
# Where what serves nothing listens: not beyond this host, at any free port.
LOOPBACK = "127.0.0.1"
NO_DASHBOARD = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}


def configure() -> None:
    """Set what dask has to be told before anything of it is used."""
    dask.config.set(_SETTINGS)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def make_keys(folder: Path) -> None:
    """Write a key and its certificate, which every host of a fleet needs. UsageError where there
    are some already.
    """
    if any((folder / name).exists() for name in (_KEY, _CERTIFICATE)):
        raise UsageError(f"{folder} has keys already", hint="choose another folder")
    cache.make_folder(folder)
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(folder / _KEY), "-out", str(folder / _CERTIFICATE)]
    openssl = ["openssl", "req", "-x509", *kind, "-days", _DAYS, "-subj", "/CN=fleet", *files]
    # Nobody else reads the key, not even while it is being written.
    run(["sh", "-c", 'umask 077; exec "$@"', "sh", *openssl])


def own_keys() -> Path:
    """The folder of this user's keys for a fleet on this host alone, made at first use."""
    folder = cache.root() / "fleet"
    if not folder.exists():
        with cache.building(folder, summed=False) as aside:
            aside.chmod(0o700)
            make_keys(aside)
    return folder


def security(address: str, keys: Path | None) -> Security:
    """What protects a connection to an address; without keys the user's own, on this host.

    Raises UsageError for what would not be protected.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.port:
        raise UsageError(f"{address!r} is no address of a fleet", hint="tls://HOST:8786")
    if parts.scheme != "tls":
        raise UsageError(
            f"{address} is not protected: who reaches it runs programs as you",
            hint=f"write tls://{parts.netloc}; on one host the lab makes the keys itself",
        )
    if not keys and not is_loopback(address):
        raise UsageError(
            f"{address} leaves this host, and there are no keys",
            hint="lab fleet keys FOLDER makes keys; give them with --fleet-keys",
        )
    keys = keys or own_keys()
    certificate, key = (str(_trusted(keys / name)) for name in (_CERTIFICATE, _KEY))
    pairs = {
        f"tls_{role}_{what}": path
        for role in ("client", "worker", "scheduler")
        for what, path in (("cert", certificate), ("key", key))
    }
    return Security(tls_ca_file=certificate, require_encryption=True, **pairs)


def _trusted(path: Path) -> Path:
    """A file of the keys that is there and, if it is secret, the user's alone. UsageError."""
    try:
        mode = path.stat().st_mode
    except OSError as exc:
        raise UsageError(f"{path} is missing", hint="lab fleet keys makes them") from exc
    if path.name == _KEY and mode & 0o077:
        raise UsageError(f"others can read {path}", hint=f"chmod 600 {path}")
    return path


def is_loopback(address: str) -> bool:
    """Whether an address does not leave this host."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

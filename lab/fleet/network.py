# SPDX-License-Identifier: GPL-2.0-or-later
"""How hosts of a fleet reach each other: by TLS with one key for all, or on one host only.

Who reaches a scheduler has its hosts execute what he likes, so nothing else is spoken.
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

USUAL = "tcp://127.0.0.1:8786"
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
NO_DASHBOARD = f"{LOOPBACK}:0"


def configure() -> None:
    """Set what dask has to be told before anything of it is used."""
    dask.config.set(_SETTINGS)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def make_keys(folder: Path) -> None:
    """Write a key and its certificate, which every host of a fleet needs. UsageError where there
    are some already.
    """
    key, certificate = folder / _KEY, folder / _CERTIFICATE
    if key.exists() or certificate.exists():
        raise UsageError(f"{folder} has keys already", hint="choose another folder")
    cache.make_folder(folder)
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    run(["openssl", "req", "-x509", *kind, "-days", _DAYS, "-subj", "/CN=fleet", *files])
    key.chmod(0o600)


def security(address: str, keys: Path | None) -> Security | None:
    """What protects a connection to an address; None for one that does not leave the host.

    Raises UsageError for what would not be protected.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.port:
        raise UsageError(f"{address!r} is no address of a fleet", hint="tls://HOST:8786")
    if keys:
        if parts.scheme != "tls":
            raise UsageError(f"keys are for tls://, not for {address}")
        for name in (_KEY, _CERTIFICATE):
            if not (keys / name).is_file():
                raise UsageError(f"{keys / name} is missing", hint="lab fleet keys makes them")
        own, key = str(keys / _CERTIFICATE), str(keys / _KEY)
        pairs = {
            f"tls_{role}_{what}": path
            for role in ("client", "worker", "scheduler")
            for what, path in (("cert", own), ("key", key))
        }
        return Security(tls_ca_file=own, require_encryption=True, **pairs)
    if parts.scheme == "tls" or not _loopback(parts.hostname or ""):
        raise UsageError(
            f"{address} leaves this host unprotected",
            hint="lab fleet keys FOLDER makes keys; give them with --keys, the address as tls://",
        )
    return None


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

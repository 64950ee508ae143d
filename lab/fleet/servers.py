# SPDX-License-Identifier: GPL-2.0-or-later
"""The two programs of a fleet: its scheduler, and the worker that each of its hosts runs."""

from __future__ import annotations

import asyncio
import os
import platform
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Scheduler, Worker

from lab.base import cache
from lab.base.errors import LabError
from lab.base.progress import Progress
from lab.fleet import network, remote

# Chosen: how often a scheduler that is not there is asked again.
_AGAIN_S = 2.0


def run_scheduler(address: str, keys: Path | None, progress: Progress) -> None:
    """Bring hosts and labs together, until the process is ended.

    Raises UsageError for an address that is not protected, LabError for one that is not free.
    """
    network.configure()
    security, parts = network.security(address, keys), urlsplit(address)

    async def serve() -> None:
        endpoint = {"protocol": parts.scheme, "host": parts.hostname, "port": parts.port}
        async with Scheduler(security=security, **endpoint, **network.NO_DASHBOARD) as scheduler:
            progress.say(f"the fleet's scheduler is at {scheduler.address}")
            await scheduler.finished()

    try:
        asyncio.run(serve())
    except OSError as exc:
        raise LabError(f"{address} cannot be listened at: {exc}") from exc


def run_worker(address: str, keys: Path | None, progress: Progress) -> None:
    """Boot guests for whoever uses a fleet's scheduler, until the process is ended; wait for a
    scheduler that is gone. Raises UsageError for an address that is not protected.
    """
    network.configure()
    security = network.security(address, keys)
    cache.sweep()
    name = f"{platform.node()}-{os.getpid()}"
    # Asked once before there are threads that do: what it takes is compiled only once then.
    slots, _ = remote.slots(), remote.who()

    async def serve(folder: Path) -> None:
        settings = {"nthreads": slots, "memory_limit": 0, "name": name, **network.NO_DASHBOARD}
        settings |= {"local_directory": str(folder), "security": security}
        settings |= {"host": network.LOOPBACK} if network.is_loopback(address) else {}
        async with Worker(address, **settings) as worker:
            progress.say(f"{name}: {slots} CPUs for the fleet at {address}")
            await worker.finished()

    async def serve_for_ever() -> None:
        with cache.scratch() as folder:
            while True:
                try:
                    await serve(folder)
                    progress.say("the fleet's scheduler is gone")
                except (OSError, TimeoutError) as exc:
                    progress.say(f"waiting for the fleet's scheduler: {exc}")
                await asyncio.sleep(_AGAIN_S)

    asyncio.run(serve_for_ever())

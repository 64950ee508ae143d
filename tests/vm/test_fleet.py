# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet of real hosts' programs on one machine: what is lost goes elsewhere, numbers stay."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.progress import Progress
from lab.measure import determinism
from lab.measure.boot_store import BootStore
from lab.measure.cell import Task
from lab.measure.job import Testbed
from lab.measure.runner import Runner

pytest.importorskip("distributed", reason="the extra fleet is not installed")

from lab.fleet import network
from lab.fleet.fleet import Fleet

LAB = Path(sys.executable).with_name("lab")
# Long against what was seen, some 20 s for two hosts to join on a busy machine.
PATIENCE_S = 300.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def program(*words: str, cache: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "LAB_CACHE": str(cache)}
    with subprocess.Popen([LAB, "fleet", *words], env=env, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for(text: str, out: io.StringIO, times: int = 1) -> None:
    end = time.monotonic() + PATIENCE_S
    while out.getvalue().count(text) < times:
        assert time.monotonic() < end, out.getvalue()
        time.sleep(0.1)


@pytest.mark.slow
def test_what_a_lost_host_had_is_measured_elsewhere_and_is_the_same(
    testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_RESULTS", str(tmp_path / "results"))
    cell = determinism.probe_cell(topology_name="nullb", scheduler="none")
    tasks = [
        Task(cell=replace(cell, seed=seed), kernel=testbed.probe_kernel) for seed in range(1, 5)
    ]
    address, out = f"tls://127.0.0.1:{free_port()}", io.StringIO()
    progress = Progress(out=out)
    # The hosts' caches are several, and each would have keys of its own.
    keys = tmp_path / "keys"
    network.make_keys(keys)
    shared = ("--fleet-keys", str(keys))
    fleet = Fleet(address, keys, progress)
    with (
        program("scheduler", "--address", address, *shared, cache=tmp_path / "scheduler"),
        program("worker", address, *shared, cache=tmp_path / "one") as first_host,
        fleet.opened(testbed),
    ):
        wait_for("joins with", out)

        class Losing(BootStore):
            """Ends the first host when the first boot is done."""

            def add(self, *args: Any, **kwargs: Any) -> None:
                super().add(*args, **kwargs)
                if first_host.poll() is None:
                    first_host.kill()

        with program("worker", address, *shared, cache=tmp_path / "two"):
            outcomes = Runner(testbed, Losing(), progress, fleet).all(tasks)
    assert "is lost" in out.getvalue()
    assert not any(outcome.error for outcome in outcomes)
    assert [len(outcome.boots) for outcome in outcomes] == [1] * 4
    alone = Runner(testbed, BootStore(tmp_path / "alone"), progress).all(tasks[:2])
    for here, there in zip(alone, outcomes, strict=False):
        assert here.boots[0].values == there.boots[0].values

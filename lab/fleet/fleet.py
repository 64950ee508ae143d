# SPDX-License-Identifier: GPL-2.0-or-later
"""The fleet as a place for deterministic guests: its hosts, what each is sent, and what comes back.

Each job is sent to one host and waited for. Of a host that is lost nothing is known any more, and
its jobs go to others; so it is with all hosts when the scheduler is started again. What came back
is stored here, by whoever asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future as Task
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, cast

from distributed import Client, Future

from lab.base import cache
from lab.base.errors import GuestError, LabError
from lab.base.progress import Progress
from lab.fleet import identity, network, parcel, remote
from lab.fleet.parcel import Entry
from lab.fleet.remote import Booted
from lab.fleet.self_check import SelfCheck
from lab.guest.time_slices import Slot
from lab.measure.job import Job, Testbed
from lab.measure.place import Measure
from lab.measure.sampling import Sample

# All chosen. So many guests at most are asked for at the same time, hosts are counted so often, and
# a scheduler is waited for so long until that is said.
_MOST = 1024
_LOOK_S = 1.0
_PATIENCE_S = 10.0
_POLL_S = 0.1


class Lost(Exception):
    """A host is not there any more, or its scheduler."""


class Host:
    """A host that joined, by the address of its worker."""

    def __init__(self, address: str, client: Client) -> None:
        self.address = address
        self.client = client
        self.slots = 0
        self.gone = Event()
        self._sending = Lock()

    def ask(self, call: Callable[..., Any], *args: Any, observe: Callable[[], None]) -> Any:
        """What a function of lab.fleet.remote returns there; Lost when the host is."""
        try:
            task = self.client.submit(
                call,
                *args,
                workers=[self.address],
                retries=0,
                pure=False,
                allow_other_workers=False,
            )
        except Exception as exc:
            raise Lost from exc
        return self._waited(task, observe)

    def _waited(self, task: Future, observe: Callable[[], None]) -> Any:
        try:
            while not task.done():
                if self.gone.wait(_POLL_S):
                    raise Lost
                observe()
            if task.status == "finished":
                return task.result(timeout=_PATIENCE_S)
            error = task.exception(timeout=_PATIENCE_S) if task.status == "error" else None
        except (OSError, TimeoutError) as exc:
            raise Lost from exc
        finally:
            with suppress(Exception):
                task.release()
        if isinstance(error, LabError):
            raise error
        raise Lost from error

    def provide(self, entries: tuple[Entry, ...], observe: Callable[[], None]) -> None:
        """Send what the host does not have of the cache, once."""
        with self._sending:
            for entry in self.ask(remote.lacking, entries, observe=observe):
                packed = parcel.packed(entry)
                try:  # an argument of a call would be too large for its message
                    sent = self.client.scatter(packed, workers=[self.address], hash=False)
                except Exception as exc:
                    raise Lost from exc
                self.ask(parcel.unpack, sent, observe=observe)

    def give_up(self, token: str) -> None:
        """End a boot there, if the host is still to be reached."""
        with suppress(Exception):
            self.client.run(remote.give_up, token, workers=[self.address], wait=False)


class Fleet:
    """Hosts that a scheduler knows, of which those do the work that give this host's numbers."""

    def __init__(self, address: str, keys: Path | None, progress: Progress) -> None:
        network.configure()
        self._address, self._progress = address, progress
        self._security = network.security(address, keys)
        self._slots: SimpleQueue[Host] = SimpleQueue()
        self._hosts: dict[str, Host] = {}
        self._refused: set[str] = set()
        self._client: Client | None = None
        self._check: SelfCheck | None = None
        self._ended = Event()

    most = _MOST

    @property
    def slots(self) -> int:
        """The CPUs of all hosts that joined."""
        return sum(host.slots for host in list(self._hosts.values()))

    @contextmanager
    def opened(self, testbed: Testbed) -> Iterator[None]:
        """Look for hosts and have them join while the block runs."""
        plugin = testbed.plugin
        this_host = identity.of_host(testbed.host.facts.emulator, plugin)
        self._check = SelfCheck(testbed, this_host)
        self._ended.clear()
        looking = Thread(target=self._look, name="fleet", daemon=True)
        looking.start()
        try:
            yield
        finally:
            self._ended.set()
            looking.join()
            self._lose_all()

    @contextmanager
    def slot(self, job: Job, look: Callable[[], None]) -> Iterator[Measure]:
        """Wait for a host with a free CPU; a lost one's job waits for another."""
        held: list[Host] = [self._free(lambda phase: look())]

        def measure(
            folder: Path, observe: Callable[[str], None], slot: Slot | None = None
        ) -> Sample:
            assert slot is None
            while True:
                try:
                    return _result(self._booted(held[-1], job, observe), folder)
                except Lost:
                    self._progress.say(f"    {held[-1].address} is lost: {job.task} goes elsewhere")
                    held[-1] = self._free(observe)

        try:
            yield measure
        finally:
            if not held[-1].gone.is_set():
                self._slots.put(held[-1])

    def _booted(self, host: Host, job: Job, observe: Callable[[str], None]) -> Booted:
        code, token = job.machine.kernel.code, uuid.uuid4().hex

        def look() -> None:
            observe(host.address)

        try:
            host.provide(parcel.booted_by(job.machine), look)
            return cast(Booted, host.ask(remote.boot, job, code, token, observe=look))
        except BaseException as exc:
            if not isinstance(exc, (Lost, LabError)):
                host.give_up(token)
            raise

    def _free(self, observe: Callable[[str], None]) -> Host:
        """A host with a free CPU, as soon as there is one."""
        while True:
            observe("waits for a host")
            try:
                host = self._slots.get(timeout=_LOOK_S)
            except Empty:
                if self._ended.is_set():
                    raise LabError("the fleet is closed") from None
                continue
            if not host.gone.is_set():
                return host

    def _look(self) -> None:
        """Keep the scheduler and its hosts in view until the end."""
        with ThreadPoolExecutor(thread_name_prefix="joining") as pool:
            joining: dict[str, Task[None]] = {}
            while not self._ended.wait(_LOOK_S):
                addresses = self._seen()
                for address in self._hosts.keys() - addresses:
                    self._lose(address)
                for address in addresses - self._hosts.keys() - self._refused:
                    if address not in joining or joining[address].done():
                        joining[address] = pool.submit(self._join, address)

    def _seen(self) -> set[str]:
        """The addresses of all workers; none while the scheduler is not to be reached."""
        try:
            if self._client is None:
                self._client = Client(
                    self._address,
                    security=self._security,
                    timeout=_PATIENCE_S,
                    set_as_default=False,
                )
            known = self._client.sync(self._client.scheduler.identity, n_workers=-1)
        except (OSError, TimeoutError, ValueError, AttributeError) as exc:
            if self._client is not None:
                self._progress.say(f"    the fleet's scheduler is lost, {self._address}: {exc}")
            self._lose_all()
            return set()
        return set(known["workers"])

    def _join(self, address: str) -> None:
        """Let a host do work once it checked that it gives the same numbers."""
        client = self._client
        if client is None or self._check is None:
            return
        host = Host(address, client)
        try:
            refusal = self._check.refusal(host)
            host.slots = 0 if refusal else host.ask(remote.slots, observe=lambda: None)
        except Lost:
            return
        except LabError as exc:
            refusal = str(exc)
        if refusal:
            self._refused.add(address)
            self._progress.say(f"    {address} is refused: {refusal}")
            return
        self._progress.say(f"    {address} joins with {host.slots} CPUs")
        self._hosts[address] = host
        for _ in range(host.slots):
            self._slots.put(host)

    def _lose(self, address: str) -> None:
        self._hosts.pop(address).gone.set()

    def _lose_all(self) -> None:
        for address in list(self._hosts):
            self._lose(address)
        client, self._client = self._client, None
        self._refused.clear()
        if client is not None:
            with suppress(Exception):
                client.close(timeout=_LOOK_S)


def _result(booted: Booted, folder: Path) -> Sample:
    """Write down what came back; raise the GuestError that there is in place of numbers."""
    cache.make_folder(folder)
    for name, content in booted.files.items():
        (folder / Path(name).name).write_bytes(content)
    if booted.sample is None:
        failure = booted.failure or GuestError("died", "the host sent nothing")
        raise GuestError(failure.outcome, failure.what, where=str(folder), hint=failure.hint)
    return booted.sample

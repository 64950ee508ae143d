# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of a fleet: protected addresses, entries that travel, hosts that are checked."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import guests as fakes
import pytest
from fleet_hosts import FakeHost

from lab.base import cache
from lab.base.errors import GuestError, LabError, UsageError
from lab.measure import sampling
from lab.measure.job import Job
from lab.measure.sampling import Sample

pytest.importorskip("distributed", reason="the extra fleet is not installed")

from distributed import Client, Scheduler, Security

from lab.fleet import identity, network, parcel, remote
from lab.fleet.identity import Identity
from lab.fleet.parcel import Entry, Parcel
from lab.fleet.remote import Booted
from lab.fleet.self_check import SelfCheck

OWN = Identity("lab", "QEMU 10", "plugin")
HEAD = "tls://head.example.org:8786"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    network.make_keys(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("tcp://10.0.0.1:8786", "is not protected"),
        ("tcp://127.0.0.1:8786", "is not protected"),
        ("tcp://localhost:1", "is not protected"),
        ("tcp://[::1]:1", "is not protected"),
        ("tls://head.example.org:8786", "there are no keys"),
        ("tls://0.0.0.0:8786", "there are no keys"),
        ("tls://127.0.0.1.example.org:8786", "there are no keys"),
        ("head.example.org", "is no address of a fleet"),
        ("tls://127.0.0.1", "is no address of a fleet"),
        ("http://127.0.0.1:80", "is no address of a fleet"),
    ],
)
def test_nothing_is_spoken_unprotected(address: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        network.security(address, None)
    assert not (cache.root() / "fleet").exists()


@pytest.mark.parametrize("address", ["tls://127.0.0.1:8786", "tls://localhost:1", "tls://[::1]:1"])
def test_a_fleet_on_one_host_has_keys_that_are_made_at_first_use(address: str) -> None:
    security = network.security(address, None)
    assert security.require_encryption
    folder = cache.root() / "fleet"
    key = folder / "fleet.key"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert key.stat().st_mode & 0o777 == 0o600
    content = key.read_bytes()
    assert network.security(address, None).tls_client_key == str(key)
    assert key.read_bytes() == content


def test_keys_protect_and_are_made_once(keys: Path) -> None:
    assert (keys / "fleet.key").stat().st_mode & 0o777 == 0o600
    assert network.security(HEAD, keys).require_encryption
    with pytest.raises(UsageError, match="has keys already"):
        network.make_keys(keys)
    with pytest.raises(UsageError, match="is not protected"):
        network.security("tcp://127.0.0.1:8786", keys)


def test_keys_that_are_missing_or_read_by_others_are_refused(keys: Path) -> None:
    (keys / "fleet.key").chmod(0o640)
    with pytest.raises(UsageError, match="others can read"):
        network.security(HEAD, keys)
    (keys / "fleet.pem").unlink()
    with pytest.raises(UsageError, match=r"fleet\.pem is missing"):
        network.security(HEAD, keys)


def test_who_has_not_the_keys_is_not_listened_to(keys: Path) -> None:
    """As another user of the host has none: by TLS with keys of his own, or without."""
    network.configure()
    trusted = network.security("tls://127.0.0.1:8786", None)
    foreign = network.security("tls://127.0.0.1:8786", keys)

    async def knock(address: str, security: Security | None) -> str:
        try:
            async with Client(
                address, security=security, asynchronous=True, timeout="5s"
            ) as client:
                return str(await client.run_on_scheduler(os.getpid))
        except (OSError, TimeoutError, TypeError, RuntimeError, ValueError) as exc:
            return type(exc).__name__

    async def attempts() -> list[str]:
        endpoint = {"protocol": "tls", "host": "127.0.0.1", "port": 0}
        async with Scheduler(security=trusted, **endpoint, **network.NO_DASHBOARD) as scheduler:
            address = scheduler.address
            plain = address.replace("tls://", "tcp://")
            knocks = ((address, trusted), (plain, None), (address, foreign))
            return [await knock(*who) for who in knocks]

    known, *refusals = asyncio.run(attempts())
    assert known == str(os.getpid())
    assert not [answer for answer in refusals if answer.isdigit()]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Parcel:
    """An entry of another host's cache."""
    entry = Entry("kernels", "abc")
    with cache.building(entry.folder) as folder:
        (folder / "vmlinux").write_bytes(b"\x7fELF kernel")
        (folder / "bin").mkdir()
        (folder / "bin/sh").symlink_to("../vmlinux")
    packed = parcel.packed(entry)
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "another"))
    return packed


def test_an_entry_arrives_as_it_was_sent(sent: Parcel) -> None:
    assert remote.lacking((sent.entry,)) == (sent.entry,)
    parcel.unpack(sent)
    assert remote.lacking((sent.entry,)) == ()
    assert (sent.entry.folder / "bin/sh").read_bytes() == b"\x7fELF kernel"


def test_an_entry_that_was_damaged_is_not_taken(sent: Parcel) -> None:
    with pytest.raises(LabError, match="damaged on its way"):
        parcel.unpack(replace(sent, archive=sent.archive + b"more"))
    assert not sent.entry.folder.exists()


@pytest.mark.parametrize(
    ("kind", "name"), [("kernels", "../../x"), ("logs", "x"), ("kernels", "."), ("", "")]
)
def test_an_entry_lies_in_its_folder(kind: str, name: str) -> None:
    with pytest.raises(LabError, match="no entry of a cache"):
        _ = Entry(kind, name).folder


def test_identities_differ_by_what_is_executed(tmp_path: Path) -> None:
    assert OWN.difference(OWN) == ""
    different = replace(OWN, qemu="QEMU 9", plugin="another")
    assert OWN.difference(different) == (
        "another qemu (QEMU 9, not QEMU 10), another plugin (another, not plugin)"
    )
    assert identity.of_host("QEMU 10", None).plugin == "none"
    assert identity.of_host("QEMU 10", tmp_path / "key/sim.so").plugin == "key"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> SelfCheck:
    """What is expected of hosts: a boot whose counts are "1000"."""

    def measure(job: Job, folder: Path) -> Sample:
        (folder / "insns").write_bytes(b"1000")
        (folder / "host").write_bytes(b"is not compared")
        return Sample({}, {}, {})

    monkeypatch.setattr(sampling, "measure", measure)
    kernel = fakes.kernel("kernel-id")
    return SelfCheck(fakes.checked_testbed(kernel), OWN)


def host(who: Identity = OWN, booted: Booted | None = None) -> FakeHost:
    usual = Booted({"insns": b"1000", "host": b"another"}, Sample({}, {}, {}))
    return FakeHost({"who": who, "boot": booted or usual})


def test_a_host_that_finds_the_same_joins(check: SelfCheck) -> None:
    fake_host = host()
    assert check.refusal(fake_host) == ""
    assert [entry.kind for entry in fake_host.provided] == ["kernels", "guests"]


def test_a_host_with_another_qemu_is_not_even_asked_to_boot(check: SelfCheck) -> None:
    fake_host = host(replace(OWN, qemu="QEMU 9"))
    assert "another qemu" in check.refusal(fake_host)
    assert fake_host.calls == ["who"]


@pytest.mark.parametrize(
    ("booted", "said"),
    [
        (Booted({"insns": b"1001"}, Sample({}, {}, {})), "its self-check gives another insns"),
        (Booted({}, Sample({}, {}, {})), "its self-check gives another insns"),
        (Booted({}, None, GuestError("hang", "stuck")), "its guest failed: stuck"),
    ],
)
def test_a_host_that_finds_something_else_is_refused(
    check: SelfCheck, booted: Booted, said: str
) -> None:
    assert check.refusal(host(booted=booted)) == said

# SPDX-License-Identifier: GPL-2.0-or-later
"""Engines are offered when a guest came up on them, and refused with the reason when none did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from examples import HOST, KERNEL

from lab.base import cache
from lab.base.errors import GuestError, LabError
from lab.base.progress import Progress
from lab.build.guest_root import GuestRoot
from lab.guest import boot
from lab.guest.boot import Boot
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs.terms import Engine
from lab.measure import host
from lab.measure.host import EngineReport, Report

FACTS = HOST.facts
LINES = "[    0.0] Linux version 6.12\n"


Check = Callable[..., EngineReport]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, quiet: Progress) -> Check:
    """Checks an engine whose guest prints console, and fails with error if one is given."""

    def checked(
        console: str, error: GuestError | None = None, engine: Engine = Engine.KVM
    ) -> EngineReport:
        def run(machine: Machine, orders: Orders) -> Boot:
            cache.make_folder(machine.folder)
            machine.console.write_text(console)
            if error:
                raise error
            return Boot({}, {}, {"boot": 1.5, "checked": 0.5})

        monkeypatch.setattr(boot, "run", run)
        monkeypatch.setattr(host, "_obstacle", lambda engine, plugin: None)
        return host.check_engine(engine, KERNEL, GuestRoot("g"), quiet)

    return checked


def test_a_kvm_on_which_a_guest_came_up_is_used(check: Check) -> None:
    engine_report = check(f"{LINES}[    0.0] Hypervisor detected: KVM\n")
    assert engine_report.works
    assert engine_report.seconds == 2.0
    assert host.chosen(Report(FACTS, (engine_report,)), None) is Engine.KVM


@pytest.mark.parametrize(
    ("console", "error", "reason"),
    [
        ("", GuestError("hang", "late"), "opens, but a guest's kernel printed nothing within 20 s"),
        ("qemu: error: failed to set MSR\n", GuestError("died", "x"), "opens, but QEMU gives up"),
        (LINES, GuestError("hang", "it stopped in phase boot"), "it stopped in phase boot"),
        (LINES, None, "QEMU fell back to TCG"),
    ],
    ids=["silent", "refused", "hung", "fell-back"],
)
def test_a_kvm_that_boots_nothing_is_refused_with_the_reason(
    check: Check, console: str, error: GuestError | None, reason: str
) -> None:
    engine_report = check(console, error)
    assert not engine_report.works
    assert reason in engine_report.reason
    report = Report(FACTS, (engine_report,))
    assert host.chosen(report, None) is Engine.TCG
    with pytest.raises(LabError, match="the engine kvm does not work on this machine") as caught:
        host.chosen(report, Engine.KVM)
    assert engine_report.reason in str(caught.value)


def test_an_engine_needs_no_trace_of_kvm(check: Check) -> None:
    assert check(LINES, engine=Engine.TCG).works


def test_what_is_checked_once_is_asked_of_the_cache(
    monkeypatch: pytest.MonkeyPatch, quiet: Progress
) -> None:
    calls: list[Engine] = []

    def check_engine(engine: Engine, *rest: object) -> EngineReport:
        calls.append(engine)
        return EngineReport(engine, engine is not Engine.KVM, "because", 1.0)

    monkeypatch.setattr(host, "check_engine", check_engine)
    guest = GuestRoot("g")
    first = host.examine(FACTS, KERNEL, guest, None, quiet)
    assert host.examine(FACTS, KERNEL, guest, None, quiet) == first
    assert calls == list(Engine)
    assert host.examine(FACTS, KERNEL, guest, None, quiet, fresh=True) == first
    assert calls == 2 * list(Engine)


@pytest.mark.parametrize("kept", ["refused", "", "[{", "{}", '[{"engine": "xen"}]'])
def test_what_a_bad_moment_or_a_damaged_file_said_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, quiet: Progress, kept: str
) -> None:
    works = False

    def check_engine(engine: Engine, *rest: object) -> EngineReport:
        return EngineReport(engine, works or engine is not Engine.EXACT, "because", 1.0)

    monkeypatch.setattr(host, "check_engine", check_engine)
    assert not host.examine(FACTS, KERNEL, GuestRoot("g"), None, quiet).works(Engine.EXACT)
    (record,) = (cache.root() / "host").iterdir()
    if kept != "refused":
        record.write_text(kept)
    works = True
    for _ in range(2):
        assert host.examine(FACTS, KERNEL, GuestRoot("g"), None, quiet).works(Engine.EXACT)

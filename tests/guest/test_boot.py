# SPDX-License-Identifier: GPL-2.0-or-later
"""The verdict on a guest, with shell commands in the place of QEMU."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base import sandbox
from lab.base.errors import KERNEL_FAILURES, ExitCode, GuestError, LabError
from lab.base.sandbox import Mode
from lab.build.guest_root import GuestRoot
from lab.build.kernel import Kernel
from lab.guest import affinity, boot, host_noise, lost_interrupt, qemu_command, retries
from lab.guest.boot import Boot
from lab.guest.orders import Orders
from lab.guest.qemu_command import Machine
from lab.inputs import topology
from lab.inputs.terms import Engine

DATA = Path(__file__).parents[1] / "data"
KERNEL = Kernel("k", "6.12.117", "tree", ("base",), "gcc; ld")
ORDERS = Orders(
    ("phase setup", "facts", "mkfs xfs", "mount xfs", "phase workload", "fio few", "fio many"),
    dict.fromkeys(("boot", "agent", "setup", "workload"), 20.0),
)
Guest = Callable[..., Boot]
Observe = Callable[[str], None]


def send(kind: str, name: str, payload: str = "") -> str:
    """A shell command that writes a record as the agent does."""
    record = f"@{kind} {name} {len(payload.encode())}\n{payload}\n"
    return f"printf %s {shlex.quote(record)} >>results"


def console(name: str) -> str:
    """A shell command that writes a recorded console, as a deterministic guest's QEMU and as vng
    does.
    """
    recorded = (DATA / f"console-{name}.log").read_text()
    return f"printf %s {shlex.quote(recorded)} | tee -a console.log"


END = send("end", "ok")
# What a guest would do after a wait that the lab is to cut short; it writes one of QEMU's files.
LINGERED = "stacks"
LINGER = f"sleep 30; touch {LINGERED}"


class Clock:
    """The clock that deadlines are counted by: it moves only when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.now = time.monotonic()
        self._folder = folder

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _seconds: float) -> None:
        time.sleep(0.01)

    def gates(self, **seconds: float) -> Observe:
        """An observer that opens the gate of each of some phases as soon as it sees the phase.

        It moves the clock by the seconds that the phase is to have taken.
        """

        def see(phase: str) -> None:
            if phase in seconds:
                self.now += seconds.pop(phase)
                (self._folder / f"qemu/seen-{phase}").touch()

        return see

    def late(self, seconds: float, wanted: str = "boot") -> Observe:
        """An observer that lets seconds pass in a phase when the guest's kernel has printed."""
        consoles = [self._folder / name for name in ("qemu/console.log", "console.log")]
        left = [seconds]

        def observe(phase: str) -> None:
            printed = any(path.exists() and path.stat().st_size for path in consoles)
            if phase == wanted and printed and left:
                self.now += left.pop()

        return observe


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    fake_clock = Clock(tmp_path / "boot")
    monkeypatch.setattr(boot, "time", fake_clock)
    return fake_clock


def entered(phase: str) -> str:
    """A shell command that enters a phase; a guest is in the phase boot by itself."""
    return "" if phase == "boot" else send("phase", phase)


def held(phase: str) -> str:
    """A shell command that enters a phase and waits until the lab has seen it, but not for ever."""
    waits = "n=$((n + 1)); [ $n -lt 2000 ] || exit 1; sleep 0.01"
    return f"{entered(phase)}\nwhile ! [ -e seen-{phase} ]; do {waits}; done"


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    """A function that boots shell commands as a guest with a disk; its folder is tmp_path/boot.

    It may write to the folder qemu in that.
    """

    def run(
        *commands: str,
        deadlines_s: dict[str, float] | None = None,
        observe: Observe = lambda phase: None,
        engine: Engine = Engine.EXACT,
    ) -> Boot:
        monkeypatch.setattr(
            qemu_command, "command", lambda machine: ["sh", "-c", "\n".join(commands)]
        )
        hardware, folder = topology.get("megasas"), tmp_path / "boot"
        guest_machine = Machine(
            KERNEL, GuestRoot("g"), hardware, engine, folder, size_mib=7, backed=True
        )
        orders = Orders(ORDERS.steps, {**ORDERS.deadlines_s, **(deadlines_s or {})}, ORDERS.files)
        return boot.run(guest_machine, orders, observe)

    return run


@pytest.fixture(autouse=True)
def _disk_goes(tmp_path: Path) -> object:
    """Whatever becomes of a guest, its disk does not stay, and none outlives what the lab does."""
    yield
    assert not (tmp_path / "boot/qemu").exists()
    assert not (tmp_path / "boot" / LINGERED).exists()


@pytest.fixture(params=Mode)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Mode:
    """Each mode, where it works."""
    chosen = Mode(request.param)
    if why := sandbox.obstacle_to(chosen):
        pytest.skip(f"{chosen}: {why}")
    monkeypatch.setenv(sandbox.CHOICE, chosen)
    return chosen


def test_what_gets_out_of_a_guest_gets_no_further_than_its_folder(
    guest: Guest, tmp_path: Path, mode: Mode
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "secret").write_text("s3cret")
    guest(
        f"cat {home}/secret >calls",
        f"echo bad >{home}/canary",
        "echo bad >../canary",
        f"cat /proc/{os.getpid()}/cmdline >insns",
        END,
    )
    unconfined = mode is Mode.NONE
    assert (tmp_path / "boot/calls").read_text() == ("s3cret" if unconfined else "")
    assert (home / "canary").exists() == unconfined
    assert (tmp_path / "boot/canary").exists() == unconfined
    assert ((tmp_path / "boot/insns").read_text() != "") == unconfined


def test_a_guest_that_ends_its_plan_gives_facts_and_outputs(guest: Guest) -> None:
    done = guest(
        send("phase", "agent"),
        send("phase", "setup"),
        send("file", "facts.tsv", "hw_queues\t64\nqueue/scheduler\tnone [bfq]\nempty\t\nnoise\n"),
        send("phase", "workload"),
        send("file", "many.json", '{"jobs": []}\n@end ok 0\n'),
        END,
    )
    assert done.facts == {"hw_queues": "64", "queue/scheduler": "none [bfq]", "empty": ""}
    assert done.outputs["many.json"] == '{"jobs": []}\n@end ok 0\n'
    assert {"boot", "agent", "setup", "workload"} <= done.phases_s.keys()


def test_the_time_of_a_phase_is_its_own(guest: Guest, clock: Clock) -> None:
    done = guest(held("setup"), held("workload"), END, observe=clock.gates(setup=3, workload=5))
    assert done.phases_s["setup"] == 3
    assert done.phases_s["workload"] == 5


def test_phases_are_observed_as_they_are_entered(guest: Guest, clock: Clock) -> None:
    seen: list[str] = []
    see = clock.gates(setup=0, workload=0)

    def observe(phase: str) -> None:
        seen.append(phase)
        see(phase)

    guest(held("setup"), held("workload"), END, observe=observe)
    assert list(dict.fromkeys(seen))[-3:] == ["setup", "workload", "exit"]


def test_the_guest_finds_its_orders_and_its_disk(guest: Guest, tmp_path: Path) -> None:
    done = guest(
        "size=$(stat -c %s disk.raw)", 'printf "@file mkfs.log 7\\n$size\\n" >>results', END
    )
    assert done.outputs["mkfs.log"] == str(7 * 2**20)
    with tarfile.open(tmp_path / "boot/cell.tar") as archive:
        plan = archive.extractfile("plan")
        assert plan is not None
        assert plan.read().decode().splitlines() == list(ORDERS.steps)


@pytest.mark.parametrize("commands", [(console("clean"), END), (END, console("panic"))])
def test_a_plan_that_ended_stands_whatever_the_console_says_later(
    guest: Guest, commands: tuple[str, str]
) -> None:
    assert guest(*commands).outputs == {}


def test_a_guest_that_lingers_after_its_plan_is_ended(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "_EXIT_S", 0.1)
    guest(END, LINGER)


def failure(guest: Guest, *commands: str, **options: object) -> GuestError:
    """The error of a guest that does not do its work."""
    with pytest.raises(GuestError) as caught:
        guest(*commands, **options)
    return caught.value


def test_a_step_that_fails_is_named_with_its_log(guest: Guest) -> None:
    error = failure(
        guest,
        send("phase", "setup"),
        send("file", "mkfs.log", "mkfs.xfs: cannot open /dev/sda: No such device"),
        send("fail", "mkfs", "mkfs.xfs ended with status 1"),
    )
    assert error.outcome == "failed"
    assert "in phase setup: mkfs.xfs ended with status 1" in str(error)
    assert "cannot open /dev/sda" in str(error)


def test_the_log_of_another_step_is_not_blamed(guest: Guest) -> None:
    error = failure(guest, send("file", "mkfs.log", "all well"), send("fail", "mount", "no mount"))
    assert "all well" not in str(error)


def test_what_a_terminal_would_obey_is_shown(guest: Guest) -> None:
    error = failure(guest, send("fail", "fio", "\x1b]0;owned\x07"))
    assert "\\x1b]0;owned\\x07" in str(error)
    assert "\x1b" not in str(error)


def test_what_the_kernel_complained_of_explains_a_failed_step(guest: Guest) -> None:
    said = "echo '[  1.0] I/O error, dev nvme0n1, sector 7 op 0x0' >>console.log"
    error = failure(guest, said, send("fail", "fio", "fio ended with status 1"))
    assert "I/O error: I/O error, dev nvme0n1" in str(error)


@pytest.mark.parametrize(
    ("name", "outcome", "cause"),
    [
        ("panic", "panic", "Unable to mount root fs"),
        ("oops", "panic", "NULL pointer dereference"),
        ("soft-lockup", "hang", "soft lockup - CPU#1"),
        ("hung-task", "hang", "task dbench:97 blocked"),
        ("rcu-stall", "hang", "rcu_sched self-detected stall"),
    ],
)
@pytest.mark.parametrize("engine", [Engine.EXACT, Engine.TCG])
def test_a_kernel_that_says_so_died_or_is_stuck(
    guest: Guest, name: str, outcome: str, cause: str, engine: Engine
) -> None:
    error = failure(guest, send("phase", "workload"), console(name), "exit 1", engine=engine)
    assert error.outcome == outcome
    fate = "died" if outcome == "panic" else "is stuck"
    assert f"{fate} in phase workload" in str(error)
    assert cause in str(error)
    assert "console.log" in error.where


@pytest.mark.parametrize(
    "commands", [[send("fail", "fio", "fio ended with 139")], ["echo rubbish >>results", LINGER]]
)
def test_a_panic_explains_what_came_of_it(guest: Guest, commands: list[str]) -> None:
    assert failure(guest, console("oops"), *commands).outcome == "panic"


@pytest.mark.parametrize("phase", ["boot", "setup", "workload"])
def test_silence_past_the_deadline_is_a_hang_in_its_phase(
    guest: Guest, clock: Clock, phase: str
) -> None:
    commands = (entered(phase), "echo '[    3.5] last words' >>console.log", LINGER)
    error = failure(guest, *commands, observe=clock.late(201, phase))
    assert error.outcome == "hang"
    fate = "come up" if phase == "boot" else f"get through phase {phase}"
    assert f"did not {fate} within 201 s" in str(error)
    assert "[    3.5] last words" in str(error)


def test_a_guest_has_all_of_the_seconds_of_its_phase(guest: Guest, clock: Clock) -> None:
    # 30 seconds in all and 7 of the workload, but never past the deadline of the phase.
    done = guest(
        *(held("boot"), held("setup"), held("workload"), END),
        deadlines_s={"setup": 5, "workload": 8},
        observe=clock.gates(boot=19, setup=4, workload=7),
    )
    assert done.phases_s["workload"] == 7


def test_a_hang_after_a_panic_is_a_panic(guest: Guest, clock: Clock) -> None:
    error = failure(guest, console("oops"), LINGER, observe=clock.late(21), engine=Engine.TCG)
    assert error.outcome == "panic"


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("engine", [Engine.EXACT, Engine.TCG])
def test_qemu_that_ends_by_itself_died(guest: Guest, status: int, engine: Engine) -> None:
    error = failure(
        guest,
        send("phase", "setup"),
        "echo 'qemu-system-x86_64: -device nvme: no such device' >&2",
        f"exit {status}",
        engine=engine,
    )
    assert error.outcome == "died"
    assert "in phase setup" in str(error)
    assert "no such device" in str(error)
    assert "command" in error.where


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU loses an interrupt of every guest."""
    monkeypatch.setattr(
        lost_interrupt, "lost_interrupt", lambda path: f"vCPU 1 sleeps, says {path.name}"
    )


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize(
    ("phase", "printed", "seconds"),
    [
        ("boot", console("rcu-stall"), 21),
        ("setup", console("rcu-stall"), 21),
        # In the phase that is measured it is found without waiting.
        ("workload", console("rcu-stall"), 0),
        # Long before the deadline.
        ("boot", "echo up; echo up >>console.log", 16),
    ],
)
def test_a_guest_of_which_qemu_lost_an_interrupt_is_no_hang_of_its_kernel(
    guest: Guest, clock: Clock, phase: str, printed: str, seconds: float
) -> None:
    late = clock.late(seconds, phase)
    commands = (entered(phase), printed, "sleep 100")
    error = failure(guest, *commands, engine=Engine.TCG, observe=late)
    assert error.outcome == "lost"
    assert f"in phase {phase}: vCPU 1 sleeps, says qmp" in str(error)


@pytest.mark.usefixtures("lost")
def test_a_panic_stays_one_whatever_became_of_its_interrupts(guest: Guest, clock: Clock) -> None:
    late = clock.late(21)
    error = failure(guest, console("panic"), "sleep 100", engine=Engine.TCG, observe=late)
    assert error.outcome == "panic"


@pytest.mark.parametrize("engine", [Engine.TCG, Engine.EXACT, Engine.KVM])
def test_threads_of_tcg_share_a_cpu_while_the_guest_boots(
    guest: Guest, clock: Clock, tmp_path: Path, engine: Engine
) -> None:
    folder = tmp_path / "boot/qemu"
    seen: list[int] = []
    see = clock.gates(setup=0, workload=0)

    def observe(phase: str) -> None:
        if phase == "workload" and not seen:
            seen.extend(int((folder / name).read_text()) for name in ("booting", "later"))
        see(phase)

    steps = ("nproc >booting", held("setup"), "nproc >later", held("workload"), END)
    guest(*steps, engine=engine, observe=observe)
    mine = len(os.sched_getaffinity(0))
    assert seen == [1 if engine is Engine.TCG else mine, mine]


def test_guests_boot_on_one_cpu_after_the_other() -> None:
    usual, used = os.sched_getaffinity(0), set()
    for _ in usual:
        with affinity.on_one_cpu():
            used |= os.sched_getaffinity(0)
    assert used == os.sched_getaffinity(0) == usual


def test_a_guest_in_good_health_is_examined_once(
    guest: Guest, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def examine(path: Path) -> str:
        seen.append(path)
        return ""

    monkeypatch.setattr(lost_interrupt, "lost_interrupt", examine)
    for engine in (Engine.TCG, Engine.EXACT):
        see = clock.gates(workload=5)
        guest("rm -f seen-workload", held("workload"), END, engine=engine, observe=see)
    assert len(seen) == 1  # a deterministic guest has no monitor


def test_the_hosts_noise_is_read_where_a_guest_can_notice_it(
    guest: Guest, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[object] = []
    monkeypatch.setattr(host_noise, "reading", readings.append)
    by_engine = {}
    for engine in (Engine.TCG, Engine.EXACT, Engine.SIM):
        readings.clear()
        see = clock.gates(workload=5)
        guest("rm -f seen-workload", held("workload"), END, engine=engine, observe=see)
        by_engine[engine] = bool(readings)
    assert by_engine == {Engine.TCG: True, Engine.EXACT: False, Engine.SIM: False}


def test_a_record_that_is_cut_off_is_no_end(guest: Guest) -> None:
    assert failure(guest, "printf '@end ok 0' >>results").outcome == "died"


@pytest.mark.parametrize(
    ("records", "outcome", "message"),
    [
        ([send("file", "insns", "phase 0 1 1\nend\n")], "corrupt", "nobody asked for: insns"),
        ([send("file", "command", "rm")], "corrupt", "nobody asked for: command"),
        ([send("file", ".."), END], "corrupt", "nobody asked for: .."),
        ([send("phase", "party")], "corrupt", "nobody asked for: party"),
        ([send("phase", "setup"), send("phase", "setup")], "endless", "setup once more"),
        ([send("phase", "setup"), send("phase", "boot")], "endless", "boot once more"),
        ([END, send("file", "fio.log", "more")], "corrupt", "more after its end"),
        (["echo 'Segmentation fault' >>results"], "corrupt", "Segmentation fault"),
    ],
)
def test_what_nobody_asked_for_ends_the_guest_and_changes_no_file(
    guest: Guest, tmp_path: Path, records: list[str], outcome: str, message: str
) -> None:
    error = failure(guest, "echo honest >insns", "; ".join(records), LINGER)
    assert error.outcome == outcome
    assert message in str(error)
    assert outcome in KERNEL_FAILURES
    assert (tmp_path / "boot/insns").read_text() == "honest\n"


@pytest.mark.parametrize("name", ["console.log", "qemu.log", "insns", "calls"])
def test_a_guest_that_writes_without_end_is_ended(
    guest: Guest, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(boot, "_MAX_CONSOLE", 1 << 20)
    monkeypatch.setattr(boot, "_MAX_COUNTS", 1 << 20)
    where = "&2" if name == "qemu.log" else f">{name}"
    error = failure(guest, send("phase", "setup"), f"head -c 2M /dev/zero >{where}", "sleep 30")
    assert error.outcome == "flooded"
    assert f"more than 1 MiB of {name} (phase setup)" in str(error)


def test_a_flood_that_only_the_end_shows_counts_too(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "_MAX_COUNTS", 1 << 20)
    error = failure(guest, END, "head -c 2M /dev/zero >>insns")
    assert error.outcome == "flooded"


@pytest.mark.parametrize("facts", ["x" * 5000 + "\t1", "a\t1\n" * 3000])
def test_facts_that_no_disk_has_are_refused(guest: Guest, facts: str) -> None:
    assert failure(guest, send("file", "facts.tsv", facts), END).outcome == "corrupt"


def test_the_files_of_a_plan_are_none_of_the_hosts() -> None:
    steps = ("facts", "dm x", "mkfs xfs", "mount xfs", "fio few", "fio many", "fio fio")
    outputs = Orders((*steps, "dbench 4 10"), {}).outputs
    lab_files = {"insns", "sim", "command", "console.log", "qemu.log", "results", "cell.tar"}
    assert outputs.isdisjoint(lab_files | {"madt.aml", "disk.raw", "qmp", "cost.tsv", "lines.tsv"})
    assert {"facts.tsv", "few.json", "many.json", "fio.log", "dbench.log"} <= outputs


def test_the_command_can_be_pasted(guest: Guest, tmp_path: Path) -> None:
    guest(END)
    assert shlex.split((tmp_path / "boot/command").read_text())[:2] == ["sh", "-c"]


def test_an_interrupt_ends_the_guest_and_removes_the_disk(guest: Guest) -> None:
    def interrupt(phase: str) -> None:
        if phase == "setup":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guest(send("phase", "setup"), LINGER, observe=interrupt)


@pytest.mark.usefixtures("mode")
def test_a_qemu_that_was_killed_is_not_its_kernels_doing(guest: Guest) -> None:
    assert failure(guest, send("phase", "setup"), "kill -KILL $$").outcome == "killed"


@pytest.mark.parametrize(
    ("outcome", "calls"),
    [
        *((broken, retries.ATTEMPTS) for broken in ("died", "killed", "lost")),
        ("panic", 1),
        ("hang", 1),
    ],
)
def test_only_a_guest_that_qemu_broke_is_booted_again(outcome: str, calls: int) -> None:
    made = []

    def call() -> None:
        made.append(1)
        raise GuestError(outcome, "it failed")

    with pytest.raises(GuestError, match="it failed"):
        retries.steadily(call)
    assert len(made) == calls


@pytest.mark.parametrize("name", ["insns", "calls", "console.log", "results"])
@pytest.mark.parametrize("left", ["ln -sf {home}/canary {name}", "rm -f {name}; mkfifo {name}"])
def test_a_link_or_a_pipe_that_qemu_leaves_is_its_kernels_doing(
    guest: Guest, tmp_path: Path, name: str, left: str
) -> None:
    canary = tmp_path / "canary"
    canary.write_text("mine")
    # Where the lab puts what it makes of the guest's records and counts.
    lab_files = ("facts.tsv", "cost.tsv", "lines.tsv", "few.json", "command", "qemu.log")
    links = [f"ln -s {canary} {file}; ln -s {canary} ../{file}" for file in lab_files]
    record = send("file", "facts.tsv", "a\tb\n")
    error = failure(guest, *links, record, END, left.format(home=tmp_path, name=name))
    assert error.outcome == "corrupt"
    assert f"QEMU's {name} is no regular file" in str(error)
    assert canary.read_text() == "mine"
    assert not [path for path in (tmp_path / "boot").rglob("*") if path.is_symlink()]


def full_disk(guest: Guest, *commands: str, **options: object) -> LabError:
    """The error of a guest whose disk is full, which is none of its kernel's."""
    with pytest.raises(LabError, match="no space left on the disk") as caught:
        guest(*commands, **options)
    assert not isinstance(caught.value, GuestError)
    return caught.value


def test_a_disk_that_is_full_under_a_guest_ends_it_at_once(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU writes again for ever what the disk has no space for."""
    started, usage = tmp_path / "boot/qemu/insns", shutil.disk_usage

    def full_once_started(path: Path) -> Any:
        full = started.exists() and Path(path).is_relative_to(tmp_path / "boot")
        return usage(path)._replace(free=4096 if full else 1 << 40)

    monkeypatch.setattr(shutil, "disk_usage", full_once_started)
    error = full_disk(guest, "echo more >insns", LINGER)
    assert error.exit_code == ExitCode.FAILED
    assert "LAB_RESULTS" in error.hint


def test_a_quota_that_is_used_up_is_no_hang_of_a_kernel(
    guest: Guest, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    write = Path.write_bytes

    def refused(path: Path, content: bytes) -> int:
        if path.name == "probe":
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", refused)
    full_disk(guest, "echo up >>console.log", LINGER, observe=clock.late(201))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_a_file_system_that_a_guest_fills_ends_it(guest: Guest, tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(tmp_path / "boot")]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mount is refused here")
    try:
        full_disk(guest, "while :; do cat /dev/zero >>insns; sleep 0.01; done")
    finally:
        subprocess.run(["umount", str(tmp_path / "boot")], check=True)

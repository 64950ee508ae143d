# SPDX-License-Identifier: GPL-2.0-or-later
"""What follows a hostile build is judged as in an empty cache, to the digit: kernels are really
built here, of the fake source, and what an I/O costs is what a kernel's image says.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import guests as fakes
import pytest
from fake_kernel import MAKEFILE
from guests import FakeSession, Guests

from lab.base import cache, sandbox
from lab.base.process import run
from lab.base.sandbox import Mode
from lab.commands import bisect_measure, gate, gate_config
from lab.commands.bisect_measure import ByFunction
from lab.commands.gate import Gating
from lab.commands.gate_history import GateHistory
from lab.inputs import profile, series
from lab.inputs.terms import Engine, Verdict
from lab.judge import judge
from lab.measure.boot_store import BootStore
from lab.measure.cost import Cost
from lab.measure.session import Session
from lab.report.run_builder import RunBuilder

FRAGMENTS = ("base", "block")
OBJECTS = f"obj-{cache.key(sorted(FRAGMENTS))}"
WHO = ("-c", "user.name=a", "-c", "user.email=a@b")
# As the kernel's: only what is newer than its object is compiled.
KEEPING = MAKEFILE.replace(
    "\t@cp block/bfq.c $(O)/block/bfq.o\n",
    "\t@[ $(O)/block/bfq.o -nt block/bfq.c ] || cp block/bfq.c $(O)/block/bfq.o\n",
).replace("@cat block/bfq.c init", "@cat $(O)/block/bfq.o init")
# Of a version that has the disk of these cells.
KEEPING = re.sub("VERSION = 0\nPATCHLEVEL = 1", "VERSION = 6\nPATCHLEVEL = 12", KEEPING)
KEEPING = KEEPING.replace('"0.1.0', '"6.12.0')
# An object that costs more and is newer than all sources, in this tree's objects and in those that
# they stand for, and in what ccache keeps.
ATTACK = f"""\
	@for o in $(O) $(O)/../../clean/{OBJECTS}; do (echo backdoor >>$$o/block/bfq.o; \\
		touch $$o/block/bfq.o; echo bad >$$CCACHE_DIR/planted) 2>/dev/null; done; true
"""
HOSTILE = KEEPING + ATTACK
FEWER = "".join(f"int bfq_{number};\n" for number in range(1, 21))
MORE = "".join(f"int bfq_{number};\n" for number in range(1, 81))
CLAIM = (
    'title = "t"\norigin = "o"\nkernel = ["base", "block"]\ntree = "{tree}"\n'
    '[claims.c]\npublished = "p"\ntopology = "nullb_mq"\n'
    'scheduler = "none"\nworkload = "randread_burst"\n[[claims.c.expect]]\nbecause = "b"\n'
    'metric = "kernel_insns_per_io"\nchange = "<= -20%"\n'
)

pytestmark = [pytest.mark.usefixtures("fragments"), pytest.mark.slow]


class BuildingSession(FakeSession):
    """A session whose kernels are built."""

    kernel = Session.kernel


@dataclass
class Lab:
    """A repository whose commits are built, in a cache and with results that can begin anew."""

    tree: Path
    folder: Path
    patch: pytest.MonkeyPatch

    def commit(self, branch: str, start: str = "main", **files: str) -> None:
        """Commit changed files to a branch that begins at another one."""
        run(["git", "-C", str(self.tree), "checkout", "-q", "-B", branch, start])
        for name, content in files.items():
            path = {"makefile": "Makefile", "code": "block/bfq.c", "main": "init/main.c"}[name]
            (self.tree / path).write_text(content)
        run(["git", "-C", str(self.tree), *WHO, "commit", "-q", "--allow-empty", "-am", branch])

    def spec(self, branch: str) -> str:
        """A branch as a source."""
        return f"git:{self.tree}@{branch}"

    def session(self, place: str) -> BuildingSession:
        """A session with a cache and results of its own, which are empty at first."""
        self.patch.setenv("LAB_CACHE", str(self.folder / place / "cache"))
        quick = profile.get("quick").model_copy(
            update={"kernel": FRAGMENTS, "tree": self.spec("main")}
        )
        engines = (Engine.KVM, Engine.EXACT)
        return BuildingSession(quick, BootStore(self.folder / place / "results"), engines=engines)


@pytest.fixture(params=[Mode.BWRAP, Mode.LANDLOCK])
def lab(
    request: pytest.FixtureRequest,
    fake_tree: Path,
    tmp_path: Path,
    guests: Guests,
    monkeypatch: pytest.MonkeyPatch,
) -> Lab:
    """A repository with a good commit, in each mode that confines."""
    if why := sandbox.obstacle_to(request.param):
        pytest.skip(f"{request.param}: {why}")
    monkeypatch.setenv(sandbox.CHOICE, request.param)

    def size(kernel: str) -> Cost:
        image = cache.root() / "kernels" / kernel / "vmlinux"
        return fakes.insns(_text=float(image.stat().st_size))

    guests.cost_of = size
    (fake_tree / "Makefile").write_text(KEEPING)
    for words in (["init", "-q", "-b", "main"], ["add", "--all"], ["commit", "-q", "-m", "main"]):
        run(["git", "-C", str(fake_tree), *WHO, *words])
    return Lab(fake_tree, tmp_path / "labs", monkeypatch)


T = TypeVar("T")


def equal(lab: Lab, hostile: Callable[[Session], object], honest: Callable[[Session], T]) -> T:
    """What the honest use gives after the hostile one, and in an empty cache."""
    after = lab.session("after")
    hostile(after)
    result = honest(after)
    assert result == honest(lab.session("empty"))
    return result


def test_a_series(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hostile series has the honest one's patch, and a makefile."""
    monkeypatch.setattr(series, "FOLDER", tmp_path / "patches")
    code = (lab.tree / "block/bfq.c").read_text()
    change = {"block/bfq.c": (code, FEWER)}
    patches = {"honest": change, "evil": {**change, "Makefile": (KEEPING, HOSTILE)}}
    for name, changes in patches.items():
        patch = series.FOLDER / name / "series/1.patch"
        patch.parent.mkdir(parents=True)
        patch.write_text("".join(difference(path, *texts) for path, texts in changes.items()))
        (series.FOLDER / name / "series.toml").write_text(CLAIM.format(tree=lab.spec("main")))

    def judged(session: Session, name: str) -> tuple[Verdict, object, str]:
        (result,) = judge.judge([series.get(name)], session)
        assert not result.error
        (finding,) = result.findings
        return finding.verdict, finding.evidence.values, finding.reason

    result = equal(
        lab, lambda session: judged(session, "evil"), lambda session: judged(session, "honest")
    )
    assert result[0] is Verdict.HOLDS


def difference(path: str, old: str, new: str) -> str:
    """A patch of a file."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))


def test_a_night_of_the_gate(lab: Lab, tmp_path: Path) -> None:
    lab.commit("evil", makefile=HOSTILE, code=MORE)
    lab.commit("honest", code=MORE)

    def night(session: Session, name: str) -> tuple[str, object, object]:
        config = tmp_path / f"{name}.toml"
        config.write_text(
            'topologies = ["nullb_mq"]\nschedulers = ["none"]\nworkloads = ["randread_burst"]\n'
            f"[branches.{name}]\n"
            f'source = "{lab.spec(name)}"\nbaseline = "{lab.spec("main")}"\n'
        )
        builder = RunBuilder(session, "gate")
        gating = Gating(gate_config.read(config), session, GateHistory(session.store), builder)
        (branch,) = gate.judge(gating)
        assert not branch.series.error
        return branch.series.verdict, branch.changes, branch.values

    result = equal(
        lab, lambda session: night(session, "evil"), lambda session: night(session, "honest")
    )
    assert result[0] == Verdict.REFUTED


def test_a_step_of_a_bisection(lab: Lab) -> None:
    lab.commit("evil", makefile=HOSTILE)
    lab.commit("middle", main="int main(void) { return 1; }\n")
    lab.commit("bad", start="middle", code=MORE)
    cell = fakes.planned(fakes.cell("nullb_mq", "none", engine=Engine.EXACT, cpus=1))

    def measure(session: Session) -> ByFunction:
        return ByFunction(bisect_measure.CommitTree(lab.tree, session), cell, 0.001)

    def step(session: Session) -> list[float | None]:
        by_function = measure(session)
        by_function.compare("main", "bad")
        return [by_function.value(commit) for commit in ("main", "middle", "bad")]

    good, middle, bad = equal(lab, lambda session: measure(session).value("evil"), step)
    assert good
    assert middle
    assert bad
    assert middle - good == 0.0
    assert bad > 1.5 * good

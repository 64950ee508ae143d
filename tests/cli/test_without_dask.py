# SPDX-License-Identifier: GPL-2.0-or-later
"""Without dask a fleet is refused with the way to install it, and everything else works."""

from __future__ import annotations

import sys

import pytest

from lab.base.errors import ExitCode
from lab.base.process import run
from lab.cli import main, options

BLOCKED = ("dask", "distributed")


@pytest.fixture
def without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make imports of dask fail as if it were not installed."""
    for name in [name for name in sys.modules if name.startswith("lab.fleet.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in BLOCKED:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    "words",
    ["fleet keys folder", "fleet scheduler", "fleet worker", "doctor --fleet tls://127.0.0.1:1"],
)
@pytest.mark.usefixtures("without_dask")
def test_a_fleet_is_refused_with_the_way_to_install_dask(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lab", *words.split()])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == ExitCode.USAGE
    assert capsys.readouterr() == (
        "",
        "lab: a fleet needs dask.distributed, which is not installed\n"
        f"  hint:  {sys.executable} -m pip install 'blocklab[fleet]'\n",
    )


def test_another_module_that_is_missing_is_a_mistake_of_the_lab(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "lab.fleet.identity", raising=False)
    monkeypatch.setitem(sys.modules, "lab.base.system", None)
    with pytest.raises(ModuleNotFoundError, match=r"lab\.base\.system"):
        options.fleet_module("identity")


@pytest.mark.slow
def test_every_other_command_works_without_dask() -> None:
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({BLOCKED}))\n"
        "from lab.cli import main\n"
        "for name in main.COMMANDS: main.command(name)\n"
        "main.main()"
    )
    result = run([sys.executable, "-c", program, "list"], check=False, merge=True)
    assert result.status == ExitCode.DONE
    assert "bfq_burst_merge" in result.output

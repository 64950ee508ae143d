# SPDX-License-Identifier: GPL-2.0-or-later
"""What is installed: a wheel is whole and works on its own, and declares what it needs."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from package_map import MODULES, imports

from lab.base.process import run
from lab.base.system import PROJECT

# Where a wheel has the folders that stand at the top of a checkout.
FOLDERS = {
    "lab": "lab",
    "configs": "lab/_data/configs",
    "workloads": "lab/_data/workloads",
    "kernel-patches": "lab/_data/kernel_patches",
}
SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the project: setuptools leaves files where it builds."""
    top = tmp_path_factory.mktemp("wheel")
    source = top / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / name, source / name, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--no-index", "--wheel-dir", str(top), str(source)], merge=True)
    (made,) = top.glob("*.whl")
    return made


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_folders_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {
        f"{target}/{path.relative_to(PROJECT / folder)}"
        for folder, target in FOLDERS.items()
        for path in (PROJECT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.slow
def test_an_unpacked_wheel_works_far_from_any_checkout(wheel: Path, tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    env = {"PYTHONPATH": str(place), "LAB_RESULTS": "", "XDG_STATE_HOME": str(tmp_path / "state")}
    listed = run([sys.executable, "-m", "lab", "list"], cwd=elsewhere, env=env).output
    ours = run([sys.executable, "-m", "lab", "list"], cwd=PROJECT).output
    assert listed == ours
    assert "bfq_burst_merge" in listed
    assert not (tmp_path / "state").exists()  # nothing was measured
    program = (
        "from lab.inputs import series; print(*series.get('bfq_burst_merge').patches('series'))"
    )
    paths = run([sys.executable, "-c", program], cwd=elsewhere, env=env).output.split()
    assert len(paths) == 2
    assert all(path.startswith(str(place)) and Path(path).exists() for path in paths)


@pytest.mark.slow
def test_all_that_is_imported_is_declared() -> None:
    """A library that only comes along with another one goes when the other needs it no more."""
    pytest.importorskip("distributed", reason="the extra fleet is not installed")
    optional = SETTINGS["optional-dependencies"]
    packages = {path: path.parent.name for path in MODULES}
    fleet = imported([path for path, package in packages.items() if package == "fleet"])
    without_fleet = imported([path for path, package in packages.items() if package != "fleet"])
    assert declared(SETTINGS["dependencies"]) >= without_fleet - {"pytest"}
    assert declared([*SETTINGS["dependencies"], *optional["fleet"]]) >= fleet
    wanted = without_fleet | fleet
    folders = (PROJECT / "tests", PROJECT / "tools")
    developers = [path for folder in folders for path in folder.rglob("*.py")]
    development = imported([*developers, PROJECT / "conftest.py"])
    everything = [*SETTINGS["dependencies"], *optional["dev"], *optional["fleet"]]
    assert declared(everything) >= wanted | development


def test_dask_is_installed_for_a_fleet_only() -> None:
    optional = SETTINGS["optional-dependencies"]
    assert declared(optional["fleet"]) == {"dask", "distributed"}
    assert not declared([*SETTINGS["dependencies"], *optional["dev"]]) & {"dask", "distributed"}


def imported(files: list[Path]) -> set[str]:
    """The distributions that Python files import, by their normal names."""
    known = packages_distributions()
    tops = {name.split(".")[0] for path in files for name in imports(path)}
    project_modules = {"lab", "tools", *(path.stem for path in (PROJECT / "tests").rglob("*.py"))}
    outside = tops - sys.stdlib_module_names - project_modules
    assert outside <= set(known)
    return {normal(known[top][0]) for top in outside}


def declared(requirements: list[str]) -> set[str]:
    """The distributions that requirements name."""
    return {normal(re.split(r"[<>=!~\[; ]", line)[0]) for line in requirements}


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()

# SPDX-License-Identifier: GPL-2.0-or-later
"""Strict TOML: a mistake names its file, line and key; every file of the project loads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import UsageError
from lab.base.system import PROJECT
from lab.base.toml import Model, load, named, names
from lab.commands import validate
from lab.inputs import (
    counters,
    hardware_curve,
    kconfig,
    machine_model,
    profile,
    topology,
    workload,
)


class Part(Model):
    size: int
    colour: str = "red"


class Thing(Model):
    title: str
    weight: int = 1
    part: Part | None = None
    parts: tuple[Part, ...] = ()


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Thing]:
    """A function that loads text as the file thing.toml."""

    def load_text(text: str) -> Thing:
        path = tmp_path / "thing.toml"
        path.write_text(text)
        return load(path, Thing)

    return load_text


Read = Callable[[str], Thing]


def test_a_right_file_becomes_a_frozen_model(read: Read) -> None:
    thing = read('title = "x"\n[[parts]]\nsize = 1\n[[parts]]\nsize = 2\n')
    assert thing.parts == (Part(size=1), Part(size=2))
    with pytest.raises(ValueError, match="frozen"):
        setattr(thing, "title", "y")  # noqa: B010


@pytest.mark.parametrize(
    ("text", "line", "key", "guess"),
    [
        ('title = "x"\n\nwieght = 3\n', 3, "wieght", "'weight'"),
        ('title = "x"\n[part]\nsize = 1\ncolor = "red"\n', 4, "part.color", "'colour'"),
        ('title = "x"\npart = { size = 1, color = "red" }\n', 2, "part.color", "'colour'"),
        ('title = "x"\n[[parts]]\nsize = 1\nsizes = 1\n', 4, "parts.0.sizes", "'size'"),
        ('# tittle\ntitle = "x"\n"tittle" = "y"\n', 3, "tittle", "'title'"),
        # Behind an array of lines.
        ('title = "x"\nparts = [\n{ size = 1 },\n]\nwieght = 3\n', 5, "wieght", "'weight'"),
        # A key that is required: it is told as mistyped, not as missing.
        ('title = "x"\n[part]\nsizes = 1\n', 3, "part.sizes", "'size'"),
    ],
)
def test_an_unknown_key_names_file_line_and_the_nearest_key(
    read: Read, tmp_path: Path, text: str, line: int, key: str, guess: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.what == f"unknown key {key.rpartition('.')[2]!r}"
    assert caught.value.where == f"{tmp_path}/thing.toml:{line}: {key}"
    assert f"did you mean {guess}?" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ('title = "x"\nweight = "3"\n', 2, "weight"),
        ('title = "x"\nweight = 3.5\n', 2, "weight"),
        ('title = "x"\nweight = true\n', 2, "weight"),
        ("weight = 2\ntitle = 3\n", 2, "title"),
        ('title = "x"\n[part]\nsize = "big"\n', 3, "part.size"),
        ('title = "x"\n[[parts]]\nsize = 1\n[[parts]]\nsize = "2"\n', 5, "parts.1.size"),
    ],
)
def test_a_value_of_the_wrong_type_is_never_converted(
    read: Read, tmp_path: Path, text: str, line: int, key: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert key in caught.value.what
    assert caught.value.where == f"{tmp_path}/thing.toml:{line}: {key}"


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("parts = [\n{ size = 1 },\n{ size = 'x' },\n]\n", 4, 1),
        ("parts = [  # some\n\n  # none\n  { size = 1 },  # one\n  { size = 'x' }\n]\n", 6, 1),
        ("parts = [\n{ size = 1 }, { size = 'x' },\n]\n", 3, 1),
        ("parts = [\n{ size = 1 },\n{ size = 1 }, { size = 'x' }]\n", 2, 2),
        ("parts = [{ size = 1 }, { size = 'x' }]\n", 2, 1),
        ('parts = [\n{ size = 1, colour = """\n""" },\n{ size = "x" },\n]\n', 2, 1),
    ],
)
def test_an_item_of_an_array_is_found_on_its_line(
    read: Read, text: str, line: int, wrong: int
) -> None:
    """Where items begin or end in the middle of lines, the array's first line is named."""
    with pytest.raises(UsageError) as caught:
        read(f'title = "x"\n{text}')
    assert caught.value.where.endswith(f"thing.toml:{line}: parts.{wrong}.size")


def test_a_missing_key_is_named(read: Read) -> None:
    with pytest.raises(UsageError, match="'title'"):
        read("weight = 1\n")


def test_a_syntax_error_names_file_and_line(read: Read, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 2") as caught:
        read('title = "x"\nweight = = 1\n')
    assert caught.value.where == f"{tmp_path}/thing.toml"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bytes.toml", r"bytes\.toml is not UTF-8 text"),
        ("large.toml", r"large\.toml is larger than 1 MiB"),
        ("/dev/zero", "/dev/zero is larger than 1 MiB"),
        ("gone.toml", r"gone\.toml: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_the_users_error(
    name: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "bytes.toml").write_bytes(b'title = "\xff"\n')
    (tmp_path / "large.toml").write_text("# \n" * 400_000)
    with pytest.raises(UsageError, match=said):
        load(tmp_path / name, Thing)


def test_a_mistyped_name_gets_the_nearest_one_of_its_kind(tmp_path: Path) -> None:
    for name in ("block.config", "net.config", "blocks.toml"):
        (tmp_path / name).touch()
    with pytest.raises(UsageError) as caught:
        named(tmp_path, "blok", ".config", "fragment")
    assert caught.value.hint == "did you mean 'block'? known: block, net"


@pytest.mark.parametrize("get", [topology.get, workload.get, profile.get, machine_model.get])
def test_a_mistyped_topology_workload_or_profile_lists_those_there_are(
    get: Callable[[str], object],
) -> None:
    with pytest.raises(UsageError, match="is called 'nosuch'") as caught:
        get("nosuch")
    assert "known: " in caught.value.hint


def _scalars(parameters: workload.Workload) -> dict[str, workload.Value]:
    return {
        name: value[0] if isinstance(value, tuple) else value
        for name, value in parameters.parameters.items()
    }


LOADERS: dict[tuple[str, str], Callable[[str], object]] = {
    ("configs/counter", ".toml"): counters.get,
    ("configs/guest", ".toml"): topology.get,
    ("configs/machine", ".toml"): machine_model.get,
    ("configs/profile", ".toml"): profile.get,
    ("configs/kernel", ".config"): lambda name: kconfig.merge([name], (6, 12)),
    ("configs/validation", ".tsv"): validate.hardware,
    ("configs/validation", ".toml"): hardware_curve.get,
    ("workloads", ".toml"): workload.get,
    ("workloads", ".fio.j2"): lambda name: workload.fio_job(name, _scalars(workload.get(name))),
}
# What job files include; not a workload.
SHARED = {"workloads/common.fio.j2"}
FILES = sorted(
    str(path.relative_to(PROJECT))
    for folder in ("configs", "workloads")
    for path in (PROJECT / folder).rglob("*")
    if path.is_file()
)


@pytest.mark.parametrize("file", [name for name in FILES if name not in SHARED])
def test_every_file_of_the_project_loads(file: str) -> None:
    folder, _, name = file.rpartition("/")
    stem, dot, suffix = name.partition(".")
    assert LOADERS[folder, dot + suffix](stem)


@pytest.mark.parametrize("name", names(workload.FOLDER))
def test_every_fio_workload_has_a_job_file(name: str) -> None:
    job = (workload.FOLDER / f"{name}.fio.j2").exists()
    assert job == (workload.get(name).tool == "fio")


@pytest.mark.parametrize("name", names(profile.FOLDER))
def test_a_profile_asks_only_for_what_there_is(name: str) -> None:
    chosen = profile.get(name)
    assert kconfig.merge(chosen.kernel, (6, 12))
    for block in chosen.matrix:
        for wanted in block.topologies:
            topology.get(wanted)
        for wanted in block.workloads:
            workload.get(wanted)
    for wanted, changes in chosen.parameters.items():
        workload.get(wanted).checked(changes, name)

# SPDX-License-Identifier: GPL-2.0-or-later
"""Raw files of boots: equal ones are kept once, and none that a boot has is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base import cache
from lab.base.errors import LabError
from lab.measure.raw_files import RawFiles

contents = st.dictionaries(st.sampled_from("abc"), st.binary(max_size=2), max_size=3)


def left(files: RawFiles, boot: str, content: dict[str, bytes]) -> Path:
    """The folder of a boot with these files, kept."""
    folder = cache.make_folder(files.boot_folder(boot))
    for name, data in content.items():
        (folder / name).write_bytes(data)
    files.keep(folder)
    return folder


@given(st.lists(contents, max_size=4), st.sets(st.integers(0, 3)))
def test_files_are_what_they_were_and_kept_once(
    tmp_path_factory: pytest.TempPathFactory, boots: list[dict[str, bytes]], gone: set[int]
) -> None:
    top = tmp_path_factory.mktemp("results")
    files = RawFiles(top)
    folders = [left(files, str(number), content) for number, content in enumerate(boots)]
    for number in gone & {*range(len(boots))}:
        cache.remove(folders[number])
    files.sweep()
    kept = [content for number, content in enumerate(boots) if number not in gone]
    for folder, content in zip((f for f in folders if f.exists()), kept, strict=True):
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == content
    objects = [path.read_bytes() for path in top.glob("objects/*/*")]
    assert sorted(objects) == sorted(
        {data for content in kept for data in content.values() if data}
    )


def test_what_is_kept_cannot_be_changed(tmp_path: Path) -> None:
    folder = left(RawFiles(tmp_path), "one", {"a": b"x"})
    assert (folder / "a").stat().st_mode & 0o777 == 0o444


def test_links_and_folders_of_a_boot_stay_as_they_are(tmp_path: Path) -> None:
    files = RawFiles(tmp_path)
    folder = cache.make_folder(files.boot_folder("one"))
    (folder / "inside").mkdir()
    (folder / "inside/file").write_text("x")
    (folder / "link").symlink_to("/etc/hostname")
    files.keep(folder)
    assert (folder / "link").is_symlink()
    assert (folder / "inside/file").read_text() == "x"
    assert not (tmp_path / "objects").exists()


@pytest.mark.parametrize("identity", ["../elsewhere", "/elsewhere", "..", ""])
def test_a_boot_has_the_name_of_a_folder(tmp_path: Path, identity: str) -> None:
    """`lab gc` deletes the folders of old boots, and anybody may have written the results."""
    with pytest.raises(LabError, match="no name of a folder"):
        RawFiles(tmp_path).boot_folder(identity)


def test_sweeping_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / "results/objects").mkdir(parents=True)
    (tmp_path / "results/objects/aa").symlink_to(outside)
    RawFiles(tmp_path / "results").sweep()
    assert (outside / "file").exists()

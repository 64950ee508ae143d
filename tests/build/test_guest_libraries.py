# SPDX-License-Identifier: GPL-2.0-or-later
"""The libraries of the guest's programs: those that are never called are skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.build import guest_libraries

MAIN = """
extern int far_call(void), far_plain(void), far_data;
#ifdef DATA
int main(int argc, char **argv) { return argc > 5 ? far_call() : far_data - 7; }
#else
int main(int argc, char **argv) { return argc > 5 ? far_call() : argc > 9 ? far_plain() : 0; }
#endif
"""
FAR = "int far_call(void) { return 1; } int far_plain(void) { return 2; } int far_data = 7;"


def compile(folder: Path, name: str, text: str, *flags: str) -> Path:
    command = ["gcc", "-x", "c", "-", "-x", "none", "-o", str(folder / name), *flags]
    subprocess.run(command, input=text, text=True, check=True)
    return folder / name


def program(folder: Path, *flags: str) -> Path:
    """A program that is linked with a distant library, one of whose functions has a version."""
    versions = folder / "versions"
    versions.write_text("FAR_1 { far_call; };\n")
    link = ["-shared", "-fPIC", f"-Wl,--version-script={versions},-soname,libfar.so.1"]
    far = compile(folder, "libfar.so.1", FAR, *link)
    start = f"-Wl,-z,now,-rpath,{folder}"
    return compile(folder, "program", MAIN, str(far), "-lm", "-Wl,--no-as-needed", start, *flags)


def test_a_library_of_which_nothing_is_called_is_empty(tmp_path: Path) -> None:
    libraries = guest_libraries.called(program(tmp_path))
    assert libraries["libc.so.6"] == guest_libraries.loaded(tmp_path / "program")["libc.so.6"]
    stub = libraries["libfar.so.1"]
    assert stub != tmp_path / "libfar.so.1"
    (tmp_path / "libfar.so.1").unlink()
    (tmp_path / "libfar.so.1").symlink_to(stub)
    run = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    called = subprocess.run([tmp_path / "program", *"12345"], capture_output=True, check=False)
    assert called.returncode < 0


def test_libraries_of_what_is_left_out_are_left_out_too(tmp_path: Path) -> None:
    deep = compile(tmp_path, "libdeep.so", "int deep;", "-shared", "-Wl,-soname,libdeep.so")
    link = ["-Wl,--no-as-needed", str(deep), f"-Wl,-soname,libfar.so.1,-rpath,{tmp_path}"]
    made = program(tmp_path)
    compile(tmp_path, "libfar.so.1", FAR, "-shared", "-fPIC", *link)
    assert "libdeep.so" in guest_libraries.loaded(made)
    assert "libdeep.so" not in guest_libraries.called(made)


def test_a_program_that_needs_more_than_functions_keeps_all(tmp_path: Path) -> None:
    made = program(tmp_path, "-DDATA", "-fno-pie", "-no-pie")
    assert guest_libraries.called(made) == guest_libraries.loaded(made)


def test_without_a_compiler_all_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("readelf", "nm", "ldd", "bash", "sh"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    monkeypatch.setenv("PATH", str(tools))
    assert guest_libraries.called(made) == guest_libraries.loaded(made)

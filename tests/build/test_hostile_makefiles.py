# SPDX-License-Identifier: GPL-2.0-or-later
"""Makefiles that attack: each tries what an unconfined one can do, and says what it managed."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.base import cache, sandbox
from lab.base.errors import BuildError
from lab.base.sandbox import Mode
from lab.build import make, products
from lab.build.kernel import Kernel

MakePatch = Callable[..., Path]
Build = Callable[..., Kernel]
FIRST = '\t@echo "  CC      block/bfq.o"\n'
LAST = '\t@echo "0.1.0$(LOCALVERSION)" > $(O)/include/config/kernel.release\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with a secret; another one is in the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "secret").write_text("s3cret")
    monkeypatch.setenv("LAB_TEST_TOKEN", "t0ken")
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def attacks(home: Path) -> Iterator[dict[str, str]]:
    """Shell commands that succeed when the attack does, by name; two servers run meanwhile."""
    abstract, store = f"lab-test-{os.getpid()}", cache.root()
    perl = "perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0); exit !connect(S, {})'"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        unix.bind(f"\0{abstract}")
        for server in (tcp, unix):
            server.listen()
        yield {
            "read-home": f"cat {home}/secret",
            "write-home": f"echo bad >{home}/canary",
            "read-environment": "env | grep LAB_TEST_TOKEN",
            "read-processes": "cat /proc/[0-9]*/environ | grep -a LAB_TEST_TOKEN",
            "reach-network": f"bash -c 'echo >/dev/tcp/127.0.0.1/{tcp.getsockname()[1]}'",
            "reach-daemon": perl.format(f'pack_sockaddr_un("\\0{abstract}")'),
            "write-source": 'echo "all:" >GNUmakefile',
            "write-index": "echo bad >>../index",
            "write-store": f"mkdir -p {store}/objects.git/hooks &&"
            f" echo bad >{store}/objects.git/hooks/post-checkout",
            "write-kernels": f"echo bad >{store}/kernels/planted",
            "write-compiler-cache": "echo prefix_command=false >$$CCACHE_DIR/ccache.conf",
        }


def managed(make_patch: MakePatch, build: Build, attacks: dict[str, str]) -> set[str]:
    """Which of the attacks succeed in a build."""
    recipe = "".join(
        f"\t@({attack}) >/dev/null 2>&1 && echo did-{name} || true\n"
        for name, attack in attacks.items()
    )
    build(make_patch("attack.patch", "Makefile", (FIRST, recipe + FIRST)))
    logs = (cache.root() / "logs").glob("build-*.log")
    return {name for log in logs for name in re.findall(r"^did-(\S+)", log.read_text(), re.M)}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_a_makefile_tries_fails(
    confined: Mode, home: Path, attacks: dict[str, str], build: Build, make_patch: MakePatch
) -> None:
    first = build()
    objects = objects_of_the_baseline()
    before, before_at_home = contents(objects), contents(home)
    index, image = objects.parents[1] / "index", cache.file_hash(first.vmlinux)
    signature = index.read_bytes()[:12]
    done = managed(make_patch, build, attacks)
    # What bubblewrap shows in the place of other folders can be written to, and is not there after.
    assert {name for name in done if not name.startswith("write-")} == set()
    assert contents(home) == before_at_home
    assert b"bad\n" not in contents(cache.root()).values()
    assert not [*cache.root().rglob("ccache.conf"), *cache.root().rglob("GNUmakefile")]
    assert index.read_bytes().startswith(signature)
    assert contents(objects) == before
    cache.remove(first.folder)
    again = build()
    assert (again.id, cache.file_hash(again.vmlinux)) == (first.id, image)


def test_the_same_attacks_succeed_where_nothing_confines(
    attacks: dict[str, str], build: Build, make_patch: MakePatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sandbox.CHOICE, Mode.NONE)
    build()
    # The environment is clean in every mode; those of the processes around it are not.
    del attacks["write-index"]
    assert managed(make_patch, build, attacks) == attacks.keys() - {"read-environment"}
    assert [*cache.root().rglob("ccache.conf"), *cache.root().rglob("post-checkout")]


def test_a_daemon_ends_with_its_build(
    confined: Mode, build: Build, make_patch: MakePatch, tmp_path: Path
) -> None:
    recipe = "\t@(sleep 8765 </dev/null >/dev/null 2>&1 &) ; (setsid sleep 8765 &) ; true\n"
    build(make_patch("daemon.patch", "Makefile", (FIRST, recipe + FIRST)))
    end = time.monotonic() + 5
    while left := [pid for pid in os.listdir("/proc") if "8765" in arguments(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.05)


def arguments(pid: str) -> list[str]:
    try:
        return Path("/proc", pid, "cmdline").read_text().split("\0")
    except OSError:
        return []


@pytest.mark.parametrize(
    ("attack", "limit", "message"),
    [
        ("sleep 1000", ("DEADLINE_S", 1.0), "did not end within 1 s"),
        ("yes", ("MOST_LOG_BYTES", 1 << 20), "printed more than 1 MiB"),
    ],
)
def test_a_build_without_end_is_the_patchs_doing(
    build: Build,
    make_patch: MakePatch,
    monkeypatch: pytest.MonkeyPatch,
    attack: str,
    limit: tuple[str, float],
    message: str,
) -> None:
    monkeypatch.setattr(make, *limit)
    patch = make_patch("endless.patch", "Makefile", (FIRST, f"\t@{attack}\n{FIRST}"))
    with pytest.raises(BuildError, match=message):
        build(patch)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        ("ln -sf /etc/hostname $(O)/vmlinux", "vmlinux is not a file of its own"),
        ("rm $(O)/vmlinux; mkdir $(O)/vmlinux", "vmlinux is not a file of its own"),
        ("rm $(O)/vmlinux; mkfifo $(O)/vmlinux", "vmlinux is not a file of its own"),
        ("mv $(O)/include $(O)/b; ln -s b $(O)/include", "kernel.release is not a file of its own"),
        ("printf 'evil\\033[2J\\n' > $(O)/System.map", "not a symbol"),
        ("echo '../..' > $(O)/include/config/kernel.release", "not a kernel release"),
        ("rm $(O)/System.map", "the build made no System.map"),
        ("truncate -s 5M $(O)/.config", "too large"),
    ],
)
def test_products_that_are_none_are_the_patchs_doing(
    build: Build, make_patch: MakePatch, attack: str, message: str
) -> None:
    patch = make_patch("product.patch", "Makefile", (LAST, f"{LAST}\t@{attack}\n"))
    with pytest.raises(BuildError, match=re.escape(message)):
        build(patch)
    assert build().vmlinux.is_file()


def objects_of_the_baseline() -> Path:
    (objects,) = cache.root().glob("workbench/*/src/obj-*")
    return objects


def test_a_killed_labs_foreign_objects_are_thrown_away(build: Build) -> None:
    build()
    objects = objects_of_the_baseline()
    before = contents(objects)
    kept = objects.parent.parent / "clean" / objects.name
    kept.parent.mkdir(exist_ok=True)
    objects.rename(kept)
    objects.mkdir()
    (objects / "planted").write_text("bad")
    cache.remove(build().folder)
    build()
    assert not (objects / "planted").exists()
    assert before.keys() <= contents(objects).keys()


def test_symbols_are_looked_at_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text("ffffffff81000000 T _text\nno symbol\n")
    with pytest.raises(BuildError, match="not a symbol") as caught:
        products.check_symbols(tmp_path)
    assert caught.value.where.endswith("System.map:2")

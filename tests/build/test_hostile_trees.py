# SPDX-License-Identifier: GPL-2.0-or-later
"""Source trees that attack: what no patch may contain, and what a branch leaves for others."""

from __future__ import annotations

import difflib
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base import cache, sandbox
from lab.base.errors import BuildError, LabError
from lab.base.process import run
from lab.base.progress import Progress
from lab.base.sandbox import Mode
from lab.build import kernel, make, patching, workbench
from lab.build.kernel import Kernel
from lab.build.source import resolve

FRAGMENTS = ("base", "block")
OBJECTS = f"obj-{cache.key(sorted(FRAGMENTS))}"
LAST = '\t@echo "0.1.0$(LOCALVERSION)" > $(O)/include/config/kernel.release\n'
WHO = ("-c", "user.name=a", "-c", "user.email=a@b")

Branch = Callable[..., str]
Build = Callable[[str], Kernel]
Files = dict[str, str | Path]
Evil = Callable[[str], Files]

pytestmark = pytest.mark.usefixtures("fragments")


@pytest.fixture
def branch(fake_tree: Path) -> Branch:
    """A function that commits changed files of the fake tree to a branch of its own, beginning at
    main, and returns the source; what is to be a link is a pair with its target.
    """

    def git(*words: str) -> None:
        run(["git", "-C", str(fake_tree), *WHO, *words])

    git("init", "-q", "-b", "main")
    git("add", "--all")
    git("commit", "-q", "-m", "main")

    def commit(name: str, files: Files) -> str:
        git("checkout", "-q", "-B", name, "main")
        for file, content in files.items():
            path = fake_tree / file
            if isinstance(content, Path):
                shutil.rmtree(path, ignore_errors=True)
                path.symlink_to(content)
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
        git("add", "--all")
        git("commit", "-q", "--allow-empty", "-m", name)
        git("checkout", "-q", "main")
        return f"git:{fake_tree}@{name}"

    return commit


@pytest.fixture
def build(quiet: Progress) -> Build:
    """A function that builds a source as it is."""
    return lambda spec: kernel.build(patching.patched(resolve(spec, quiet), []), FRAGMENTS, quiet)


@pytest.fixture
def keeping(fake_tree: Path) -> str:
    """A makefile that compiles only what is newer than its object, as the kernel's does."""
    makefile = (fake_tree / "Makefile").read_text()
    compiled = "\t@cp block/bfq.c $(O)/block/bfq.o\n"
    linked = "@cat block/bfq.c init"
    assert compiled in makefile
    assert linked in makefile
    kept = "\t@[ $(O)/block/bfq.o -nt block/bfq.c ] || cp block/bfq.c $(O)/block/bfq.o\n"
    return makefile.replace(compiled, kept).replace(linked, "@cat $(O)/block/bfq.o init")


@pytest.fixture
def evil(fake_tree: Path) -> Evil:
    """A function: the files of a tree whose makefile runs a command at the end of a build."""
    makefile = (fake_tree / "Makefile").read_text()
    return lambda attack: {"Makefile": makefile.replace(LAST, f"{LAST}\t@{attack}\n")}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user's."""
    folder = tmp_path / "home"
    (folder / "deep").mkdir(parents=True)
    folder.chmod(0o755)
    return folder


def built_anew(build: Build, spec: str, monkeypatch: pytest.MonkeyPatch, place: Path) -> Kernel:
    """The kernel of a source in an empty cache."""
    with monkeypatch.context() as patch:
        patch.setenv("LAB_CACHE", str(place))
        built = build(spec)
        (place / "sum").write_text(cache.file_hash(built.vmlinux))
    return built


@pytest.mark.parametrize("up", ["../../..", "../../../../..", "absolute"])
def test_a_link_in_the_place_of_objects_is_refused(
    confined: Mode, branch: Branch, build: Build, victim: Path, tmp_path: Path, up: str
) -> None:
    spec = branch("evil", {OBJECTS: victim if up == "absolute" else Path(up)})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BuildError, match=f"has '{OBJECTS}', where the lab keeps objects"):
        build(spec)
    assert sorted(tmp_path.iterdir()) == sorted({*before, tmp_path / "cache"})
    assert (victim.stat().st_mode & 0o777, os.listdir(victim)) == (0o755, ["deep"])


def test_the_link_leads_a_build_out_where_nobody_refuses_it(
    confined: Mode, branch: Branch, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No name in lower case begins like this.
    monkeypatch.setattr(workbench, "_OBJECTS", "Obj-")
    monkeypatch.setattr(sandbox, "_refuse_links", lambda view: None)
    build(branch("evil", {OBJECTS.replace("obj", "Obj"): Path("../../../..")}))
    assert (tmp_path / "vmlinux").exists()


@pytest.mark.parametrize("name", [OBJECTS, "obj-0", "OBJ-0"])
def test_a_folder_in_the_place_of_objects_is_refused(
    branch: Branch, build: Build, name: str
) -> None:
    with pytest.raises(BuildError, match="where the lab keeps objects"):
        build(branch("evil", {f"{name}/vmlinux": "bad"}))
    assert build(branch("honest", {})).vmlinux.exists()


def test_a_patch_puts_nothing_in_the_place_of_objects(
    fake_tarball: Path, tmp_path: Path, quiet: Progress
) -> None:
    plain = resolve(f"tar:{fake_tarball}", quiet)
    patch = tmp_path / "evil.patch"
    patch.write_text(f"--- /dev/null\n+++ b/{OBJECTS}/vmlinux\n@@ -0,0 +1 @@\n+bad\n")
    with pytest.raises(BuildError, match="where the lab keeps objects"):
        kernel.build(patching.patched(plain, [patch]), FRAGMENTS, quiet)


BACKDOOR = "echo backdoor >> $(O)/block/bfq.o; echo bad > $$CCACHE_DIR/planted; true"


def backdoored(makefile: str) -> Files:
    """A makefile that leaves a back door in its objects."""
    return {"Makefile": makefile.replace(LAST, f"{LAST}\t@{BACKDOOR}\n")}


def test_an_honest_branch_is_not_changed_by_a_hostile_one(
    confined: Mode,
    branch: Branch,
    build: Build,
    keeping: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build(branch("base", {"Makefile": keeping}))
    build(branch("evil", backdoored(keeping)))
    spec = branch("honest", {"Makefile": keeping, "init/main.c": "int x;\n"})
    built = build(spec)
    clean = built_anew(build, spec, monkeypatch, tmp_path / "other-cache")
    assert built.id == clean.id
    assert cache.file_hash(built.vmlinux) == (tmp_path / "other-cache/sum").read_text()
    assert "backdoor" not in built.vmlinux.read_text()
    assert not [*cache.root().rglob("planted")]


LEFT = {
    "a link": "mkdir $(O)/tools; ln -s {victim}/user.cmd $(O)/tools/.a.cmd",
    "a link to a folder": "ln -s {victim} $(O)/tools",
    "a pipe": "mkdir $(O)/tools; mkfifo $(O)/tools/.a.cmd",
}


@pytest.mark.parametrize("left", LEFT)
def test_another_configuration_follows_nothing_that_a_build_left(
    confined: Mode,
    branch: Branch,
    build: Build,
    evil: Evil,
    victim: Path,
    quiet: Progress,
    left: str,
) -> None:
    """It begins with a copy of these objects, in which the lab renames their folder."""
    (victim / "user.cmd").write_text(f"{OBJECTS}\n")
    spec = branch("evil", evil(LEFT[left].format(victim=victim)))
    build(spec)
    kernel.build(patching.patched(resolve(spec, quiet), []), ("base",), quiet)
    assert len([*cache.root().glob("workbench/*/src/obj-*/vmlinux")]) == 2
    assert (victim / "user.cmd").read_text() == f"{OBJECTS}\n"


def test_an_honest_commit_is_compiled_whatever_time_its_object_has(
    confined: Mode,
    branch: Branch,
    build: Build,
    keeping: str,
    tmp_path: Path,
    quiet: Progress,
) -> None:
    """Landlock lets a foreign patch change the times of the objects that its copy stands for: that
    of an old source is then newer than the new source, which the patch has, too.
    """
    build(branch("base", {"Makefile": keeping}))
    honest = branch("honest", {"Makefile": keeping, "block/bfq.c": "int honest;\n"})
    touched = f"$(O)/../../clean/{OBJECTS}/block/bfq.o"
    patch = tmp_path / "evil.patch"
    evil = keeping.replace(LAST, f"{LAST}\t@touch {touched} 2>/dev/null || true\n")
    before, after = keeping.splitlines(keepends=True), evil.splitlines(keepends=True)
    lines = difflib.unified_diff(before, after, "a/Makefile", "b/Makefile")
    patch.write_text("".join(lines))
    kernel.build(patching.patched(resolve(honest, quiet), [patch]), FRAGMENTS, quiet)
    assert "int honest;" in build(honest).vmlinux.read_text()


@pytest.mark.parametrize("kind", ["mkfifo", "ln -s /dev/zero", "mkdir", "cp Makefile"])
def test_objects_that_are_none_are_the_sources_doing(
    confined: Mode, branch: Branch, build: Build, evil: Evil, kind: str
) -> None:
    """What counts as the block layer is read from them."""
    spec = branch("evil", evil(f"mkdir -p $(O)/fs; rm -rf $(O)/fs/aio.o; {kind} $(O)/fs/aio.o"))
    with pytest.raises(BuildError, match=r"is not a file of its own|nm cannot read"):
        build(spec)


def test_a_commit_that_reverts_a_hostile_one_is_honest(
    branch: Branch, build: Build, keeping: str
) -> None:
    build(branch("evil", backdoored(keeping)))
    reverted = build(branch("evil", {"Makefile": keeping}))
    assert "backdoor" not in reverted.vmlinux.read_text()


def test_the_backdoor_stays_where_objects_are_shared(
    branch: Branch, build: Build, keeping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench, "_programs", lambda tree: "always the same")
    build(branch("evil", backdoored(keeping)))
    built = build(branch("honest", {"Makefile": keeping, "init/main.c": "int x;\n"}))
    assert "backdoor" in built.vmlinux.read_text()
    assert [*cache.root().rglob("planted")]


def kept() -> Path:
    (objects,) = cache.root().glob("workbench/*/src/obj-*")
    return objects / "kept"


@pytest.mark.parametrize(
    ("file", "content", "shared"),
    [
        ("block/bfq.c", "\n", True),
        ("block/new.c", "\n", True),
        ("lib/sbitmap.c", "\n", True),
        ("lib/gen_crc32table.c", "\n", False),
        ("init/main.c", "\n", False),  # anything that may be a program of the host
        ("scripts/run.sh", "\n", False),
        ("mm/Kconfig", "\n", False),
        ("block/Makefile", "\n", False),
        ("block/script.sh", "\n", False),
        ("block/$(x).c", "\n", False),
        ("Kbuild", "\n", False),
        ("block/new.c", Path("../scripts/run.sh"), False),
    ],
)
def test_objects_serve_commits_that_differ_in_the_kernels_own_code(
    branch: Branch, build: Build, file: str, content: str | Path, shared: bool
) -> None:
    build(branch("first", {}))
    kept().touch()
    build(branch("second", {file: content}))
    assert kept().exists() is shared


def test_objects_of_an_earlier_lab_serve_nobody(branch: Branch, build: Build) -> None:
    build(branch("first", {}))
    kept().touch()
    (mark,) = cache.root().glob("workbench/*/programs")
    mark.unlink()
    build(branch("second", {"block/bfq.c": "\n"}))
    assert not kept().exists()


def test_a_folder_that_was_a_link_leads_no_file_out(
    confined: Mode, branch: Branch, build: Build, victim: Path
) -> None:
    (victim / "Kconfig").write_text("config SMP\n\tbool\nconfig SECRET\n\tbool\n")
    with pytest.raises(LabError):
        build(branch("evil", {"block": victim}))
    build(branch("honest", {}))
    assert sorted(os.listdir(victim)) == ["Kconfig", "deep"]


def test_a_source_reads_nothing_through_its_links(
    confined: Mode, branch: Branch, build: Build, evil: Evil, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s3cret")
    files = evil("cat init/secret >> $(O)/vmlinux; true")
    built = build(branch("evil", {**files, "init/secret": tmp_path / "secret"}))
    assert "s3cret" not in built.vmlinux.read_text()


def test_what_a_build_left_is_deleted_and_no_link_followed(tmp_path: Path, victim: Path) -> None:
    left = tmp_path / "left"
    (left / "a/b/c").mkdir(parents=True)
    (left / "a/link").symlink_to(victim)
    for folder in (left / "a/b/c", left / "a/b", left / "a"):
        folder.chmod(0)
    make.delete(left)
    assert not left.exists()
    left.symlink_to(victim)
    make.delete(left)
    assert not os.path.lexists(left)
    assert (victim / "deep").exists()
    assert victim.stat().st_mode & 0o777 == 0o755


def test_a_tar_with_gits_own_files_is_refused(
    fake_tree: Path, tmp_path: Path, build: Build
) -> None:
    tarball = tmp_path / "evil.tar"
    (fake_tree / "hook").write_text("bad")
    with tarfile.open(tarball, "w") as tar:
        tar.add(fake_tree, "linux")
        tar.add(fake_tree / "hook", "linux/block/.git/config")
    with pytest.raises(LabError):
        build(f"tar:{tarball}")


def test_two_tars_of_one_name_share_nothing(
    fake_tree: Path, tmp_path: Path, build: Build, evil: Evil
) -> None:
    def packed(folder: str) -> str:
        (tmp_path / folder).mkdir()
        with tarfile.open(tmp_path / folder / "linux.tar", "w") as tar:
            tar.add(fake_tree, "linux")
        return f"tar:{tmp_path / folder / 'linux.tar'}"

    build(packed("honest"))
    (fake_tree / "Makefile").write_text(str(evil("true")["Makefile"]))
    build(packed("evil"))
    assert len(list(cache.root().glob("workbench/*/src/obj-*"))) == 2

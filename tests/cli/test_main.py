# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: every mistake gets one clear message and the promised exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from lab import __version__
from lab.base import toml
from lab.base.errors import BuildError
from lab.base.process import run
from lab.cli import main
from lab.cli.verb import Verb
from lab.inputs import profile, topology, workload
from lab.measure.session import Session

COMMANDS = sorted(main.COMMANDS)
Lab = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake must be found before anything is downloaded or built."""
    fail_later(monkeypatch, AssertionError("the mistake was not noticed"))


def fail_later(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have every build of a kernel fail."""

    def kernel(*args: object) -> None:
        raise error

    monkeypatch.setattr(Session, "kernel", kernel)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lab:
    """The lab command, called in this process: exit status, standard output and standard error."""

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lab", *args])
        with pytest.raises(SystemExit) as caught:
            main.main()
        assert isinstance(caught.value.code, int)
        printed = capsys.readouterr()
        assert "a mistake of the lab's own: AssertionError" not in printed.err
        return caught.value.code, printed.out, printed.err

    return call


@pytest.mark.parametrize(
    ("args", "named", "nearest"),
    [
        (["matrix", "--scheduler", "bqf"], "bqf", "bfq"),
        (["matrix", "--topology", "nvme_qm"], "nvme_qm", "nvme_mq"),
        (["matrix", "--workload", "dbench_xsf"], "dbench_xsf", "dbench_xfs"),
        (["matrix", "--profile", "qick"], "qick", "quick"),
        (["build", "--profile", "standart"], "standart", "standard"),
        (["matrix", "--shceduler", "bfq"], "--shceduler", "--scheduler"),
        (["matrix", "--engine", "icuont"], "icuont", "exact"),
        (["matrix", "--set", "second=3"], "second", "seconds"),
        (["matrix", "--workload", "dbench_xfs", "--set", "client=3"], "client", "clients"),
        (["diff", "--scheduler", "bqf", "--scheduler", "none"], "bqf", "bfq"),
        (
            ["diff", "--scheduler", "none", "--scheduler", "bfq", "--topology", "nb"],
            "nb",
            "nullb_mq",
        ),
        (["build", "--patch", "/no/such.patch"], "/no/such.patch", "--patch"),
        (["runn"], "runn", "run"),
    ],
    ids=lambda value: " ".join(value).replace("_", "-") if isinstance(value, list) else "",
)
def test_a_mistake_names_itself_and_what_was_meant(
    lab: Lab, args: list[str], named: str, nearest: str
) -> None:
    status, out, err = lab(*args)
    assert status == 2
    assert named in err
    assert re.search(rf"(?<![\w-]){re.escape(nearest)}(?![\w-])", err)
    assert out == ""
    assert len(err.strip().splitlines()) <= 5


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--workload randread_burst --set seconds", "seconds"),
        ("--workload randread_burst --set =3", "=3"),
        ("--workload randread_burst --set seconds=", "seconds"),
        ("--workload randread_burst --set seconds=1,,2", "seconds"),
        ("--workload randread_burst --set seconds=soon", "seconds"),
        ("--workload randread_burst --set numjobs=many", "numjobs"),
        ("--topology megasas --workload dbench_xfs", "no cell"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(lab: Lab, line: str, said: str) -> None:
    status, out, err = lab("matrix", *line.split())
    assert (status, out) == (2, "")
    assert said in err


def test_everything_that_can_be_named_is_listed(lab: Lab) -> None:
    status, out, _ = lab("list")
    assert status == 0
    for folder in (topology.FOLDER, workload.FOLDER, profile.FOLDER):
        names = toml.names(folder)
        assert names
        assert all(f"  {name} " in out for name in names)
    assert "  filesystems\n" in out
    assert topology.get("raid64").title in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example_and_its_options(
    lab: Lab, command: str
) -> None:
    status, out, _ = lab(command, "--help")
    assert status == 0
    click_command = main.command(command)
    assert isinstance(click_command, Verb)
    assert out.splitlines()[:2] == ["Example:", f"  {click_command.example}"]
    assert click_command.example.startswith(f"lab {command}")
    assert click_command.help
    assert click_command.help.split("\n")[0] in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    options = [option for option in click_command.params if isinstance(option, click.Option)]
    undocumented = [option.name for option in options if not option.help]
    assert undocumented == []


def test_the_lab_explains_its_commands_and_exit_codes(lab: Lab) -> None:
    status, out, _ = lab("--help")
    assert status == 0
    assert all(f"  {command} " in out for command in COMMANDS)
    assert "Exit codes" in out
    assert lab("-h")[:2] == (status, out)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_they_say_themselves(name: str) -> None:
    command = main.command(name)
    assert command.name == name
    assert not command.hidden
    text = main.COMMANDS[name][1].rstrip(". ")
    assert " ".join((command.help or "").split()).startswith(text)


def test_every_command_is_in_the_table() -> None:
    """A command that is written but not in the table could not be called."""
    defined = [
        value
        for path in Path(main.__file__).parent.glob("*.py")
        for value in vars(import_module(f"lab.cli.{path.stem}")).values()
        if isinstance(value, click.Command) and value is not main.lab
    ]
    parts = [
        p
        for command in defined
        if isinstance(command, click.Group)
        for p in command.commands.values()
    ]
    assert {command.name for command in defined if command not in parts} == set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "typed"), [(["--help"], ""), ([], "lab ru")], ids=["help", "completion"]
)
def test_help_and_completion_import_nothing_that_takes_long(words: list[str], typed: str) -> None:
    program = (
        "import sys\nfrom lab.cli.main import main\ntry:\n    main()\n"
        "finally:\n    print(*{name.split('.')[0] for name in sys.modules})"
    )
    completion = {"_LAB_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **completion} if typed else None,
        capture_output=True,
        text=True,
        check=True,
    )
    *printed, modules = done.stdout.splitlines()
    assert printed == ["plain,run"] if typed else "Usage: lab" in printed[0]
    assert not {"scipy", "numpy", "pydantic", "jinja2", "rich"} & set(modules.split())


def test_the_version_is_the_packages(lab: Lab) -> None:
    assert __version__ in lab("--version")[1]


def test_verbose_shows_the_commands_that_are_run(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_VERBOSE", "")  # so that it is as before after this test
    monkeypatch.setattr(Session, "kernel", lambda *args: run(["false"]))
    status, _, err = lab("build")
    assert (status, "+ false" in err) == (3, False)
    status, _, err = lab("-v", "build")
    assert (status, err.splitlines()[0]) == (3, "+ false")


def test_a_command_is_asked_for_when_there_is_none(lab: Lab) -> None:
    status, out, err = lab()
    assert status == 2
    assert "Usage: lab" in out + err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (BuildError("0001-x.patch does not apply", where="here"), 3, "0001-x.patch does not apply"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "Permission denied", "/x"), 3, "lab: Permission denied: /x"),
        (KeyError("x"), 3, "lab: a mistake of the lab's own: KeyError: 'x'"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_what_goes_wrong_later_has_the_promised_exit_code(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, said: str
) -> None:
    fail_later(monkeypatch, error)
    exit_status, out, err = lab("build")
    assert (exit_status, out) == (status, "")
    assert said in err


def test_what_nobody_expected_is_written_down(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_later(monkeypatch, ValueError("never thought of"))
    _, _, err = lab("build")
    (crash,) = (tmp_path / "cache/logs").iterdir()
    assert str(crash) in err
    assert "Traceback" not in err
    assert "never thought of" in crash.read_text()
    assert "test_main.py" in crash.read_text()


@pytest.mark.parametrize(
    "args",
    [
        ["bisect", "--here", "--nonsense"],
        ["bisect", "a", "b", "--cell", "nullb_mq/none/randread_burst", "--here"],
        ["bisect", "a", "b", "--here"],
    ],
)
def test_a_step_of_git_bisect_that_is_no_answer_stops_it(
    lab: Lab, args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git takes 1 to 127 but 125 for a bad commit (git-bisect(1))."""
    monkeypatch.chdir(tmp_path)
    status, _, err = lab(*args)
    assert status >= 128
    assert err


@pytest.mark.slow
def test_output_that_nobody_reads_is_no_verdict() -> None:
    argv = [sys.executable, "-m", "lab", "schema", "run"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


# What strangers type, in a folder with the files of the fixture strange.
WRONG = [
    "try unknown-charset.mbox --claims binary",
    "try binary",
    "try empty",
    "try text",
    "try nowhere",
    "try folder",
    "try git:folder@a..b",
    "try git:nowhere@a",
    "try half.mbox",
    "try good.patch --claims binary",
    "try good.patch --claims empty",
    "try good.patch --claims nowhere",
    "try good.patch --claims text",
    "run bfq_burst_merg",
    "run ./folder/",
    "run folder",
    "run text",
    "run bfq_burst_merge --claim nonsuch",
    "run --profile fast",
    "run --profile ../guest/nullb",
    "run --control foo",
    "matrix --set seconds=-5",
    "matrix --set seconds=nan",
    "matrix --set seconds=inf",
    "matrix --set seconds=1e99",
    "matrix --set numjobs=0",
    "matrix --set numjobs=-1",
    "matrix --set numjobs=99999999",
    "matrix --cpus 200",
    "matrix --cpus -1",
    "matrix --machine xeon61",
    "matrix --engine exact --machine xeon16",
    "matrix --engine xen",
    "matrix --workload dbench_xfs --topology nullb_mq",
    "matrix --patch nowhere",
    "diff",
    "diff --scheduler none",
    "diff --scheduler none --scheduler none",
    "diff --scheduler none --scheduler bfq --workload dbench_xfs",
    "diff --rows -3 --scheduler none --scheduler bfq",
    "diff --engine tcg --scheduler none --scheduler bfq",
    "scaling nonsuch",
    "scaling --cpus a",
    "scaling --cpus 0",
    "scaling --cpus ²",
    f"scaling --cpus {'9' * 5000}",
    "scaling --cpus 1,99",
    "scaling --machine nonsuch",
    "scaling --workload dbench_xfs",
    "bisect a b",
    "bisect a b --cell x",
    "bisect a b --cell nullb_mq/none/nonsuch",
    "bisect a b --cell nullb_mq/none/randread_burst",
    "bisect a b --cell nullb_mq/none/randread_burst --threshold -1",
    "bisect a b --claim nonsuch/x",
    "bisect a b --repo nowhere --claim bfq_burst_merge/x",
    "gate nowhere",
    "gate binary",
    "gate empty",
    "gate text",
    "show last~99",
    "show nonsuch",
    "show ../../etc",
    "compare nonsuch nonsuch",
    "report nonsuch",
    "report last --format nonsense",
    "report last --format csv --cell x",
    "check-series nonsuch",
    "gc --days -1",
    "schema nonsuch",
    "completion nonsuch",
    "frobnicate",
    "--verison",
]


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "strange"
    (folder / "folder").mkdir(parents=True)
    (folder / "binary").write_bytes(bytes(range(256)) * 9)
    (folder / "empty").touch()
    (folder / "text").write_text("hello\n")
    mail = "From x Mon Sep 17 00:00:00 2001\nFrom: a@b.c\nSubject: {}\n{}\n\nhi\n---\n{}"
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    plain = "Content-Type: text/plain"
    unknown = f"{plain}; charset=klingon"
    for name, text in {
        "unknown-charset.mbox": mail.format("[PATCH] =?klingon?q?x?=", unknown, diff),
        "half.mbox": mail.format("[PATCH 2/2] x", plain, diff),
        "good.patch": mail.format("[PATCH] x", plain, diff),
    }.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("line", WRONG)
def test_what_strangers_type_is_one_message_and_writes_nothing(
    lab: Lab, strange: Path, line: str
) -> None:
    before = sorted(strange.rglob("*"))
    status, out, err = lab(*line.split())
    assert status == 2
    assert err
    assert "Traceback" not in err
    assert "mistake of the lab's own" not in err
    assert out == ""
    assert sorted(strange.rglob("*")) == before
    assert not (strange.parent / "results").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "status"), [(["list"], 0), (["matrix", "--scheduler", "bqf"], 2), (["--nonsense"], 2)]
)
def test_the_installed_command_shows_no_traceback(args: list[str], status: int) -> None:
    command = Path(sys.executable).with_name("lab")
    argv = [str(command)] if command.exists() else [sys.executable, "-m", "lab"]
    done = subprocess.run([*argv, *args], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status
    assert "Traceback" not in done.stdout + done.stderr
    assert bool(done.stdout) == (status == 0)
    assert bool(done.stderr) == (status != 0)


# Any text may be a name or a value of these; what is wrong with it is told elsewhere.
ANYTHING = click.types.StringParamType


def of_options() -> Iterator[str]:
    """Every option of every command with what it does not take, and what no command has."""
    for name in main.COMMANDS:
        command = main.command(name)
        yield from (f"{name} --nonsense", f"{name} -Z", f"{name} --help=maybe")
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.is_flag:
                yield f"{name} {parameter.opts[0]}=yes"
            elif isinstance(parameter, click.Option):
                yield f"{name} {parameter.opts[0]}"
                if not isinstance(parameter.type, ANYTHING):
                    yield f"{name} {parameter.opts[0]} no$uch"


@pytest.mark.slow
@pytest.mark.parametrize("line", [*of_options()])
def test_no_option_takes_nonsense(lab: Lab, strange: Path, line: str) -> None:
    test_what_strangers_type_is_one_message_and_writes_nothing(lab, strange, line)


ENVIRONMENTS = {
    "a cache that is a file": {"LAB_CACHE": "text"},
    "a cache that cannot be": {"LAB_CACHE": "/proc/nowhere"},
    "results that are a file": {"LAB_RESULTS": "text"},
    "results that cannot be": {"LAB_RESULTS": "/proc/nowhere"},
    "no home": {"HOME": "/nonexistent", "LAB_CACHE": ""},
    "no programs": {"PATH": ""},
    "no folder for temporary files": {"TMPDIR": "/nonexistent"},
    "no words": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    "a locale that is none": {"LC_ALL": "klingon"},
    "a narrow terminal": {"COLUMNS": "1", "LINES": "0"},
    "a width that is none": {"COLUMNS": "wide"},
    "a terminal that is none": {"TERM": "nonsense"},
    "the git of a hook": {"GIT_DIR": "text", "GIT_INDEX_FILE": "text", "GIT_WORK_TREE": "/"},
    "foreign compiler flags": {"CFLAGS": "-O9", "MAKEFLAGS": "-n", "CC": "false"},
    "a verbosity that is none": {"LAB_VERBOSE": "maybe"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize(
    "line", ["list", "show last", "run --dry-run", "doctor --help", "gc --dry-run", "compare"]
)
def test_no_environment_makes_a_traceback(strange: Path, name: str, line: str) -> None:
    """In a process of its own; whatever the answer is, it is an answer."""
    environment = {**os.environ, **ENVIRONMENTS[name]}
    before = sorted(strange.rglob("*"))
    argv = [sys.executable, "-m", "lab", *line.split()]
    done = subprocess.run(
        argv, capture_output=True, check=False, timeout=600, env=environment, cwd=strange
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert "Traceback" not in said
    assert "mistake of the lab's own" not in said
    assert done.returncode in (0, 2, 3)
    assert said
    assert sorted(strange.rglob("*")) == before

# SPDX-License-Identifier: GPL-2.0-or-later
"""What is set up to count in a guest, and what is read out of what the guest's kernel says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import GuestError, UsageError
from lab.inputs import counters
from lab.inputs.counters import Probes

DATA = Path(__file__).parents[1] / "data"
# By counter: what its file says. The recorded samples were counted with these.
OWN = {
    "requests": "event = 'block/block_rq_issue'\nfilter = 'dev == {dev}'",
    "mean_batch": "event = 'block/block_rq_issue'\nfilter = 'dev == {dev}'\nper = 'lists'",
    "lists": "event = 'p:blk_mq_dispatch_rq_list'",
    "issues": "event = 'block/block_rq_issue'\nkey = 'dev'",
    "empty": "event = 'r:bfq_dispatch_request rq=$retval'\nfilter = 'rq == 0'\nper = 'requests'",
    "switches": "event = 'sched/sched_switch'\nkey = 'next_comm'\nfilter = 'next_pid != 0'\n"
    "per = 'requests'",
    "kworkers": "event = 'sched/sched_switch'\nkey = 'next_comm'\nfilter = 'next_pid != 0'\n"
    "match = 'kworker'",
    "hctx_runs": "event = 'workqueue/workqueue_execute_start'\nkey = 'function.sym'\n"
    "match = 'blk_mq_run_work_fn'\nper = 'requests'",
    "hctxs_run": "event = 'workqueue/workqueue_execute_start'\nkey = 'work,function.sym'\n"
    "match = 'blk_mq_run_work_fn'\ntake = 'distinct'",
    "locks": "locks = ['&dd->lock', '&bfqd->lock']\nper = 'requests'",
    "inversions": "chosen = ['r:__dd_dispatch_request rq=$retval', 'p:bfq_remove_request rq=$arg2']"
    "\nissued = 'p:blk_mq_start_request rq=$arg1'\nper = 'requests'",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The counters of OWN, in the place of the project's."""
    monkeypatch.setattr(counters, "FOLDER", tmp_path)
    for name, keys in OWN.items():
        define(tmp_path, name, keys)
    return tmp_path


def define(folder: Path, name: str, keys: str) -> None:
    (folder / f"{name}.toml").write_text(f"title = 't'\nunit = 'u'\n{keys}\n")


def names(set_up: Probes, line: str) -> list[str]:
    """The histograms that are set up by lines that begin so."""
    return re.findall(rf"(?m)^hist {re.escape(line)}.*?hist:name=(\w+)", set_up.text)


def block(name: str, hits: Mapping[str, int], dropped: int = 0) -> str:
    """A histogram as a file hist shows it."""
    entries = "".join(f"{{ {key} }} hitcount: {count:10}\n" for key, count in hits.items())
    return (
        f"# event histogram\n#\n# trigger info: hist:name={name}:keys=a:vals=hitcount [active]\n#\n"
        f"\n{entries}\nTotals:\n    Hits: {sum(hits.values())}\n    Entries: {len(hits)}\n"
        f"    Dropped: {dropped}\n\n\n"
    )


def counted(set_up: Probes, **requests: int) -> str:
    """The histogram of requests."""
    (name,) = names(set_up, "block/block_rq_issue")
    return block(name, requests)


def trace(*events: str, buffered: int = 0, written: int = 0) -> str:
    """A trace with requests chosen (c) and issued (i): ``c1 c2 i2 i1``."""
    lines = [f"# entries-in-buffer/entries-written: {buffered}/{written}   #P:2\n#\n"]
    for number, event in enumerate(events):
        if event[0] == "c":
            what = "chosen0: (dd_dispatch_request+0x16a/0x260 <- __dd_dispatch_request)"
        else:
            what = "issued: (blk_mq_start_request+0x0/0x1a0)"
        lines.append(f"   fio-92  [001] .....  {number}: {what} rq=0xffff88800d2c{event[1:]:0>4}\n")
    return "".join(lines)


def test_the_lines_that_the_agent_gets() -> None:
    set_up = counters.probes(["empty", "inversions", "locks"])
    (empty,) = names(set_up, "lab/")
    (requests,) = names(set_up, "block/")
    assert sorted(set_up.text.splitlines()) == sorted(
        [
            f"kprobe r:lab/{empty} bfq_dispatch_request rq=$retval",
            f"hist lab/{empty} hist:name={empty}:keys=common_pid:size=4096 if rq == 0",
            "kprobe r:lab/chosen0 __dd_dispatch_request rq=$retval",
            "trace lab/chosen0",
            "kprobe p:lab/chosen1 bfq_remove_request rq=$arg2",
            "trace lab/chosen1",
            "kprobe p:lab/issued blk_mq_start_request rq=$arg1",
            "trace lab/issued",
            "locks",
            "hist block/block_rq_issue "
            f"hist:name={requests}:keys=common_pid:size=4096 if dev == {{dev}}",
        ]
    )


def test_a_probe_is_defined_before_it_is_used() -> None:
    lines = counters.probes(list(OWN)).text.splitlines()
    for number, line in enumerate(lines):
        if found := re.match(r"(?:hist|trace) lab/(\w+)", line):
            assert any(f":lab/{found[1]} " in earlier for earlier in lines[:number])


def test_requests_are_always_counted() -> None:
    assert counters.probes(["locks"]).counters.keys() == {"locks", "requests"}
    assert counters.probes(["mean_batch"]).counters.keys() == {"mean_batch", "lists", "requests"}


def test_counters_of_the_same_share_a_histogram() -> None:
    set_up = counters.probes(["switches", "kworkers", "mean_batch"])
    (shared,) = names(set_up, "sched/")
    (lists,) = names(set_up, "lab/")
    hits = {"next_comm: fio   ": 30, "next_comm: kworker/0:1 ": 7, "next_comm: kworker/u9:0 ": 3}
    sent = block(lists, {"common_pid: 1": 5}) + block(shared, hits) + counted(set_up, pid=20)
    assert counters.values(set_up, {"hist": sent}) == {
        "requests": 20,
        "switches": 40 / 20,
        "kworkers": 10,
        "lists": 5,
        "mean_batch": 20 / 5,
    }


def test_a_histogram_may_count_hits_or_distinct_keys() -> None:
    set_up = counters.probes(["hctxs_run", "hctx_runs"])
    sent = {"hist": (DATA / "counters-raid64-hist").read_text()}
    found = counters.values(set_up, sent)
    assert found == {"requests": 8830, "hctxs_run": 8, "hctx_runs": 1762 / 8830}


def test_recorded_histograms_of_two_disks() -> None:
    set_up = counters.probes(["issues", "switches", "kworkers", "hctx_runs"])
    found = counters.values(set_up, {"hist": (DATA / "counters-dm-hist").read_text()})
    assert found == {
        "issues": 22000,
        "requests": 11000,
        "switches": 467 / 11000,
        "kworkers": 1 + 3 + 11,
        "hctx_runs": 0,
    }


def test_a_histogram_without_entries_is_a_count_of_none() -> None:
    set_up = counters.probes(["lists"])
    (lists,) = names(set_up, "lab/")
    sent = block(lists, {}) + counted(set_up, pid=3)
    assert counters.values(set_up, {"hist": sent}) == {"lists": 0, "requests": 3}


def test_a_histogram_that_lost_events_is_no_result() -> None:
    set_up = counters.probes(["lists"])
    (lists,) = names(set_up, "lab/")
    sent = counted(set_up, pid=3) + block(lists, {"common_pid: 1": 5}, dropped=2)
    with pytest.raises(GuestError, match=f"{lists} lost 2 events"):
        counters.values(set_up, {"hist": sent})


def test_a_missing_histogram_names_its_counter() -> None:
    set_up = counters.probes(["lists"])
    with pytest.raises(GuestError, match="no histogram for the counter lists") as caught:
        counters.values(set_up, {"hist": counted(set_up, pid=3)})
    assert caught.value.outcome == "garbled"


@pytest.mark.parametrize("missing", ["locks", "inversions", "requests"])
def test_a_guest_that_sent_nothing_counted_nothing(missing: str) -> None:
    set_up = counters.probes([missing])
    sent = {} if missing == "requests" else {"hist": counted(set_up, pid=3)}
    with pytest.raises(GuestError):
        counters.values(set_up, sent)


def test_nothing_is_divided_by_zero() -> None:
    set_up = counters.probes(["empty"])
    (empty,) = names(set_up, "lab/")
    with pytest.raises(GuestError, match="empty: no requests were counted"):
        counters.values(set_up, {"hist": block(empty, {}) + counted(set_up)})


@pytest.mark.parametrize("missing", ["&bfqd->lock", "dd->lock", "&base->lock"])
def test_a_lock_that_nobody_took_was_not_counted(folder: Path, missing: str) -> None:
    define(folder, "locks", f"locks = [{missing!r}]")
    set_up = counters.probes(["locks"])
    text = (DATA / "counters-deadline-lock_stat").read_text()
    with pytest.raises(GuestError, match=f"no lock of the classes {missing} was ever") as caught:
        counters.values(set_up, {"hist": counted(set_up, pid=1), "lock_stat": text})
    assert caught.value.outcome == "garbled"
    assert "&dd->lock 23,735" in caught.value.what


@pytest.mark.parametrize(
    ("classes", "count"),
    [
        (["&dd->lock"], 23735),
        (["&mm->mmap_lock"], 1207 + 5040),
        (["&mm->mmap_lock/1"], 9),
        (["&base->lock/1"], 769),
        (["&base->lock", "&dd->lock"], 23735),
        (["mm/vmstat.c:2079"], 6),
        (["(wq_completion)mm_percpu_wq"], 13),
        (["&dd->lock", "mm/vmstat.c:2079", "&dd->lock"], 23741),
    ],
)
def test_acquisitions_are_those_of_the_named_classes(
    folder: Path, classes: list[str], count: int
) -> None:
    define(folder, "locks", f"locks = {classes!r}")
    set_up = counters.probes(["locks"])
    sent = {
        "hist": counted(set_up, pid=1),
        "lock_stat": (DATA / "counters-deadline-lock_stat").read_text(),
    }
    assert counters.values(set_up, sent)["locks"] == count


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ("", 0),
        ("c1 i1 c2 i2", 0),
        ("c1 c2 c3 i1 i2 i3", 0),
        ("c1 c2 i2 i1", 1),
        ("c1 c2 c3 c4 i1 i3 i2 i4", 1),
        ("c1 c2 c3 i3 i1 i2", 2),
        ("c1 c2 c3 i3 i2 i1", 2),
        ("c1 i1 c1 i1", 0),
        ("c1 c2 i2 c2 i1 i2", 1),
        ("c1 c2 c1 i2 i1", 0),
        ("c1 c2 c1 i1 i2", 1),
        ("i9 c1 i1", 0),
        ("c1 c2 i2 i9 i1", 1),
        ("c1 c2 i2 i2 i1 i1", 1),
        ("c0 c1 c0 c2 c0 i1 i2", 0),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
def test_inversions_of_a_trace(events: str, count: int) -> None:
    assert counters.inversions(trace(*events.split())) == count


@given(st.lists(st.tuples(st.sampled_from("ci"), st.integers(1, 5)), max_size=40))
def test_a_request_is_inverted_when_one_chosen_later_was_issued_earlier(
    events: list[tuple[str, int]],
) -> None:
    issued: list[int] = []  # when each request was chosen, in order of issue
    chosen: dict[int, int] = {}
    for time, (kind, request) in enumerate(events):
        if kind == "c":
            chosen[request] = time
        elif request in chosen:
            issued.append(chosen.pop(request))
    expected = sum(any(e > own for e in issued[:place]) for place, own in enumerate(issued))
    text = trace(*(f"{kind}{request}" for kind, request in events))
    assert counters.inversions(text) == expected


def test_inversions_of_a_recorded_trace() -> None:
    set_up = counters.probes(["inversions"])
    sent = {
        "hist": counted(set_up, pid=100),
        "trace": (DATA / "counters-deadline-trace").read_text(),
    }
    assert counters.values(set_up, sent)["inversions"] == 28 / 100


def issues(*requests: tuple[str, int, int]) -> str:
    """A trace of requests, each with its disk, its sector and its sectors."""
    lines = [
        f" fio-71 [000] ..... {n}: block_rq_issue: {disk} W {512 * count} () {sector} + {count} "
        f"none,0,0 [fio]\n"
        for n, (disk, sector, count) in enumerate(requests)
    ]
    head = f"# entries-in-buffer/entries-written: {len(lines)}/{len(lines)}   #P:2\n"
    return "".join([head, *lines])


@pytest.mark.parametrize(
    ("requests", "count"),
    [
        ([], 0),
        ([("8,0", 0, 8)], 0),
        ([("8,0", 0, 8), ("8,0", 8, 8), ("8,0", 16, 8)], 2),
        ([("8,0", 8, 8), ("8,0", 0, 8)], 0),
        ([("8,0", 0, 8), ("8,0", 9, 8)], 0),
        ([("8,0", 0, 8), ("8,16", 8, 8), ("8,0", 8, 8)], 1),
    ],
)
def test_requests_right_behind_the_one_before(
    requests: list[tuple[str, int, int]], count: int
) -> None:
    assert counters.behind(issues(*requests)) == count


def test_a_share_of_sequential_requests(folder: Path) -> None:
    define(folder, "behind", "event = 'block/block_rq_issue'\ntake = 'behind'\nper = 'requests'")
    set_up = counters.probes(["behind"])
    assert "trace block/block_rq_issue\n" in set_up.text
    sent = {
        "hist": counted(set_up, pid=4),
        "trace": issues(("8,0", 0, 8), ("8,0", 8, 8), ("8,0", 64, 8), ("8,0", 0, 8)),
    }
    assert counters.values(set_up, sent)["behind"] == 1 / 4


@pytest.mark.parametrize("read", [counters.inversions, counters.behind])
@pytest.mark.parametrize(
    "text",
    ["", "# tracer: nop\n", trace("c1", "i1", buffered=1, written=2)],
    ids=["nothing", "no head", "lost events"],
)
def test_a_trace_that_is_not_complete_is_no_result(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(GuestError, match="not complete"):
        read(text)


@pytest.mark.parametrize(
    ("name", "keys", "why"),
    [
        ("both", "event = 'a/b'\nlocks = ['c']", "either event, locks or chosen"),
        ("none", "", "either event, locks or chosen"),
        ("half", "chosen = ['p:f rq=$arg1']", "chosen and issued go together"),
        ("behind", "event = 'a/b'\ntake = 'behind'", "is told by block/block_rq_issue"),
        ("mistyped", "event = 'a/b'\nmach = 'c'", "did you mean 'match'"),
        ("deep", "event = 'a/b'\nper = 'hctx_runs'", "hctx_runs is itself divided"),
        ("own", "event = 'a/b'\nper = 'own'", "own is itself divided"),
        ("unknown", "event = 'a/b'\nper = 'request'", "did you mean 'requests'"),
    ],
)
def test_a_wrong_definition_is_refused(folder: Path, name: str, keys: str, why: str) -> None:
    define(folder, name, keys)
    with pytest.raises(UsageError, match=why):
        counters.probes([name])


def test_all_counters_of_the_project_can_be_set_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    set_up = counters.probes(counters.known())
    lines = set_up.text.splitlines()
    assert set_up.counters.keys() == set(counters.known())
    assert {line.split()[0] for line in lines} <= {"kprobe", "hist", "trace", "locks"}
    named = re.findall(r"(?m)^kprobe \w:(\S+)|hist:name=(\w+)", set_up.text)
    assert len(named) == len(set(named))

# SPDX-License-Identifier: GPL-2.0-or-later
"""dbench as the field measures it: the time of one client for one pass of a short load file.

The load file is the part of dbench's own client.txt that mmtests runs: its first 600 lines build a
tree, the next 3573 work on it. Debian's dbench 4.0 can run a load file only against the clock, so
the tree is built by the agent, untimed, and the time of a pass follows from how often an operation
whose number in a pass is known was done.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from lab.base.errors import GuestError, LabError
from lab.inputs.terms import Better, Metric

CLIENT_FILE = Path("/usr/share/dbench/client.txt")
_TREE_LINES = 600
_PASS_LINES = 3573
_PATH = re.compile(r'"([^"]+)"')
_DIRECTORY = "0x1"  # CreateOptions FILE_DIRECTORY_FILE
# What the guest sends has no more digits than dbench prints in a week.
_DECIMAL = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_COUNT = re.compile(
    rf"^[ \t]{{0,40}}(NTCreateX|Flush)[ \t]{{1,40}}([0-9]{{1,12}})[ \t]{{1,40}}{_DECIMAL}",
    re.MULTILINE,
)
_THROUGHPUT = re.compile(
    rf"^Throughput {_DECIMAL} MB/sec.{{0,200}}?max_latency={_DECIMAL} ms", re.MULTILINE
)
# Operations are spread unevenly over a pass, so the time of one does not follow from a small part.
# Half of one is chosen.
_LEAST = 0.5

METRICS = {
    "amean_ms": Metric("ms"),
    "passes": Metric("passes", Better.HIGHER),
    "throughput_mb": Metric("MB/s", Better.HIGHER),
    "lat_max_ms": Metric("ms"),
    "flush_mean_ms": Metric("ms"),
}


@dataclass(frozen=True)
class LoadFile:
    """The text of one pass, the tree it expects, and how many of each operation it has."""

    text: str
    tree: str
    operations: dict[str, int]


@cache
def load_file(path: Path = CLIENT_FILE) -> LoadFile:
    """Cut the short load file out of dbench's client file.

    Raises LabError when dbench's data is missing or too short.
    """
    try:
        with path.open() as stream:
            lines = list(islice(stream, _TREE_LINES + _PASS_LINES))
    except OSError as exc:
        raise LabError(
            f"dbench's load file cannot be read: {exc}", hint="install the package dbench"
        ) from exc
    if len(lines) < _TREE_LINES + _PASS_LINES:
        raise LabError(f"{path} has only {len(lines)} lines", hint="reinstall dbench")
    timed = lines[_TREE_LINES:]
    operations = Counter(line.split(maxsplit=1)[0] for line in timed)
    return LoadFile("".join(timed), tree(lines[:_TREE_LINES]), operations)


def tree(lines: Iterable[str]) -> str:
    """What load-file lines leave behind, one ``d PATH`` or ``f PATH BYTES`` a line."""
    handles: dict[str, str] = {}
    sizes: dict[str, int] = {}
    folders: list[str] = []
    for line in lines:
        words = _PATH.sub("", line).split()
        match = _PATH.search(line)
        path = _local(match[1]) if match else ""
        if words[0] == "Mkdir":
            folders.append(path)
        elif words[0] == "NTCreateX" and words[-1] == "NT_STATUS_OK":
            if words[1] == _DIRECTORY:
                folders.append(path)
            else:
                handles[words[3]] = path
                sizes.setdefault(path, 0)
        elif words[0] == "WriteX" and words[1] in handles:
            path = handles[words[1]]
            sizes[path] = max(sizes[path], int(words[2]) + int(words[4]))
    rows = [f"d {path}" for path in dict.fromkeys(folders)]
    rows += [f"f {path} {size}" for path, size in sizes.items()]
    return "\n".join(rows) + "\n"


def _local(path: str) -> str:
    """A path of the load file as client 0 has it; dbench counts its clients from 0."""
    return path.replace("\\", "/").strip("/").replace("clients/client1", "clients/client0", 1)


def metrics(output: str, clients: int, seconds: float) -> dict[str, float]:
    """The numbers of one dbench run of the short load file; METRICS has their units.

    amean_ms is mmtests' Amean: the mean time of one client for one pass. With C clients for T
    seconds, P passes were done in all, where P is the number of NTCreateX done over the number in
    one pass; each client did P/C of them one after the other, so a pass took T*C/P.
    Raises GuestError when dbench did not finish (outcome ``failed``), and when the clients did so
    little of a pass that its time would be a guess from its beginning (outcome ``mismatch``: the
    seconds are wrong, not the kernel).
    """
    # The first table is the sum over all clients; one for each client follows.
    totals = output.split("Per client results:")[0]
    counts = {match[1]: match for match in _COUNT.finditer(totals)}
    throughput = _THROUGHPUT.search(output)
    if "NTCreateX" not in counts or not throughput:
        last = output.strip().splitlines()[-1:] or ["nothing"]
        raise GuestError("failed", f"dbench printed no result; its last line: {last[0][:200]}")
    passes = int(counts["NTCreateX"][2]) / load_file().operations["NTCreateX"]
    if passes < _LEAST * clients:
        raise GuestError(
            "mismatch",
            f"dbench with {clients} clients did {passes / clients:.2g} passes a client in "
            f"{seconds:g} s, too few to tell how long one takes",
            hint=f"give the workload more seconds: {_LEAST:g} passes a client are needed",
        )
    values = {
        "amean_ms": 1000 * seconds * clients / passes,
        "passes": passes,
        "throughput_mb": float(throughput[1]),
        "lat_max_ms": float(throughput[2]),
    }
    if "Flush" in counts:
        values["flush_mean_ms"] = float(counts["Flush"][3])
    return values

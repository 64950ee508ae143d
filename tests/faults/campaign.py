# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults at random moments of real commands, and what must hold after each (`make faults`).

A fault is drawn by its number from the seed, so ONLY=N repeats one. After it, nothing of the run is
left, what is kept is whole, the exit code is a promised one, and an undisturbed run comes to the
record that one without a fault has. Kernels and guests are faked, so that a fault takes seconds;
with REAL=1 they are real.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import catalog
import place as places
from invariants import check, record
from place import DURATIONS, Broken, finish


def main() -> int:
    """Draw faults, try them, print a line each, and return how many found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", type=int, help="the number of one fault")
    parser.add_argument("--keep", action="store_true", help="leave the folders of what failed")
    parser.add_argument("--real", action="store_true", help="real kernels, real guests")
    given = parser.parse_args()
    commands = places.REAL if given.real else places.FAKE
    scratch = Path(tempfile.mkdtemp(prefix="lab-faults-"))
    template = scratch / "template"
    places.template(template)
    expected = {}
    for command in commands:
        place = places.make(scratch, template, f"expected-{command}", given.real)
        begun = time.monotonic()
        finish(place, command)
        DURATIONS[command] = time.monotonic() - begun
        check(place, command, [])
        expected[command] = record(place)
    found = []
    numbers = range(given.count) if given.only is None else [given.only]
    for number in numbers:
        chance = random.Random(f"{given.seed}/{number}")
        name, command = chance.choice(catalog.of(given.real)), chance.choice([*commands])
        place = places.make(scratch, template, str(number), given.real)
        codes: list[int] = []
        try:
            codes = catalog.FAULTS[name](place, command, chance)
            if -signal.SIGKILL not in codes:
                check(place, command, codes)
            finish(place, command)
            check(place, command, codes)
            if expected[command] and record(place) != expected[command]:
                raise Broken("another record than without a fault")
            ending = "ok"
        except (Broken, subprocess.TimeoutExpired) as exc:
            found.append(number)
            ending = f"FOUND: {exc} (ONLY={number} repeats it)"
        print(f"{number:>4} {name}, {command}: {codes} {ending}", flush=True)
        if ending == "ok" or not given.keep:
            shutil.rmtree(place.top, ignore_errors=True)
    if not given.keep:
        shutil.rmtree(scratch)
    print(f"seed {given.seed}: {len(numbers)} faults, {len(found)} found something: {found}")
    return min(len(found), 100)


if __name__ == "__main__":
    sys.exit(main())

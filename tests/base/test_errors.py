# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors: what a user reads, and the exit code that a script sees."""

from __future__ import annotations

import pickle

import pytest

from lab.base.errors import BuildError, GuestError, LabError, UsageError, nearest
from lab.base.process import CommandError
from lab.base.text import visible


def test_a_message_says_what_where_and_how_to_mend_it_in_that_order() -> None:
    error = LabError("it broke", where="file:3", hint="glue it")
    assert str(error) == "it broke\n  where: file:3\n  hint:  glue it"


def test_a_message_skips_what_is_not_known() -> None:
    assert str(LabError("it broke")) == "it broke"
    assert str(LabError("it broke", hint="glue it")) == "it broke\n  hint:  glue it"


@pytest.mark.parametrize(("kind", "code"), [(LabError, 3), (UsageError, 2), (BuildError, 3)])
def test_the_exit_code_tells_the_users_fault_from_the_labs(kind: type[LabError], code: int) -> None:
    assert kind("it broke").exit_code == code


def test_a_guests_error_carries_its_outcome_beside_the_message() -> None:
    error = GuestError("panic", "the guest's kernel panicked", where="console.log")
    assert error.outcome == "panic"
    assert error.exit_code == 3
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)
    assert str(error) == "the guest's kernel panicked\n  where: console.log"


def test_what_failed_on_another_host_travels_whole() -> None:
    error = CommandError("cc failed", status=4, output="no room", where="cc -c a.c")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("blok", ["net", "block"], "did you mean 'block'? known: block, net"),
        ("zzz", ["net", "block"], "known: block, net"),
        ("zzz", [], "none is known"),
    ],
)
def test_the_hint_for_a_mistyped_name_lists_all_and_guesses_one(
    name: str, known: list[str], hint: str
) -> None:
    assert nearest(name, known) == hint


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\n\tlines: \N{MICRO SIGN}s, ü, 漢", "two\n\tlines: \N{MICRO SIGN}s, ü, 漢"),
        ("\x1b[2J\r\0\x7f\x9b", r"\x1b[2J\r\x00\x7f\x9b"),
        ("\u202eevil\u2028\ufeff", r"\u202eevil\u2028\ufeff"),
        ("\udcff", r"\udcff"),
    ],
)
def test_a_message_shows_what_a_terminal_would_obey(text: str, shown: str) -> None:
    assert visible(text) == shown
    error = GuestError("panic", text, where=text, hint=text)
    assert (error.what, error.where, error.hint) == (shown,) * 3
    assert str(error).encode()

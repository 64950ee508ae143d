# SPDX-License-Identifier: GPL-2.0-or-later
"""What the simulated core takes an instruction to depend on, of instructions by their bytes."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.system import PACKAGE

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI = (1 << number for number in range(8))
FLAGS = 1 << 16
ALL = (1 << 17) - 1


class Operation(ctypes.Structure):
    """As in lab/build/sim/sim.h."""

    _fields_ = (
        ("reads", ctypes.c_uint32),
        ("address", ctypes.c_uint32),
        ("writes", ctypes.c_uint32),
        ("latency", ctypes.c_uint8),
        ("serialises", ctypes.c_bool),
        ("branches", ctypes.c_bool),
    )


Decode = Callable[[bytes], Operation]


@pytest.fixture(scope="module")
def decode(tmp_path_factory: pytest.TempPathFactory) -> Decode:
    """The plugin's decoder as a function of an instruction's bytes."""
    path = tmp_path_factory.mktemp("decode") / "decode.so"
    source = PACKAGE / "build/sim/decode.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", path, source, "-lcapstone"], check=True, timeout=60
    )
    library = ctypes.CDLL(str(path))

    def decoded(code: bytes) -> Operation:
        operation = Operation()
        library.decode(
            code, ctypes.c_size_t(len(code)), ctypes.c_uint64(0x1000), ctypes.byref(operation)
        )
        return operation

    return decoded


@pytest.mark.parametrize(
    ("code", "reads", "address", "writes"),
    [
        ("48 01 d8", RAX | RBX, 0, RAX | FLAGS),  # add rax, rbx
        ("48 8b 04 8b", 0, RBX | RCX, RAX),  # mov rax, [rbx + rcx*4]
        ("48 89 03", RAX, RBX, 0),  # mov [rbx], rax
        ("48 8d 04 8b", RBX | RCX, 0, RAX),  # lea rax, [rbx + rcx*4]
        ("31 c0", 0, 0, RAX | FLAGS),  # xor eax, eax: of nothing
        ("53", RBX, RSP, 0),  # push rbx: RSP goes its own way
        ("74 10", FLAGS, 0, 0),  # je
    ],
    ids=["add", "load", "store", "lea", "clear", "push", "branch"],
)
def test_an_instruction_depends_on_what_it_names(
    decode: Decode, code: str, reads: int, address: int, writes: int
) -> None:
    operation = decode(bytes.fromhex(code))
    assert (operation.reads, operation.address, operation.writes) == (reads, address, writes)


@pytest.mark.parametrize(
    ("code", "latency"), [("48 01 d8", 1), ("48 0f af c3", 3), ("48 f7 f3", 26)]
)
def test_multiplication_and_division_take_longer(decode: Decode, code: str, latency: int) -> None:
    assert decode(bytes.fromhex(code)).latency == latency


@pytest.mark.parametrize(
    ("code", "serialises", "branches"),
    [
        ("0f ae e8", True, False),  # lfence
        ("f3 90", True, False),  # pause
        ("f4", True, False),  # hlt
        ("74 10", False, True),  # je
        ("eb 10", False, False),  # jmp goes where it says
        ("f0 48 0f b1 0b", False, False),  # lock cmpxchg
    ],
)
def test_what_serialises_and_what_is_predicted(
    decode: Decode, code: str, *, serialises: bool, branches: bool
) -> None:
    operation = decode(bytes.fromhex(code))
    assert (operation.serialises, operation.branches) == (serialises, branches)


def test_what_is_no_instruction_depends_on_all_and_nothing_passes_it(decode: Decode) -> None:
    operation = decode(b"\x06")
    assert (operation.reads, operation.writes, operation.serialises) == (ALL, ALL, True)


def test_the_header_is_as_this_test_has_it() -> None:
    header = Path(PACKAGE / "build/sim/sim.h").read_text()
    assert "uint32_t reads, address, writes;\n\tuint8_t latency;\n\tbool serialises, br" in header

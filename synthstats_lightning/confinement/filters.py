"""Programs for the kernel's packet-filter machine, as seccomp takes them, written and read by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER = 0x15, 0x25
_INSTRUCTION = struct.Struct("<HBBI")

KILL, ERROR, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
"""What a filter answers: the process dies, the call fails (with an error number added), or it proceeds."""
OWN_PROCESS = -1
"""Value of a `Check` that stands for the process id that `Filter.for_process` puts in."""
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on one argument of a system call.

    Attributes:
        argument: Its position, from 0.
        value: What it must be.
        wide: Whether the kernel reads all 64 bits (longs and pointers) rather than the low 32 (ints).
        at_most: Whether smaller values do as well, as unsigned numbers.
        mask: Bits that are compared.
    """

    argument: int
    value: int
    wide: bool = False
    at_most: bool = False
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to one system call.

    Attributes:
        alternatives: It is allowed if all checks of one alternative hold; an empty one always holds.
        error: Error number otherwise.
    """

    alternatives: tuple[tuple[Check, ...], ...] = ((),)
    error: int = 1


@dataclass(frozen=True, slots=True)
class Filter:
    """A finished filter.

    Attributes:
        code: Instructions of 8 bytes each.
        own: Positions of the instructions that compare with the process's own id.
    """

    code: bytes
    own: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.code) // _INSTRUCTION.size

    def for_process(self, process: int) -> bytes:
        """The code for one process.

        Args:
            process: The id of the process.
        """
        code = bytearray(self.code)
        for position in self.own:
            struct.pack_into("<I", code, position * _INSTRUCTION.size + 4, process)
        return bytes(code)


def assemble(rules: Iterable[tuple[int, Rule]], architecture: int, otherwise: int = ERROR | 1) -> Filter:
    """Writes a list of rules as a filter.

    Args:
        rules: Number of a system call and its rule, the frequent ones first.
        architecture: The only audit architecture allowed; any other call kills the process, as do those of
            the x32 interface.
        otherwise: The answer to every system call without a rule.
    """
    code: list[bytes] = []
    own: list[int] = []

    def emit(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        code.append(_INSTRUCTION.pack(operation, if_true, if_false, value))

    emit(_LOAD, _ARCHITECTURE)
    emit(_IF_EQUAL, architecture, 1, 0)
    emit(_RETURN, KILL)
    emit(_LOAD, _NUMBER)
    emit(_IF_GREATER, _X32 - 1, 0, 1)
    emit(_RETURN, KILL)
    for number, rule in rules:
        body = _body(rule)
        emit(_IF_EQUAL, number, 0, len(body))
        own += [len(code) + place for place, part in enumerate(body) if part[1] == OWN_PROCESS]
        for operation, value, if_true, if_false in body:
            emit(operation, max(value, 0), if_true, if_false)
    emit(_RETURN, otherwise)
    return Filter(b"".join(code), tuple(own))


def _body(rule: Rule) -> list[tuple[int, int, int, int]]:
    body: list[tuple[int, int, int, int]] = []
    for alternative in rule.alternatives:
        # each comparison that fails jumps to the next alternative, which starts behind this one's answer
        steps = [step for check in alternative for step in _steps(check)]
        steps.append((_RETURN, ALLOW, 0, 0))
        for place, (operation, value, if_true, if_false) in enumerate(steps):
            behind = len(steps) - place - 1
            body.append((operation, value, behind * if_true, behind * if_false))
    if rule.alternatives != ((),):
        body.append((_RETURN, ERROR | rule.error, 0, 0))
    if len(body) > 255:
        raise ValueError(f"a rule of {len(body)} instructions, more than a jump can pass")
    return body


def _steps(check: Check) -> list[tuple[int, int, int, int]]:
    """Instructions of one check; the flags say which outcome means that it failed."""
    place = _ARGUMENTS + 8 * check.argument
    steps: list[tuple[int, int, int, int]] = []
    if check.wide:
        steps += [(_LOAD, place + 4, 0, 0), (_IF_EQUAL, check.value >> 32 if check.value > 0 else 0, 0, 1)]
    steps.append((_LOAD, place, 0, 0))
    if check.mask != 0xFFFFFFFF:
        steps.append((_AND, check.mask, 0, 0))
    if check.at_most:
        steps.append((_IF_GREATER, check.value, 1, 0))
    else:
        steps.append((_IF_EQUAL, check.value if check.value < 0 else check.value & 0xFFFFFFFF, 0, 1))
    return steps


def answer(code: bytes, number: int, architecture: int, arguments: Sequence[int] = ()) -> int:
    """What a filter answers to one system call, found by running it as the kernel does.

    Args:
        code: The filter's instructions, from `Filter.for_process`.
        number: The number of the system call.
        architecture: Audit architecture of the call.
        arguments: Up to six, as 64-bit values.
    """
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in padded))
    accumulator = place = 0
    while True:
        operation, if_true, if_false, value = _INSTRUCTION.unpack_from(code, place * _INSTRUCTION.size)
        place += 1
        if operation == _LOAD:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == _AND:
            accumulator &= value
        elif operation == _RETURN:
            return int(value)
        else:
            holds = accumulator == value if operation == _IF_EQUAL else accumulator > value
            place += if_true if holds else if_false

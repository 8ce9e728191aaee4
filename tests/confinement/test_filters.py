"""Filters answer as written, checked against a direct reading of the rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthstats_lightning.confinement.filters import (
    ALLOW,
    ERROR,
    KILL,
    OWN_PROCESS,
    Check,
    Rule,
    answer,
    assemble,
)
from synthstats_lightning.confinement.seccomp import PATH_RULES, PATHS, PLAIN, RULES, build_filter
from synthstats_lightning.confinement.system_calls import ARCHITECTURES, system_calls

X86, ARM = ARCHITECTURES["x86_64"], ARCHITECTURES["aarch64"]
OWN = 4321

# plain values: the runtime type checks of these tests draw random numbers, which strategies must not
checks = st.tuples(
    st.integers(0, 5),
    st.sampled_from([0, 1, 7, 0x3D0F00, 0xFFFFFFFF, OWN_PROCESS]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0xFFFFFFFF, 0x1000, 0x41]),
).filter(lambda fields: not (fields[3] and (fields[1] < 0 or fields[2])))
rules = st.tuples(st.lists(st.lists(checks, max_size=3), max_size=4), st.sampled_from([1, 38]))
words = st.one_of(
    st.sampled_from([0, 1, 7, OWN, 0x3D0F00, 0xFFFFFFFF, 1 << 32, (1 << 32) + 7, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)


def holds(check: Check, arguments: list[int]) -> bool:
    """A check, read directly."""
    value = OWN if check.value == OWN_PROCESS else check.value
    word = arguments[check.argument]
    if check.wide and word >> 32 != value >> 32:
        return False
    low = word & 0xFFFFFFFF & check.mask
    return low <= value if check.at_most else low == value & 0xFFFFFFFF


@given(st.dictionaries(st.integers(0, 450), rules, max_size=6), st.integers(0, 450), st.tuples(*[words] * 6))
def test_a_filter_answers_what_its_rules_say(
    drawn: dict[int, Any], number: int, words: tuple[Any, ...]
) -> None:
    table = {
        call: Rule(tuple(tuple(Check(*fields) for fields in checks) for checks in alternatives), error)
        for call, (alternatives, error) in drawn.items()
    }
    arguments = list(words)
    code = assemble(list(table.items()), X86).for_process(OWN)
    for asked in (number, *table):
        rule = table.get(asked)
        expected = ERROR | 1
        if rule is not None:
            allowed = any(all(holds(check, arguments) for check in checks) for checks in rule.alternatives)
            expected = ALLOW if allowed else ERROR | rule.error
        assert answer(code, asked, X86, arguments) == expected


def test_other_architectures_and_x32_end_the_process() -> None:
    code = assemble([(39, Rule())], X86).for_process(1)
    assert answer(code, 39, X86) == ALLOW
    assert answer(code, 39, ARM) == KILL
    assert answer(code, 39, 0x40000003) == KILL  # i386
    assert answer(code, 0x40000000 + 39, X86) == KILL
    assert answer(code, 0xFFFFFFFF, X86) == KILL


def test_a_rule_that_no_jump_can_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="more than a jump can pass"):
        assemble([(1, Rule(tuple((Check(0, value),) for value in range(200))))], X86)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("paths", [False, True])
def test_policy(architecture: str, paths: bool) -> None:
    numbers, audit = system_calls(architecture), ARCHITECTURES[architecture]
    built = build_filter(paths, architecture=architecture)
    assert built is not None
    assert len(built) < 4096
    code = built.for_process(OWN)

    def allowed(name: str, *arguments: int) -> bool:
        return answer(code, numbers[name], audit, arguments) == ALLOW

    assert all(allowed(name) for name in PLAIN if name in numbers)
    assert all(allowed(name) == paths for name in PATHS if name in numbers)
    listed = {numbers[name] for name in (*PLAIN, *PATHS, *RULES, *PATH_RULES) if name in numbers}
    assert all(answer(code, number, audit) == ERROR | 1 for number in range(500) if number not in listed)
    for name in ("seccomp", "landlock_restrict_self", "mount", "pivot_root", "unshare", "capset"):
        assert not allowed(name)
    assert allowed("clone", 0x3D0F00)
    assert not allowed("clone", 0x3D0F00 | 1 << 32)
    assert not allowed("clone", 17)
    assert not allowed("clone", 0x3D0F00 | 0x10000000)
    assert answer(code, numbers["clone3"], audit) == ERROR | 38
    for name in ("kill", "tgkill"):
        assert allowed(name, OWN, 9)
        for target in (0, 1, OWN + 1, 0xFFFFFFFF):
            assert not allowed(name, target, 9)
    assert allowed("prlimit64", 0, 7, 0)
    assert allowed("prlimit64", OWN, 7, 0)
    assert not allowed("prlimit64", 0, 7, 1 << 40)
    assert not allowed("prlimit64", 1, 7, 0)
    assert allowed("clock_gettime", 2)
    assert not allowed("clock_gettime", (1 << 32) - 6)
    assert not allowed("prctl", 1)
    assert not allowed("prctl", 4)
    assert not allowed("ioctl", 0, 0x5412)  # TIOCSTI
    for command in (6, 7, 8, 1024, 1026, 1031, 1033):  # locks, owner, lease, notify, pipe size, seals
        assert not allowed("fcntl", 0, command)
    assert allowed("openat", 0xFFFFFF9C, 1, 0o2000000) == paths
    for flags in (0o1, 0o2, 0o100, 0o1000, 0o2000, 0o20200000):
        assert not allowed("openat", 0xFFFFFF9C, 1, flags)


def test_a_removed_rule_allows_everything() -> None:
    for name in RULES:
        built = build_filter(False, [name], "x86_64")
        assert built is not None
        assert answer(built.for_process(OWN), system_calls("x86_64")[name], X86, [99] * 6) == ALLOW

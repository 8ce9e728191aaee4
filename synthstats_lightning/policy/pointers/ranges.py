"""Where a column's range leaves a function no value: a quotient, a logarithm, a square root, an exposure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from synthstats_lightning.policy.pointers.vocabulary import COLUMNS, view_of

_LINE = re.compile(r"(<c\d+>)((?:<[^>]*>)*): \w+, (\S+) to ([^\s,]+)(.*)")


class Contexts(NamedTuple):
    """Tokens by how their text begins or ends.

    Attributes:
        every: All of them.
        quotient: After which a divisor comes.
        mean: The argument of a mean, without its sign of equality.
        equals: That sign.
        logarithm: After which the argument of a logarithm comes.
        root: The same of a square root.
        closing: That end an argument.
    """

    every: frozenset[int]
    quotient: frozenset[int]
    mean: frozenset[int]
    equals: frozenset[int]
    logarithm: frozenset[int]
    root: frozenset[int]
    closing: frozenset[int]


class Rule(NamedTuple):
    """Tokens that leave a program without a score after certain two.

    Attributes:
        before: Which the last but one is of.
        last: Which the last is of.
        unlikely: Which should not follow.
    """

    before: frozenset[int]
    last: frozenset[int]
    unlikely: frozenset[int]


def contexts(texts: Mapping[int, str]) -> Contexts:
    """Tokens of a vocabulary by what they do.

    Args:
        texts: Id of each token that text is made of, to this text.
    """

    def that(end: str) -> frozenset[int]:
        return frozenset(token for token, text in texts.items() if text.endswith(end))

    return Contexts(
        frozenset(texts),
        that("/"),
        that("mu"),
        frozenset(token for token, text in texts.items() if text == "="),
        that("log("),
        that("sqrt("),
        frozenset(token for token, text in texts.items() if text.startswith(")")),
    )


def ranges(request: str) -> dict[str, tuple[float, float]]:
    """Pointers that a request has, to their smallest and largest values: columns and standardised ones.

    Args:
        request: As `request_text` words it.
    """
    found: dict[str, tuple[float, float]] = {}
    for pointer, others, low, high, _ in _LINE.findall(request):
        try:
            found[pointer] = float(low), float(high)
        except ValueError:
            continue
        if view_of(pointer) in others:
            found[view_of(pointer)] = -1.0, 1.0
    return found


def rules(known: Mapping[str, tuple[float, float]], ids: Mapping[str, int], of: Contexts) -> tuple[Rule, ...]:
    """What programs of a request must not be written: they divide by zero or take logarithms of it.

    Args:
        known: Pointers to smallest and largest values.
        ids: Pointers to tokens.
        of: Tokens by what they do.

    Returns:
        The same number of rules whatever the request, in the same order.
    """

    def tokens(pointers: Iterable[str]) -> frozenset[int]:
        return frozenset(ids[pointer] for pointer in pointers)

    zero = tokens(pointer for pointer, (low, high) in known.items() if low <= 0.0 <= high)
    none_positive = tokens(_not_above(known, 0.0))
    negative = tokens(pointer for pointer, (low, _) in known.items() if low < 0.0)
    pointing = of.every | frozenset(ids.values())
    return (
        Rule(pointing, of.quotient, zero),
        # a mean of a count that is a multiple of a column: an exposure, which is nowhere zero
        Rule(of.mean, of.equals, none_positive & tokens(each for each in known if each in COLUMNS)),
        # of one covariate the logarithm of column plus shift is a form; in a list of terms a policy that may
        # not close the argument is at a loss
        Rule(of.logarithm, none_positive, of.closing)
        if sum(each in COLUMNS for each in known) == 1
        else Rule(pointing, of.logarithm, none_positive),
        Rule(of.root, negative, of.closing),
    )


def _not_above(known: Mapping[str, tuple[float, float]], bound: float) -> Iterator[str]:
    return (pointer for pointer, (low, _) in known.items() if low <= bound)

"""Where a column has no place: as a divisor or in a logarithm with its zeros, as an index that it is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from synthstats_lightning.policy.pointers.order import HEADER
from synthstats_lightning.policy.pointers.vocabulary import COLUMNS, PROGRAM, count_of, view_of

STEPS_OF_TWO = (5.0, 40.0)
"""Fewest and most steps, from 0 on, along which the numbers of two kinds change together in the grammar."""
_LINE = re.compile(r"(<c\d+>)((?:<[^>]*>)*): (\w+), (\S+) to ([^\s,]+)")


class Values(NamedTuple):
    """What a pointer to a column stands for.

    Attributes:
        low: Its smallest value.
        high: Its largest value, or one.
        is_index: Whether they are places of an index, counted from 0.
        is_binary: Whether they are 0 and 1.
    """

    low: float
    high: float
    is_index: bool = False
    is_binary: bool = False


class Contexts(NamedTuple):
    """Tokens by how their text begins or ends.

    Attributes:
        every: All of them.
        quotient: After which a divisor comes.
        mean: The argument of a mean, without its sign of equality.
        equals: The sign of equality alone.
        logarithm: After which the argument of a logarithm comes.
        root: The same of a square root.
        shape: The argument of a shape, without its sign of equality.
        indexing: After which an index comes, or an element of a list.
        choice: Which choose between two values.
        closing: That end an argument.
        minus: After which a number is taken off.
        added: After which a number's opposite is.
        over: Between a centre and its scale.
        openings: That a column may stand behind: of an index, of a centre with a scale, of a knot; a kind
            more is any other.
        ending: That end a number there: of any other opening first, then of these.
        begins: With which a program can begin: its first line, or the beginning of this line.
        header: That have the first line in them.
        digits: The digits, from 0 on.
        point: The decimal point.
        knot: After which the column comes whose bend is at a knot.
    """

    every: frozenset[int]
    quotient: frozenset[int]
    mean: frozenset[int]
    equals: frozenset[int]
    logarithm: frozenset[int]
    root: frozenset[int]
    shape: frozenset[int]
    indexing: frozenset[int]
    choice: frozenset[int]
    closing: frozenset[int]
    minus: frozenset[int]
    added: frozenset[int]
    over: frozenset[int]
    openings: tuple[frozenset[int], ...]
    ending: tuple[frozenset[int], ...]
    begins: frozenset[int]
    header: frozenset[int]
    digits: tuple[int, ...]
    point: int
    knot: frozenset[int]


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

    def exactly(wanted: str) -> frozenset[int]:
        return frozenset(token for token, text in texts.items() if text == wanted)

    def starting(begin: str) -> frozenset[int]:
        return frozenset(token for token, text in texts.items() if text.startswith(begin))

    alone = {text: token for token, text in texts.items()}

    return Contexts(
        frozenset(texts),
        that("/"),
        that("mu"),
        exactly("="),
        that("log("),
        that("sqrt("),
        that("shape"),
        that("["),
        that("switch("),
        starting(")"),
        exactly(" - "),
        exactly(" - -"),
        exactly(")/"),
        (that("["), that("(("), that("mum(")),
        (starting(")"), starting("]"), exactly(")/"), starting(",")),
        frozenset(token for token, text in texts.items() if text and HEADER.startswith(text[: len(HEADER)])),
        starting(HEADER),
        tuple(alone[str(digit)] for digit in range(10)),
        alone["."],
        that("mum("),
    )


def ranges(request: str) -> dict[str, Values]:
    """Pointers that a request has, to what they stand for: columns and standardised ones.

    Args:
        request: As `request_text` words it.
    """
    found: dict[str, Values] = {}
    for pointer, others, kind, low, high in _LINE.findall(request):
        try:
            is_index = count_of(pointer) in others
            found[pointer] = Values(float(low), float(high), is_index, kind == "binary")
        except ValueError:
            continue
        if view_of(pointer) in others:
            found[view_of(pointer)] = Values(-1.0, 1.0)
    return found


def rules(known: Mapping[str, Values], ids: Mapping[str, int], of: Contexts) -> tuple[Rule, ...]:
    """What leaves a program of a request without a score: divisors of zero, indices of none, no first line.

    Args:
        known: Pointers to what they stand for.
        ids: Pointers to tokens.
        of: Tokens by what they do.

    Returns:
        The same number of rules whatever the request, in the same order.
    """

    def tokens(pointers: Iterable[str]) -> frozenset[int]:
        return frozenset(ids[pointer] for pointer in pointers)

    columns = [each for each in known if each in COLUMNS]
    zero = tokens(pointer for pointer, column in known.items() if column.low <= 0.0 <= column.high)
    none_positive = tokens(pointer for pointer, column in known.items() if column.low <= 0.0)
    negative = tokens(pointer for pointer, column in known.items() if column.low < 0.0)
    pointing = of.every | frozenset(ids.values())
    binary = tokens(each for each in columns if known[each].is_binary)
    return (
        Rule(pointing, of.quotient, zero),
        # a mean of a count that is a multiple of a column: an exposure, which is nowhere zero
        Rule(of.mean, of.equals, none_positive),
        # of one covariate the logarithm of column plus shift is a form; in a list of terms a policy that may
        # not close the argument is at a loss
        Rule(of.logarithm, none_positive, of.closing)
        if len(columns) == 1
        else Rule(pointing, of.logarithm, none_positive),
        Rule(of.root, negative, of.closing),
        Rule(of.shape, of.equals, tokens(known)),
        Rule(pointing, of.indexing, tokens(each for each, column in known.items() if not column.is_index)),
        # a curve of 0 and 1 bends nowhere between them
        Rule(pointing, of.knot, binary if len(binary) < len(columns) else frozenset()),
        # the grammar chooses between two species, step by step, and between nothing else
        Rule(pointing, frozenset({ids[PROGRAM]}), pointing - of.begins),
        Rule(pointing, pointing - {ids[PROGRAM]}, of.header),
        Rule(pointing, pointing, frozenset() if _may_be_species(known) else of.choice),
    )


def _may_be_species(known: Mapping[str, Values]) -> bool:
    """Whether there is a column of steps, and one of two kinds."""
    columns = [column for pointer, column in known.items() if pointer in COLUMNS]
    steps = any(column.low == 0.0 and STEPS_OF_TWO[0] <= column.high <= STEPS_OF_TWO[1] for column in columns)
    return steps and any((column.low, column.high) == (0.0, 1.0) for column in columns)

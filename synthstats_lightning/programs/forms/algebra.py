"""Sums of products in one spelling, in which terms of a model's expressions are compared.

An expression is a sum of terms, a term a number times powers of atoms. Atoms are what cannot be taken apart:
parameters, columns, numbers that the data fix, functions of expressions. Everything is a value: equal
expressions are equal tuples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

MAX_TERMS = 40
"""Most terms that a product of sums is spelled out to; what is larger stays a product of sums."""
MAX_POWER = 3
"""Largest power of a sum that is spelled out."""
DIGITS = 6
"""Significant digits to which two numbers in a form are the same."""


class Atom(NamedTuple):
    """What an expression is made of.

    Attributes:
        kind: `"parameter"` (a number), `"vector"` (a parameter for each row, group or component),
            `"constant"` (a number that the data fix), `"column"`, `"data"` (values for each row that no
            parameter has a part in), `"label"` (an unknown discrete value) or a function.
        name: What tells it from other atoms of its kind.
        arguments: What a function is of.
        by_row: Whether its value differs from row to row.
    """

    kind: str
    name: str
    arguments: tuple[Expression, ...] = ()
    by_row: bool = False


class Term(NamedTuple):
    """One product.

    Attributes:
        number: The numeric factor.
        factors: The atoms, each with its power, in one order.
    """

    number: float
    factors: tuple[tuple[Atom, float], ...] = ()


Expression = tuple[Term, ...]
ZERO: Expression = ()


def number(value: float) -> Expression:
    """A number as an expression."""
    return (Term(float(value)),) if value else ZERO


def atom(found: Atom) -> Expression:
    """An atom as an expression."""
    return (Term(1.0, ((found, 1.0),)),)


def function(name: str, *arguments: Expression, detail: Any = None, by_row: bool | None = None) -> Expression:
    """A function that is not taken apart.

    Args:
        name: What it is called.
        *arguments: What it is of.
        detail: Whatever else it depends on, as JSON.
        by_row: Whether it differs from row to row; by default if one of its arguments does.
    """
    rows = any(map(differs_by_row, arguments)) if by_row is None else by_row
    text = "" if not detail else json.dumps(detail, sort_keys=True)
    return atom(Atom(name, text, arguments, rows))


def add(*parts: Expression) -> Expression:
    """The sum of expressions."""
    numbers: dict[tuple[tuple[Atom, float], ...], float] = {}
    scale: dict[tuple[tuple[Atom, float], ...], float] = {}
    for part in parts:
        for term in part:
            numbers[term.factors] = numbers.get(term.factors, 0.0) + term.number
            scale[term.factors] = scale.get(term.factors, 0.0) + abs(term.number)
    kept = [
        Term(_rounded(value), factors)
        for factors, value in numbers.items()
        if abs(value) > 1e-9 * scale[factors]
    ]
    return tuple(sorted(kept, key=_order))


def scaled(factor: float, expression: Expression) -> Expression:
    """A number times an expression."""
    return (
        tuple(Term(_rounded(factor * term.number), term.factors) for term in expression) if factor else ZERO
    )


def multiply(*parts: Expression) -> Expression:
    """The product of expressions, spelled out unless it gets long."""
    product: Expression = number(1.0)
    for part in parts:
        if len(product) * len(part) > MAX_TERMS:
            product, part = _grouped(product), _grouped(part)
        product = add(*((_times(first, second),) for first in product for second in part))
        product = add(*map(_ungrouped, product)) if any(map(_has_plain_group, product)) else product
    return product


def power(base: Expression, exponent: float) -> Expression:
    """An expression to the power of a number."""
    if exponent == 0.0:
        return number(1.0)
    if exponent == 1.0:
        return base
    if not base:
        return ZERO if exponent > 0 else function("power", base, detail=exponent)
    if len(base) == 1:
        (term,) = base
        if term.number < 0 and exponent != int(exponent):
            return function("power", base, detail=exponent)
        factors = tuple((each, _rounded(own * exponent)) for each, own in term.factors)
        return (_merged(Term(_power_of(term.number, exponent), factors)),)
    if exponent in range(2, MAX_POWER + 1) and len(base) ** exponent <= MAX_TERMS:
        return multiply(*[base] * int(exponent))
    if exponent == -1.0 and (odds := _odds(base)) is not None:
        return function("sigmoid", scaled(-1.0, odds))
    # the scale of the sum stands before it, so that the sum has one spelling
    lead = leading(base)
    inside = base if lead == number(1.0) else multiply(base, power(lead, -1.0))
    if len(inside) < 2:
        return power(multiply(lead, inside), exponent)
    return multiply(power(lead, exponent), _grouped(inside, exponent))


def exponential(argument: Expression) -> Expression:
    """The exponential: what does not differ by row stands before it, and logs turn into powers."""
    fixed = tuple(term for term in argument if not any(each.by_row for each, _ in term.factors))
    rest = tuple(term for term in argument if term not in fixed)
    before: list[Expression] = []
    left: list[Term] = []
    for term in (*fixed, *rest):
        if not term.factors:
            before.append(number(_power_of(math.e, term.number)))
        elif len(term.factors) == 1 and term.factors[0][0].kind == "log" and term.factors[0][1] == 1.0:
            before.append(power(term.factors[0][0].arguments[0], term.number))
        else:
            left.append(term)
    for part in (tuple(t for t in left if t in fixed), tuple(t for t in left if t not in fixed)):
        if part:
            before.append(function("exp", part))
    return multiply(*before)


def logarithm(argument: Expression) -> Expression:
    """The log of an expression: products become sums."""
    if len(argument) != 1 or argument[0].number <= 0:
        return function("log", argument)
    (term,) = argument
    parts = [number(math.log(term.number))]
    for each, exponent in term.factors:
        inner = each.arguments[0] if each.kind == "exp" else None
        if inner is None and each.kind == "sum":
            inner = function("log", each.arguments[0])
        parts.append(scaled(exponent, inner if inner is not None else function("log", atom(each))))
    return add(*parts)


def positive_part(argument: Expression) -> Expression:
    """The larger of 0 and an expression, with the scale of the expression before it."""
    lead = leading(argument)
    if len(lead) == 1 and lead[0].number < 0:
        lead = scaled(-1.0, lead)
    if len(argument) < 2 or len(lead) != 1:
        return function("positive", argument)
    return multiply(lead, function("positive", multiply(argument, power(lead, -1.0))))


def step(argument: Expression) -> Expression:
    """1 where an expression is above 0, else 0, whatever the scale of the expression."""
    lead = leading(argument)
    if len(lead) != 1:
        return function("step", argument)
    found = function("step", multiply(argument, power(lead, -1.0)))
    return found if lead[0].number > 0 else add(number(1.0), scaled(-1.0, found))


def leading(expression: Expression) -> Expression:
    """The coefficient of the first of the parts that differ by row, 1 if there is none."""
    parts = by_rows(expression)
    rows = sorted((key for key in parts if key), key=blank)
    return parts[rows[0]] if rows else number(1.0)


def by_rows(expression: Expression) -> dict[tuple[tuple[Atom, float], ...], Expression]:
    """The coefficient of each part that differs by row; that of the rest under the empty part."""
    found: dict[tuple[tuple[Atom, float], ...], list[Term]] = {}
    for term in expression:
        rows = tuple(pair for pair in term.factors if pair[0].by_row)
        rest = tuple(pair for pair in term.factors if not pair[0].by_row)
        found.setdefault(rows, []).append(Term(term.number, rest))
    return {rows: tuple(terms) for rows, terms in found.items()}


def differs_by_row(expression: Expression) -> bool:
    """Whether an expression has another value in another row."""
    return any(each.by_row for term in expression for each, _ in term.factors)


def atoms(expression: Expression) -> Iterable[Atom]:
    """All atoms of an expression, those within functions too."""
    for term in expression:
        for each, _ in term.factors:
            yield each
            for argument in each.arguments:
                yield from atoms(argument)


def rewritten(expression: Expression, change: Callable[[Atom], Expression | None]) -> Expression:
    """The expression with some atoms replaced, at whatever depth.

    Args:
        expression: What is rewritten.
        change: What takes an atom's place; `None` keeps it, with its arguments rewritten.
    """
    parts = []
    for term in expression:
        factors = [number(term.number)]
        for each, exponent in term.factors:
            new = change(each)
            if new is None:
                new = _rebuilt(each, tuple(rewritten(part, change) for part in each.arguments))
            factors.append(power(new, exponent))
        parts.append(multiply(*factors))
    return add(*parts)


@lru_cache(maxsize=100_000)
def blank(factors: tuple[tuple[Atom, float], ...]) -> str:
    """What a product looks like when the names of its parameters are not known: for an order of terms."""
    return repr(sorted((_blank_atom(each), exponent) for each, exponent in factors))


def _blank_atom(found: Atom) -> str:
    if found.kind == "parameter":
        return "~"
    if found.kind == "vector":
        return "|" + found.name.partition("[")[2]
    shown = sorted(f"{blank(rows)}" for part in found.arguments for rows in by_rows(part))
    # columns come first, and short things before long ones
    text = f"{found.kind}:{found.name if found.kind in ('column', 'data') else ''}{shown if shown else ''}"
    return text if found.kind != "column" else "!" + text


def _rebuilt(found: Atom, arguments: tuple[Expression, ...]) -> Expression:
    match found.kind:
        case "exp":
            return exponential(arguments[0])
        case "log":
            return logarithm(arguments[0])
        case "sum":
            return arguments[0]
        case "positive":
            return positive_part(arguments[0])
        case "step":
            return step(arguments[0])
    if not arguments:
        return atom(found)
    return atom(
        found._replace(arguments=arguments, by_row=found.by_row and any(map(differs_by_row, arguments)))
    )


def _odds(base: Expression) -> Expression | None:
    """The x of 1 + exp(x), if that is what a sum is."""
    if len(base) != 2 or Term(1.0) not in base:
        return None
    (other,) = (term for term in base if term != Term(1.0))
    if other.number <= 0 or any(each.kind != "exp" for each, _ in other.factors):
        return None
    inner = [scaled(exponent, each.arguments[0]) for each, exponent in other.factors]
    return add(number(math.log(other.number)), *inner)


def _times(first: Term, second: Term) -> Term:
    return _merged(Term(_rounded(first.number * second.number), first.factors + second.factors))


def _merged(term: Term) -> Term:
    powers: dict[Atom, float] = {}
    exponents: dict[bool, list[Expression]] = {}
    for each, exponent in term.factors:
        if each.kind == "exp":
            exponents.setdefault(each.by_row, []).append(scaled(exponent, each.arguments[0]))
        else:
            powers[each] = _rounded(powers.get(each, 0.0) + exponent)
    for rows, parts in exponents.items():
        exponents[rows] = [total] if (total := add(*parts)) else []
    whole = add(*(part for parts in exponents.values() for part in parts))
    odds = Atom("sigmoid", "", (scaled(-1.0, whole),), True)
    if whole and powers.get(odds) == 1.0:  # exp(x) / (1 + exp(x))
        del powers[odds]
        exponents = {}
        powers[Atom("sigmoid", "", (whole,), True)] = 1.0
    for rows, parts in exponents.items():
        for total in parts:
            powers[Atom("exp", "", (total,), rows)] = 1.0
    kept = [(each, exponent) for each, exponent in powers.items() if exponent]
    return Term(term.number, tuple(sorted(kept, key=lambda pair: (_key(pair[0]), pair[1]))))


def _grouped(expression: Expression, exponent: float = 1.0) -> Expression:
    if len(expression) < 2:
        return power(expression, exponent)
    group = Atom("sum", "", (expression,), differs_by_row(expression))
    return (Term(1.0, ((group, exponent),)),)


def _has_plain_group(term: Term) -> bool:
    groups = [
        len(each.arguments[0]) for each, exponent in term.factors if each.kind == "sum" and exponent == 1.0
    ]
    return bool(groups) and math.prod(groups) <= MAX_TERMS


def _ungrouped(term: Term) -> Expression:
    if not _has_plain_group(term):
        return (term,)
    plain = [each.arguments[0] for each, exponent in term.factors if each.kind == "sum" and exponent == 1.0]
    rest = tuple(pair for pair in term.factors if not (pair[0].kind == "sum" and pair[1] == 1.0))
    product: Expression = (Term(term.number, rest),)
    for part in plain:
        product = add(*((_times(first, second),) for first in product for second in part))
    return product


def _order(term: Term) -> tuple[str, float]:
    return repr([(_key(each), exponent) for each, exponent in term.factors]), term.number


@lru_cache(maxsize=100_000)
def _key(found: Atom) -> str:
    return repr(found)


def _rounded(value: float) -> float:
    """A number to so many digits that the order in which it was computed does not show."""
    return float(f"{value:.{DIGITS + 6}g}")


def _power_of(base: float, exponent: float) -> float:
    try:
        return _rounded(base**exponent)
    except (OverflowError, ZeroDivisionError):
        return math.inf

"""Coefficients of a form: which are free, whatever constants a program writes them with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from synthstats_lightning.programs.forms import algebra
from synthstats_lightning.programs.forms.algebra import Atom, Expression

POOLED = "~"
"""Mark of a vector whose elements share what is learned of them."""
MARK = "#"
"""Before words that say what numbers a vector where no column does: no column's name has it."""


class Part(NamedTuple):
    """One term of a form's sum: a coefficient and what it multiplies.

    Attributes:
        slot: The coefficient, which does not differ by row.
        factors: What differs by row, each factor with its power.
    """

    slot: Expression
    factors: tuple[tuple[Factor, float], ...]


class Factor(NamedTuple):
    """What differs by row.

    Attributes:
        atom: What it is; its arguments are those of `arguments`.
        arguments: Sums that a function is of.
    """

    atom: Atom
    arguments: tuple[Sum, ...]


Sum = tuple[Part, ...]
Rows = tuple[tuple[Atom, float], ...]


def sum_of(expression: Expression) -> Sum:
    """An expression as coefficients times what differs by row, in an order that names have no part in."""
    parts = _without_repeats(algebra.by_rows(expression))
    found = []
    for rows in sorted(parts, key=lambda rows: (len(rows), algebra.blank(rows), repr(rows))):
        slot, factors = parts[rows], []
        for each, exponent in rows:
            if each.kind == "vector":
                name, _, where = each.name.partition("[")
                mark = POOLED if _is_pooled(each, slot) else ""
                each = each._replace(name=f"{name.rstrip(POOLED)}{mark}[{where}")
                slot = algebra.number(1.0)
            factors.append((Factor(each, tuple(sum_of(part) for part in each.arguments)), exponent))
        found.append(Part(slot, tuple(factors)))
    return tuple(found)


def _without_repeats(parts: dict[Rows, Expression]) -> dict[Rows, Expression]:
    """Without what a vector of coefficients takes up: a number, and other vectors of the same groups."""
    vectors: dict[tuple[Rows, str], list[Rows]] = {}
    for rows in parts:
        own = [(each, exponent) for each, exponent in rows if each.kind == "vector"]
        if len(own) == 1 and own[0][1] == 1.0:
            beside = tuple(pair for pair in rows if pair[0].kind != "vector")
            vectors.setdefault((beside, own[0][0].name.partition("[")[2]), []).append(rows)
    uses = Counter(each.name for rows in parts for each, _ in rows if each.kind == "vector")
    kept = dict(parts)
    for (beside, where), held in vectors.items():
        # a vector of rows is noise, and one that is pooled has a mean of its own beside it
        fixed = where != f"{MARK}row" and any(not _is_pooled(_vector(rows), parts[rows]) for rows in held)
        if fixed:
            kept.pop(beside, None)
        alone = [rows for rows in held if uses[_vector(rows).name] == 1]
        if alone and len(held) > 1:
            stays = min(alone, key=lambda rows: (_is_pooled(_vector(rows), parts[rows]), repr(rows)))
            for rows in held:
                if rows != stays:
                    del kept[rows]
    return kept


def _vector(rows: Rows) -> Atom:
    return next(each for each, _ in rows if each.kind == "vector")


def _is_pooled(vector: Atom, slot: Expression) -> bool:
    """Whether the elements share what is learned: by their prior, or by a scale that is learned."""
    return POOLED in vector.name.partition("[")[0] or bool(parameters(slot))


def parameters(expression: Expression) -> frozenset[str]:
    """Names of the parameters that an expression is of."""
    return frozenset(each.name for each in algebra.atoms(expression) if each.kind in ("parameter", "vector"))


def slots(sums: Iterable[Sum]) -> Iterable[Expression]:
    """All coefficients of sums, those within functions too."""
    for each in sums:
        for part in each:
            yield part.slot
            for factor, _ in part.factors:
                yield from slots(factor.arguments)


def free_slots(sums: Iterable[Sum]) -> frozenset[Expression]:
    """The coefficients that can take any value whatever the others are.

    Such a coefficient holds a parameter that no other one holds; once it is free, it says nothing of its
    other parameters, which may leave a further one alone with them.

    Args:
        sums: All of the response's distribution.
    """
    left = {slot: parameters(slot) for slot in slots(sums)}
    left = {slot: names for slot, names in left.items() if names}
    free: set[Expression] = set()
    while True:
        holders: dict[str, list[Expression]] = {}
        for slot, names in left.items():
            for name in names:
                holders.setdefault(name, []).append(slot)
        found = {held[0] for held in holders.values() if len(held) == 1}
        if not found:
            return frozenset(free)
        free |= found
        left = {slot: names for slot, names in left.items() if slot not in found}

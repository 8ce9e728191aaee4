"""Which columns of a wide table a policy with pointers is told of: the prior of all, the proposal of some.

A small network keeps track of about as many columns as the requests of its training had, hardly ever more
than a dozen. Of thirty columns 3 of 100 programs of a proposal scored. So the proposal, which may look at the
data, is told of those columns that a digest speaks for; the prior, which may not, is told of all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from synthstats_lightning.policy.pointers.vocabulary import (
    COLUMNS,
    DATA,
    GROUPS,
    POINTERS,
    count_of,
    index_of,
    view_of,
)
from synthstats_lightning.tasks.facts import Facts

WIDE = 12
"""Columns up to which a proposal's prompt tells of all of them."""
MOST_TOLD = 8
"""How many of more columns than these it tells of: of 60 programs on 23 covariates of the crimes of counties
43 scored with 12 or 16 of them and 56 with 8, whose estimate of log Z was 47 nats higher."""


def told(facts: Facts) -> Facts:
    """What a prompt tells: of the columns of a wide table, in the proposal, the `MOST_TOLD` strongest.

    Those with a role of their own, groups among them, and what numbers the rows are told of whatever the
    digest says of them.

    Args:
        facts: Of the prior's prompt, which has no digest and is left as it is, or of the proposal's.
    """
    if facts.digest is None:
        return facts
    digest = facts.digest
    named = [column.name for column in facts.columns if not column.role]
    if len(named) <= WIDE:
        return facts
    first = [name for name in named if name in digest.numbering]
    others = sorted(set(named) - set(first), key=lambda name: (-digest.strength(name), named.index(name)))
    left_out = {*named} - {*first, *others[: max(0, MOST_TOLD - len(first))]}
    return replace(facts, columns=tuple(column for column in facts.columns if column.name not in left_out))


def untold(prompt: Collection[str]) -> frozenset[str]:
    """Pointers to columns that a task may have and its proposal's prompt does not tell of.

    Args:
        prompt: The tokens of a prompt.

    Returns:
        Those of all columns that a prompt lacks if it tells of a part of a wide table, else none. Pointers
        are handed out from the first on, so that a part is recognised by what is missing between them, or,
        where nothing is, by its size.
    """
    columns, groups = ([each for each in pointers if each in prompt] for pointers in (COLUMNS, GROUPS))
    whole = columns == [*COLUMNS[: len(columns)]] and groups == [*GROUPS[: len(groups)]]
    if DATA not in prompt or (whole and len(columns) + len(groups) != MOST_TOLD):
        return frozenset()
    missing = {*COLUMNS, *GROUPS}.difference(columns, groups)
    parts = [of(each) for each in missing for of in (count_of, view_of, index_of)]
    return frozenset(each for each in (*missing, *parts) if each in POINTERS)

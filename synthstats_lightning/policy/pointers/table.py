"""Which pointer stands for which name of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from synthstats_lightning.policy.pointers.vocabulary import COLUMNS, GROUPS, RESPONSE, count_of, view_of
from synthstats_lightning.policy.prompt_room import PromptError
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.facts import LIMIT_ROLES, Facts

MOST_LEVELS = 60
"""Different values up to which a column of counts may be an index."""


@dataclass(frozen=True)
class PointerTable:
    """Pointers of one request.

    Attributes:
        names: Name of each column, the response and views included, to its pointer.
        counts: Pointer to a size, to that size.
    """

    names: Mapping[str, str]
    counts: Mapping[str, int]

    @property
    def texts(self) -> dict[str, str]:
        """Pointer to what a program has in its place."""
        texts = {pointer: name for name, pointer in self.names.items()}
        return texts | {pointer: str(number) for pointer, number in self.counts.items()}


def pointer_table(facts: Facts, deal: Random | None = None) -> PointerTable:
    """Hands out pointers.

    Args:
        facts: The request whose columns get pointers.
        deal: Hands them out at random where it is given, as in training; otherwise from the first on.

    Raises:
        PromptError: If there are more columns, or columns of groups, than pointers.
    """
    grouped = [column for column in facts.columns if is_group(column)]
    plain = [column for column in facts.columns if not is_group(column)]
    names: dict[str, str] = {}
    for columns, pointers, what in ((plain, COLUMNS, "covariates"), (grouped, GROUPS, "columns of groups")):
        if len(columns) > len(pointers):
            raise PromptError(
                f"a request of this policy must have at most {len(pointers)} {what}, got {len(columns)}:"
                " choose some with `columns: [...]` or `screen: 8`"
            )
        chosen = pointers if deal is None else deal.sample(pointers, len(columns))
        names |= dict(zip((column.name for column in columns), chosen, strict=False))
    sizes = ((column.name, levels_of(column)) for column in facts.columns)
    counts = {count_of(names[name]): number for name, number in sizes if number}
    if facts.levels:
        counts[count_of(RESPONSE)] = facts.levels - 1
    plain_names = {column.name for column in plain}
    views = {view: view_of(names[name]) for view, name in facts.views.items() if name in plain_names}
    return PointerTable({**names, **views, facts.response.name: RESPONSE}, counts)


def is_group(column: Column) -> bool:
    """Whether a column says which rows belong together, by numbers from 0.

    Args:
        column: As a prompt describes it.
    """
    return (column.role == "group" or len(column.levels) > 2) and column.low >= 0


def levels_of(column: Column) -> int:
    """Size of what a column may be the index of; 0 of a column that is no index.

    Args:
        column: As a prompt describes it.
    """
    if is_group(column):
        return max(len(column.levels), int(column.high) + 1)
    if column.role in LIMIT_ROLES.values():
        return 0
    few = column.kind == "count" and column.low == 0 and 2 <= column.high < MOST_LEVELS
    return int(column.high) + 1 if few else 0

"""Which pointer stands for which name of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from synthstats_lightning.policy.pointers.vocabulary import (
    COLUMNS,
    GROUPS,
    PARTS,
    RESPONSE,
    count_of,
    index_of,
    view_of,
)
from synthstats_lightning.policy.prompt_room import PromptError
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.facts import Facts

MOST_LEVELS = 60
"""Different values up to which a column of counts from 0 may be an index."""
FEWEST_STEPS, MOST_STEPS = 8, 300
"""Different values of a column of whole numbers, of which there are no more than rows, that is an index."""


@dataclass(frozen=True)
class PointerTable:
    """Pointers of one request.

    Attributes:
        names: Name of each column, the response and views included, to its pointer.
        counts: Pointer to a size, to that size.
        places: Pointer to a column as an index, to how a program writes it: `year - 1871`.
    """

    names: Mapping[str, str]
    counts: Mapping[str, int]
    places: Mapping[str, str]

    @property
    def texts(self) -> dict[str, str]:
        """Pointer to what a program has in its place."""
        texts = {pointer: name for name, pointer in self.names.items()}
        return {**texts, **{pointer: str(number) for pointer, number in self.counts.items()}, **self.places}


def pointer_table(facts: Facts, deal: Random | None = None) -> PointerTable:
    """Hands out pointers.

    Args:
        facts: The request whose columns get pointers.
        deal: Hands them out at random where it is given, as in training; otherwise from the first on.

    Raises:
        PromptError: If there are more columns than pointers.
    """
    grouped = [column for column in facts.columns if is_group(column)]
    if len(grouped) > len(GROUPS):  # those without a role are counts like any other, which may be indices
        grouped = sorted(grouped, key=lambda column: column.role != "group")[: len(GROUPS)]
    names: dict[str, str] = {}
    for column in facts.columns:
        if column.role in PARTS and PARTS[column.role] not in names.values():
            names[column.name] = PARTS[column.role]
    plain = [column for column in facts.columns if column not in grouped and column.name not in names]
    if len(plain) > len(COLUMNS):
        raise PromptError(
            f"a request of this policy must have at most {len(COLUMNS)} covariates, got {len(plain)}:"
            f" choose some with `columns: [...]` or `screen: {len(COLUMNS)}`"
        )
    for columns, pointers in ((plain, COLUMNS), (grouped, GROUPS)):
        chosen = pointers if deal is None else deal.sample(pointers, len(columns))
        names |= dict(zip((column.name for column in columns), chosen, strict=False))
    sized = [(column, levels_of(column, facts.rows)) for column in facts.columns]
    counts = {count_of(names[column.name]): number for column, number in sized if number}
    places = {
        index_of(names[column.name]): _place(column)
        for column, number in sized
        if number and names[column.name] in COLUMNS
    }
    if facts.levels:
        counts[count_of(RESPONSE)] = facts.levels - 1
    viewed = (*COLUMNS, PARTS["exposure"])
    views = {view: view_of(names[name]) for view, name in facts.views.items() if names.get(name) in viewed}
    return PointerTable({**names, **views, facts.response.name: RESPONSE}, counts, places)


def _place(column: Column) -> str:
    """A column of whole numbers as places from 0."""
    low = int(column.low)
    return f"{column.name} {'-' if low > 0 else '+'} {abs(low)}" if low else column.name


def is_group(column: Column) -> bool:
    """Whether a column says which rows belong together, by numbers from 0.

    Args:
        column: As a prompt describes it.
    """
    return (column.role == "group" or len(column.levels) > 2) and column.low >= 0


def levels_of(column: Column, rows: int) -> int:
    """Size of what a column may be the index of; 0 of a column that is no index.

    Args:
        column: As a prompt describes it.
        rows: Rows of the table.
    """
    if is_group(column):
        return max(len(column.levels), int(column.high) + 1)
    if column.role in PARTS or column.kind not in ("count", "integer"):
        return 0
    values = int(column.high) - int(column.low) + 1
    few = column.low == 0 and 2 < values <= MOST_LEVELS
    return values if few or FEWEST_STEPS <= values <= min(MOST_STEPS, rows) else 0

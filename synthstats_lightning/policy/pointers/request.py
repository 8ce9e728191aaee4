"""A request as a policy with pointers is told it: no names, no words of the user's."""

from __future__ import annotations

from synthstats_lightning.policy.pointers.table import PointerTable
from synthstats_lightning.policy.pointers.vocabulary import GROUPS, RESPONSE, count_of, index_of
from synthstats_lightning.tasks.columns import Column, number
from synthstats_lightning.tasks.facts import LIMIT_ROLES, Facts

ROLES = ("exposure", "total", "standard error")
"""Roles that are told as they are; all others say nothing."""


def request_text(facts: Facts, table: PointerTable) -> str:
    """The request in pointers, numbers and a few fixed words.

    Args:
        facts: What there is to tell.
        table: Which pointers stand for its names.
    """
    views = {column: table.names[view] for view, column in facts.views.items() if view in table.names}
    lines = [f"rows: {facts.rows}"]
    lines += [column_text(column, table, views.get(column.name, "")) for column in facts.columns]
    cuts = count_of(RESPONSE) if facts.levels else ""
    lines += [f"response {column_text(facts.response, table)}{cuts}"]
    if facts.shown:
        lines += [f"first values of {RESPONSE}: {', '.join(number(value) for value in facts.shown)}"]
    return "\n".join(lines)


def column_text(column: Column, table: PointerTable, view: str = "") -> str:
    """One column in one line.

    Args:
        column: A column of the request.
        table: Which pointers stand for the request's names.
        view: Pointer to its standardised values, if programs may use them.
    """
    pointer = table.names[column.name]
    size = count_of(pointer) if count_of(pointer) in table.counts and pointer != RESPONSE else ""
    if pointer in GROUPS:
        return f"{pointer}{size}: group of {table.counts[count_of(pointer)]}"
    total = ""
    if column.total is not None:
        total = f", out of {table.names.get(str(column.total), str(column.total))}"
    if column.role in LIMIT_ROLES.values():  # whose values are those of the response, or none
        return f"{pointer}: {column.role}"
    place = index_of(pointer) if index_of(pointer) in table.places else ""
    role = f", {column.role}" if column.role in ROLES else ""
    ends = f"{number(column.low)} to {number(column.high)}"
    return f"{pointer}{size}{place}{view}: {column.kind}, {ends}{total}{role}"

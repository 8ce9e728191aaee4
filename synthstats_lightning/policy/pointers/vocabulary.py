"""Tokens of a policy that points at columns."""

from __future__ import annotations

PAD, TASK, PROGRAM, END = "<|pad|>", "<|task|>", "<|program|>", "<|end|>"
DATA = "<|data|>"
"""Opens the digest."""
COLUMNS = tuple(f"<c{number}>" for number in range(1, 33))
"""One a covariate."""
GROUPS = tuple(f"<g{number}>" for number in range(1, 9))
"""One a column of groups."""
RESPONSE = "<y>"
"""The response."""
PARTS = {
    "lower limit": "<lower>",
    "upper limit": "<upper>",
    "exposure": "<exposure>",
    "total": "<total>",
    "standard error": "<error>",
}
"""Role of a column that has one place in a program, to a pointer of its own, so that none is copied there."""


def count_of(pointer: str) -> str:
    """The pointer to a size: of what is indexed by a column, or of an ordered response's cut points.

    Args:
        pointer: The pointer to the column or to the response.
    """
    return f"{pointer[:-1]}.n>"


def view_of(pointer: str) -> str:
    """The pointer to a covariate's standardised values.

    Args:
        pointer: The pointer to the covariate.
    """
    return f"{pointer[:-1]}.z>"


def index_of(pointer: str) -> str:
    """The pointer to a column of whole numbers as places of an index, counted from 0.

    Args:
        pointer: The pointer to the covariate.
    """
    return f"{pointer[:-1]}.i>"


SOURCES = (*COLUMNS, *GROUPS, RESPONSE, *PARTS.values())
"""Tokens that stand for a column."""
POINTERS = (
    *SOURCES,
    *map(count_of, (*COLUMNS, *GROUPS, RESPONSE)),
    *map(view_of, (*COLUMNS, PARTS["exposure"])),
    *map(index_of, COLUMNS),
)
"""Tokens that stand for a name or a number of the request."""
SPECIAL_TOKENS = (PAD, TASK, PROGRAM, END, DATA, *POINTERS)
"""All tokens that no text is made of."""

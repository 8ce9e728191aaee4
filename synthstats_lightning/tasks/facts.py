"""What a request says, as an object: for policies that word it themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest import Digest

LIMIT_ROLES = {"lower": "lower limit", "upper": "upper limit"}
"""Side of a limit of the response to the role of the column that holds it."""
LEFT_OUT = "left out"
"""Role of a column that is no fact, such as a row's number."""


@dataclass(frozen=True)
class Facts:
    """A request without words, and what the proposal's prompt adds to it.

    Attributes:
        columns: The covariates in the order of the data set, limits of the response among them.
        response: The column that is to be modelled.
        rows: Rows of the data set.
        shown: Response values of the first rows, where the task shows any.
        levels: Levels of an ordered response; 0 of any other.
        views: Name of what programs may use besides the columns, to the column that it is, standardised.
        digest: What the proposal's prompt tells of the rows that count; `None` in the prior's.
    """

    columns: tuple[Column, ...]
    response: Column
    rows: int
    shown: tuple[float, ...] = ()
    levels: int = 0
    views: Mapping[str, str] = field(default_factory=dict, hash=False)
    digest: Digest | None = field(default=None, compare=False)

    @property
    def prior(self) -> Facts:
        """What the prior's prompt says: the request alone."""
        return replace(self, digest=None)


def with_roles(columns: Sequence[Column], roles: Mapping[str, str], response: Column) -> tuple[Column, ...]:
    """Columns with the roles that a task says apart from them, without those that it leaves out.

    Args:
        columns: The covariates of a task, as its prompts describe them.
        roles: Name to role, `LEFT_OUT` among them; what counts are out of is a total without being said.
        response: The column that is to be modelled.
    """
    own = {str(response.total): "total", **roles}
    told = (replace(column, role=column.role or own.get(column.name, "")) for column in columns)
    return tuple(column for column in told if column.role != LEFT_OUT)


def limits_by_role(columns: Mapping[str, Column], limits: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns with the roles of those that say how far the response could be observed.

    Args:
        columns: Name to column, the response not among them.
        limits: Side to the name of the column that is its limit.
    """
    roles = {name: LIMIT_ROLES[side] for side, name in limits.items()}
    return tuple(replace(column, role=roles.get(name, column.role)) for name, column in columns.items())

"""Rows of a response as copies of those that differ, which alone are evaluated."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.marginals.different_rows import DifferentRows


class Changes(NamedTuple):
    """Log densities of some rows, and of these with one row less or more.

    Attributes:
        given: All together `[particles]`.
        less: Without one copy of each row `[particles, rows]`.
        more: With one copy more of each row `[particles, rows]`.
    """

    given: Float[Tensor, " particles"]
    less: Float[Tensor, "particles rows"]
    more: Float[Tensor, "particles rows"]


class Copies(NamedTuple):
    """The rows of a response, each a copy of one of those that differ.

    Attributes:
        rows: Rows of the response.
        different: Those that differ; `None` where all count as different.
    """

    rows: int
    different: DifferentRows | None

    @property
    def number(self) -> int:
        """Rows that differ."""
        return self.rows if self.different is None else self.different.number

    def of(self, given: Bool[Tensor, " every"]) -> Bool[Tensor, " every"] | Float[Tensor, " different"]:
        """How often each row that differs counts.

        Args:
            given: Which rows of the response count.
        """
        return given if self.different is None else self.different.copies(given)

    def chosen(self, rows: Bool[Tensor, " every"]) -> Bool[Tensor, " different"]:
        """Which of those that differ some rows are.

        Args:
            rows: Some rows of the response.
        """
        return rows if self.different is None else self.different.copies(rows) > 0

    def spread(self, values: Float[Tensor, "*batch different"]) -> Float[Tensor, "*batch every"]:
        """What each row of the response has.

        Args:
            values: What those that differ have.
        """
        return values if self.different is None else self.different.spread(values)

    def changed(self, found: Changes, given: Bool[Tensor, " every"]) -> Marginals:
        """With a row less where it is given, and one more where it is not.

        Args:
            found: What was found for the rows that differ.
            given: Which rows of the response count.
        """
        if bool(given.all()):
            return Marginals(found.given, self.spread(found.less))
        return Marginals(found.given, torch.where(given, self.spread(found.less), self.spread(found.more)))

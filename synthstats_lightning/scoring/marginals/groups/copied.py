"""The integral over every element of a latent where many rows are copies of others."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from synthstats_lightning.scoring.marginals.different_rows import DifferentRows
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.modes import LogDensity, Modes
from synthstats_lightning.scoring.marginals.groups.nodes import Nodes
from synthstats_lightning.scoring.marginals.groups.quadrature import Integrals, Quadrature


class CopiedQuadrature(Quadrature):
    """A rule that evaluates the rows that differ, each as often as it counts.

    Integrals with one row less or more are those of every row by itself where not all rows are given.

    Args:
        whole: The rule of every row.
        fewer: That of the rows that differ.
        different: The rows that differ.
    """

    def __init__(self, whole: Quadrature, fewer: Quadrature, different: DifferentRows) -> None:
        super().__init__(
            whole.integrand, whole.groups, whole.reference, whole.fineness, whole.form, whole.first
        )
        self.fewer = fewer
        self.different = different

    def finer(self, times: float) -> Quadrature:
        """As of every row."""
        return CopiedQuadrature(super().finer(times), self.fewer.finer(times), self.different)

    def reaching(self, first: int) -> Quadrature:
        """As of every row."""
        return CopiedQuadrature(super().reaching(first), self.fewer.reaching(first), self.different)

    @property
    def rows(self) -> int:
        """Rows that are evaluated."""
        return self.different.number

    def log_density(self, outer: Outer, given: Bool[Tensor, " rows"]) -> LogDensity:
        """As of every row."""
        return self.fewer.log_density(_fewer(outer), self.different.copies(given))

    def modes(self, outer: Outer, given: Bool[Tensor, " rows"]) -> Modes:
        """As of every row."""
        return self.fewer.modes(_fewer(outer), self.different.copies(given))

    def scanned(self, outer: Outer, given: Bool[Tensor, " rows"]) -> Modes:
        """As of every row."""
        return self.fewer.scanned(_fewer(outer), self.different.copies(given))

    def posterior(self, outer: Outer, given: Bool[Tensor, " rows"], finer: float) -> Nodes:
        """As of every row."""
        return self.fewer.posterior(_fewer(outer), self.different.copies(given), finer)

    def integrals(
        self, outer: Outer, given: Bool[Tensor, " rows"], *, changes: bool, refined: bool = False
    ) -> Integrals:
        """As of every row."""
        if changes and not bool(given.all()):
            # copies of one row may be given and not; as few particles at once as rows are more
            size = max(1, outer.particles * self.rows // len(given))
            parts = [
                super(CopiedQuadrature, self).integrals(
                    outer.select(some), given, changes=True, refined=refined
                )
                for some in torch.split(torch.arange(outer.particles), size)
            ]
            return Integrals(*map(torch.cat, zip(*parts, strict=True)))
        counts = self.different.copies(given)
        found = self.fewer.integrals(_fewer(outer), counts, changes=changes, refined=refined)
        spread = self.different.spread
        return Integrals(found.given, spread(found.changed), spread(found.alone))


def _fewer(outer: Outer) -> Outer:
    return Outer(outer.particles, outer.smaller[0])

"""A target that sees only some rows."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density import many_rows
from synthstats_lightning.scoring.density.target import (
    Marginals,
    RowSubset,
    Target,
    is_coupled,
    log_likelihood_of,
)
from synthstats_lightning.scoring.settings import MANY_ROWS


class GivenRows:
    """A target that sees only some rows of the response, together.

    Args:
        target: The whole target.
        given: Which rows count.
    """

    def __init__(self, target: Target, given: Bool[Tensor, " rows"]) -> None:
        self.target = target
        self.given = given

    @property
    def dimension(self) -> int:
        """Unconstrained parameters."""
        return self.target.dimension

    @property
    def num_observations(self) -> int:
        """Columns of the log-likelihood: one for all rows that count."""
        return 1

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles 1"]]:
        """Log prior density and log-likelihood of the rows that count."""
        if is_coupled(self.target):
            return self.target.log_prior(theta), self.log_likelihood(theta)
        rows = self.target.num_observations
        if rows > MANY_ROWS:
            log_prior, total = many_rows.totals(self._given_densities, theta, rows)
            return log_prior, total[:, None]
        log_prior, log_likelihood = self.target.log_prior_and_likelihood(theta)
        return log_prior, torch.where(self.given, log_likelihood, 0.0).sum(-1, keepdim=True)

    def _given_densities(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        log_prior, log_likelihood = self.target.log_prior_and_likelihood(theta)
        return log_prior, torch.where(self.given, log_likelihood, 0.0)

    def log_prior(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log prior density."""
        return self.target.log_prior(theta)

    def log_likelihood(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles 1"]:
        """Log-likelihood of the rows that count, together."""
        return log_likelihood_of(self.target, theta, self.given)[:, None]

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "particles dim"]:
        """Independent draws from the prior."""
        return self.target.sample_prior(n, generator)


class FirstRows(RowSubset):
    """The first rows of a target as a data set of their own, also where rows depend on each other.

    Args:
        target: The whole target.
        rows: How many leading rows there are.
    """

    @property
    def coupled(self) -> bool:
        """Whether rows depend on each other given the parameters."""
        return is_coupled(self.target)

    def marginals(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log-likelihood of some of the rows (all if `None`) together, and of these with one less or more.

        Raises:
            TypeError: If rows do not depend on each other.
        """
        if not is_coupled(self.target):
            raise TypeError("marginals are of rows that depend on each other")
        mask = torch.zeros(self.target.num_observations, dtype=torch.bool)
        mask[: self.rows] = True if given is None else given
        found = self.target.marginals(theta, mask)
        return Marginals(found.given, found.changed[:, : self.rows])

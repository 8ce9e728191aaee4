"""What a target without its block holds of some particles."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.marginals.groups.grouping import Given
from synthstats_lightning.scoring.marginals.laplace.leave_out import log_mean
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood, Outer
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.proposal import Prior, Proposal


class Part(NamedTuple):
    """Some particles with all that integrals over the block take.

    Attributes:
        theta: The parameters outside of the block.
        log_prior: Their log prior density `[particles]`.
        outer: What the likelihood reads of them.
        prior: The block's own density.
        design: The predictor as a function of the block.
    """

    theta: Float[Tensor, "particles outer"]
    log_prior: Float[Tensor, " particles"]
    outer: Outer
    prior: Prior
    design: Design

    def select(self, index: Int[Tensor, " chosen"]) -> Part:
        """Some of these particles."""
        outer, prior = self.outer.select(index), self.prior.select(index)
        return Part(self.theta[index], self.log_prior[index], outer, prior, self.design.select(index))


class Last(NamedTuple):
    """The last marginals, which refits ask for again."""

    theta: Tensor
    given: Tensor
    found: Marginals


class LastAdded(NamedTuple):
    """The densities of single rows given some others, which are found with those of the others together."""

    theta: Tensor
    given: Tensor
    found: Float[Tensor, "particles rows"]

    def is_of(self, theta: Float[Tensor, "particles outer"], given: Bool[Tensor, " rows"]) -> bool:
        """Whether it is of some particles and rows.

        Args:
            theta: Parameters outside of the block, of all particles.
            given: Which rows are given.
        """
        return torch.equal(self.given, given) and torch.equal(self.theta, theta)


class Weighted(NamedTuple):
    """Draws of a block and what they weigh.

    Attributes:
        x: The draws `[particles, points, size]`.
        weight: Their log weights `[particles, points]`.
        rows: Log-likelihoods of rows `[particles, points, rows]`.
        alone: Log-likelihood of rows that do not read the block `[particles]`.
    """

    x: Float[Tensor, "particles points size"]
    weight: Float[Tensor, "particles points"]
    rows: Float[Tensor, "particles points rows"]
    alone: Float[Tensor, " particles"]

    @property
    def added(self) -> Float[Tensor, "particles rows"]:
        """Log density of one more of each row."""
        return log_mean(self.weight[..., None] + self.rows, 1) - log_mean(self.weight, 1)[:, None]


def weighted(
    likelihood: Likelihood,
    part: Part,
    proposal: Proposal,
    given: Given,
    noise: Float[Tensor, "particles points size"],
) -> Weighted:
    """Draws of a block from its proposal, and what they weigh.

    Args:
        likelihood: Log-likelihood of rows at values of the predictor.
        part: The particles that are weighed here.
        proposal: Given the rows that count.
        given: Which rows count, or how many times each does.
        noise: Independent standard normal numbers.
    """
    x = proposal.draws(noise)
    predictor = part.design.at(x)
    rows = likelihood.rows(part.outer, predictor)
    excess = likelihood.summed(rows, given) - proposal.parabolas(predictor - proposal.centre[:, None])
    weight = excess.sum(-1).nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf)
    return Weighted(x, weight, rows, likelihood.alone(rows[:, 0], given))

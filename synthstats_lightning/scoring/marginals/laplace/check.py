"""Whether a Laplace proposal is good enough where the posterior of the other parameters is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.marginals.laplace.copies import Copies
from synthstats_lightning.scoring.marginals.laplace.leave_out import log_mean
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood
from synthstats_lightning.scoring.marginals.laplace.movers import Movers, all_with

MANY = 128
"""Draws of the block at each of the posterior's draws."""
LEAST_SHARE = 0.02
"""Smallest accepted effective share of them, and of how many of the posterior's draws it may be smaller."""
MOST_POOR = 0.1
LARGEST_CORRECTION = 1.5
"""Nats by which the mean weight may correct the approximation."""
OF_KINKS = 6.0
"""The same of kinked rows: a parabola that is bent as many rows are is as high as the kink that it tops."""
OF_EVEN, EVEN_SHARE = 6.0, 0.05
"""The same where nearly all of the posterior's draws have so large an effective share: what each of many rows
of few counts adds to it is the same in every draw."""
LARGEST_ERROR = 0.1
"""Standard error, in nats, of an evidence over no other parameter, and of its leave-one-out over rows."""
LARGEST_DIFFERENCE = 0.05
"""Nats by which elpd may change when rows that hardly move are followed in full: else more of them are."""
FOLLOWED = 6
"""Draws from the posterior at which that is tried."""
FOLLOWED_ROWS, MOST_FOLLOWED = 150, 300_000
"""Rows at most that are left out in turn there, and times how many rows there are in all: these stand for the
others."""
WEIGHED = 2
"""One in so many of the posterior's draws is looked at for its draws' weights."""
BATCHES = 8
"""Independent repetitions from which the error over no other parameter is taken."""


@runtime_checkable
class Weighted(Protocol):
    """A model without its block, by weighted draws of it: what `LaplaceIntegrated` is."""

    dimension: int
    num_observations: int
    copies: Copies
    likelihood: Likelihood
    movers: Movers
    tried_movers: Callable[[], Iterable[Movers]]

    def leave_one_out_draws(self, particles: int) -> int:
        """Draws of the block for each of some particles."""
        ...

    def log_weights(
        self, theta: Float[Tensor, "particles outer"], draws: int, stream: int = 0
    ) -> Float[Tensor, "particles draws"]:
        """Log weights of draws of the block given all rows."""
        ...

    def marginals_by(
        self,
        theta: Float[Tensor, "particles outer"],
        given: Bool[Tensor, " rows"],
        draws: int,
        movers: Movers,
        stream: int = 0,
    ) -> Marginals:
        """Log density of some rows, and of these with one row less or more."""
        ...


class Found(NamedTuple):
    """What a check found.

    Attributes:
        error: What scores may be off by that their own standard errors do not see, in nats.
        movers: Which elements are followed with which rows, for that.
    """

    error: float
    movers: Movers


def check(target: Weighted, theta: Float[Tensor, "particles outer"]) -> Found | None:
    """What scores may be off by that their own standard errors do not see; `None` if it is too much.

    Args:
        target: A model without its block.
        theta: Draws from the posterior of the parameters that are left.
    """
    with torch.no_grad():
        draws = 2_048 if target.dimension == 0 else MANY
        weight = target.log_weights(theta[::WEIGHED], draws, stream=1)
        effective = (2.0 * weight.logsumexp(1) - (2.0 * weight).logsumexp(1)).exp() / weight.shape[1]
        poor, uneven = (
            float((~(effective > share)).to(torch.float64).mean()) for share in (LEAST_SHARE, EVEN_SHARE)
        )
        correction = log_mean(weight, 1)
        largest = OF_KINKS if target.likelihood.kinked else LARGEST_CORRECTION
        largest = largest if uneven > MOST_POOR else max(largest, OF_EVEN)
        if poor > MOST_POOR or not float(correction.median().abs()) < largest:
            return None
        error = _error_alone(target, theta) if target.dimension == 0 else 0.0
        if target.movers.every or target.likelihood.kinked:  # without a kinked row nothing moves
            return Found(error, target.movers) if error < LARGEST_ERROR else None
        chosen = _some_rows(target.num_observations, target.copies.number)
        every = all_with(target.copies.chosen(chosen), target.likelihood.groups)
        whole = _followed(target, theta, every, chosen)
        for movers in target.tried_movers():
            far = float((_followed(target, theta, movers, chosen) - whole).mean().abs())
            if far < LARGEST_DIFFERENCE and error + far < LARGEST_ERROR:
                return Found(error + far, movers)
        # the last follows most
        return Found(error + far, movers) if error + far < LARGEST_ERROR else None


def _error_alone(target: Weighted, theta: Tensor) -> float:
    """Standard error of evidence or elpd, the larger, where there is one point only."""
    everything = torch.ones(target.num_observations, dtype=torch.bool)
    draws = target.leave_one_out_draws(1)
    found = [
        target.marginals_by(theta, everything, max(draws // BATCHES // 2 * 2, 2), target.movers, stream)
        for stream in range(1, BATCHES + 1)
    ]
    elpd = torch.stack([(each.given[:, None] - each.changed).sum() for each in found])
    weight = target.log_weights(theta, 2_048, stream=1)[0]
    relative = (weight - log_mean(weight, 0)).exp()
    pairs = relative.reshape(-1, 2).mean(1)
    evidence_error = float(pairs.std()) / math.sqrt(len(pairs))
    return max(float(elpd.std()) / math.sqrt(BATCHES), evidence_error)


def _some_rows(rows: int, different: int = 0) -> Bool[Tensor, " rows"]:
    """Rows that stand for all, always the same."""
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    count = min(FOLLOWED_ROWS, max(MOST_FOLLOWED // max(different, 1), 1))
    return torch.zeros(rows, dtype=torch.bool).index_fill(0, order[:count], True)


def _followed(
    target: Weighted, theta: Tensor, movers: Movers, chosen: Bool[Tensor, " rows"]
) -> Float[Tensor, " particles"]:
    """Sums over rows of log densities of each given all others, by some movers, at a few posterior draws."""
    everything = torch.ones(target.num_observations, dtype=torch.bool)
    if not movers.every:
        movers = movers.of(target.copies.chosen(chosen), target.likelihood.groups)
    found = target.marginals_by(theta[:FOLLOWED], everything, 4, movers)
    # what a search that starts elsewhere changes in the whole is no row's
    own = found.given[:, None] - found.changed
    return own[:, chosen].sum(1) * (len(chosen) / int(chosen.sum()))

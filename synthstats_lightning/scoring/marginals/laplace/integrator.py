"""From a model to one without its block of normal parameters, where there is one worth it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.curved import Curve, climbed, curve_at
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.affine import is_hard, is_multiplied
from synthstats_lightning.scoring.marginals.laplace.predictor import find_predictor
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated

EASY = 15
"""Dimensions up to which estimators take a whole model well unless other parameters scale the block."""
FEWEST = 5
"""Dimensions of a block below which it is not worth it, unless other parameters, few of them, multiply it."""
FEWEST_MULTIPLIED = 3
"""The same then: draws of the whole model miss the tails of a product, and waves of unknown period have many
modes."""
MOST_LEFT = 12
"""Most dimensions that may be left."""
MOST_LEFT_OF_MANY = 24
"""Likewise, where nothing else can be integrated out of a model: scales of single coefficients, say."""
MAX_BLOCK = 400
"""Most dimensions of a block whose factor takes more than `LITTLE_COST`."""
LITTLE_COST = 5e5
"""Multiplications of the factor of chains, or of groups that little ties together."""
MAX_SPARSE = 1_000
"""Most dimensions of such a block: leave-one-out takes its covariance as a matrix."""
MAX_ROWS = 2_500
"""Most rows of a response that differ: leave-one-out follows each row through those that it moves."""
MAX_COST = 3e7
"""Most multiplications for one particle: a score takes some thousand particles, each several steps."""
TOLERANCE = 1e-8
"""Largest relative difference between the affine maps and the graph."""
FEWEST_CURVED = 9
"""Dimensions left from which on they are straightened: proposals fit bent posteriors of fewer well enough."""
SCOUTS = 64
"""Prior draws of the other parameters among which the first is chosen from which searches start."""


def integrate_laplace_of_many(density: Density) -> LaplaceIntegrated | None:
    """As `integrate_laplace`, with more dimensions left.

    Args:
        density: The model with its data.
    """
    return integrate_laplace(density, MOST_LEFT_OF_MANY)


def integrate_laplace(density: Density, most_left: int = MOST_LEFT) -> LaplaceIntegrated | None:
    """A model without the normal parameters that reach its response through one affine predictor.

    Args:
        density: The model with its data.
        most_left: Most dimensions that may be left.

    Returns:
        `None` where there is no such block, where it is not worth it or costs too much, and where the numeric
        check of its being affine fails.
    """
    compiled = density.distinct.compiled
    predictor = find_predictor(compiled)
    if predictor is None or compiled.num_observations > MAX_ROWS:
        return None
    size = sum(p.size for p in density.parameters if p.node in predictor.block)
    if not FEWEST_MULTIPLIED <= size <= MAX_SPARSE or density.dimension - size > most_left:
        return None
    constant = [value is not None for value in compiled.constants]
    few = density.dimension <= EASY and is_multiplied(compiled.graph, constant, predictor.block)
    if size < FEWEST and not few:
        return None
    if density.dimension <= EASY and not is_hard(compiled.graph, constant, predictor.block):
        return None
    target = LaplaceIntegrated(density, predictor)
    factor = size**3 / 3 if target.shape is None else target.shape.pattern.cost
    if size > MAX_BLOCK and factor > LITTLE_COST:
        return None
    entries = target.block.entries(predictor.node)
    elements = target.likelihood.elements
    if factor + elements * min(16 * entries**2, size**2) > MAX_COST:
        return None
    if not target.block.check() <= TOLERANCE:
        return None
    with torch.inference_mode(False), torch.no_grad():
        scouts = target.sample_prior(SCOUTS if target.dimension else 1, torch.Generator().manual_seed(0))
        every = torch.ones(target.num_observations, dtype=torch.bool)
        total = target.smooth.log_likelihood_given(scouts, every)
        best = scouts[total.argmax()]
        if target.dimension >= FEWEST_CURVED:
            curve = curve_of(target, best)
            if curve is not None:
                target, best = target.along(curve), torch.zeros_like(best)
        return target.started_at(best[None])


def curve_of(target: LaplaceIntegrated, start: Float[Tensor, " dim"]) -> Curve | None:
    """Coordinates that follow the bends of the posterior of the parameters that are left.

    Args:
        target: The model without its block.
        start: Parameters at which the search for their mode begins.

    Returns:
        `None` where no mode is found.
    """
    smooth = target.smooth
    every = torch.ones(target.num_observations, dtype=torch.bool)

    def log_density(theta: Tensor) -> Tensor:
        return smooth.log_prior(theta) + smooth.log_likelihood_given(theta, every)

    peak = climbed(log_density, start)
    return None if peak is None else curve_at(log_density, peak.theta, peak.precision)

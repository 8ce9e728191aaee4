"""The search for a block's mode where the likelihood is not concave."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import optimize

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.laplace.likelihood import Sites
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.proposal import prior_of, propose

SIZE, PARTICLES = 6, 3
Y = torch.tensor([0.0, 3.0, -40.0, 8.0, 0.5, 90.0], dtype=torch.float64)
WIDTH = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)[:, None]
"""Scale of the Cauchy noise at each particle."""


def log_likelihood(x: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    return -torch.log1p(((x - Y) / width).square()) - torch.log(math.pi * width)


def walk() -> Rows:
    """A random walk of step 1.5 from 0."""
    columns = torch.tensor([[place, place - 1 if place else SIZE] for place in range(SIZE)])
    coefficients = torch.tensor([[1.0, -1.0 if place else 0.0] for place in range(SIZE)], dtype=torch.float64)
    affine = Affine(columns, coefficients[None], torch.zeros(1, SIZE, dtype=torch.float64))
    scale = torch.full((1, 1), 1.5, dtype=torch.float64)
    return Rows(affine, scale, torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.bool))


def log_density(x: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    steps = torch.diff(x, prepend=torch.zeros(1, dtype=torch.float64))
    return -0.5 * (steps / 1.5).square().sum() + log_likelihood(x, width).sum()


@pytest.mark.parametrize("away", [0.0, 30.0])
def test_steps_that_go_too_far_are_cut_and_a_mode_is_found(away):
    asked = []

    def sites_at(index: torch.Tensor, predictor: torch.Tensor) -> Sites:
        width, gap = WIDTH[index], predictor - Y
        below = width.square() + gap.square()
        curvature = 2 * (width.square() - gap.square()) / below.square()
        return Sites(log_likelihood(predictor, width), -2 * gap / below, curvature.clamp_min(1e-10))

    def total_at(index: torch.Tensor, predictors: torch.Tensor) -> torch.Tensor:
        asked.append(tuple(predictors.shape))
        return log_likelihood(predictors, WIDTH[index][:, None]).sum(-1)

    identity = torch.arange(SIZE)[:, None]
    ones, zeros = torch.ones(1, SIZE, 1, dtype=torch.float64), torch.zeros(1, SIZE, dtype=torch.float64)
    start = torch.full((PARTICLES, SIZE), away, dtype=torch.float64)
    found = propose(
        prior_of([walk()], SIZE, PARTICLES),
        Design(Affine(identity, ones, zeros), SIZE),
        sites_at,
        total_at,
        start,
    )
    assert asked
    assert {shape[1:] for shape in asked} == {(10, SIZE)}
    assert bool(found.log_mass.isfinite().all())
    for particle in range(PARTICLES):
        width = WIDTH[particle]

        def minus(x, width=width):
            return -float(log_density(torch.from_numpy(x), width))

        mode = found.mean[particle].numpy()
        nearest = optimize.minimize(minus, mode, method="BFGS", options={"gtol": 1e-7})
        assert abs(nearest.x - mode).max() < 1e-4
        assert -minus(mode) >= float(log_density(start[particle], width))

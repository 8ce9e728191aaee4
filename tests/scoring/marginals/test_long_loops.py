"""Programs that loop over single numbers, in some thousand nodes, against the same loop in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import torch
from numpy.typing import NDArray
from scipy import stats

from synthstats_lightning.programs.canonical import canonical_model
from synthstats_lightning.scoring.marginals.density import build_density
from tests.scoring.marginals.test_labels import graph_of

YEARS, STEPS, STEP = 20, 20, 0.05
PELTS = np.round(np.random.default_rng(1).lognormal(3.3, 0.5, YEARS + 1), 1)


def rates(hares: Any, lynx: Any, birth: Any) -> tuple[Any, Any]:
    return hares * (birth - 0.03 * lynx), lynx * (0.02 * hares - 0.8)


def predators(y: Any) -> None:
    """Euler's steps of hares and lynx, one after the other."""
    birth = pm.LogNormal("birth", -0.6, 0.3)
    hares, lynx = pm.LogNormal("first", 3.0, 0.3), pt.as_tensor(6.0)
    path = [hares]
    for _ in range(YEARS):
        for _ in range(STEPS):
            more, others = rates(hares, lynx, birth)
            hares, lynx = hares + STEP * more, lynx + STEP * others
        path.append(hares)
    pm.LogNormal("y", pt.log(pt.stack(path)), 0.3, observed=y)


def likelihood(birth: float, first: float) -> float:
    hares, lynx = first, 6.0
    path = [hares]
    for _ in range(YEARS):
        for _ in range(STEPS):
            more, others = rates(hares, lynx, birth)
            hares, lynx = hares + STEP * more, lynx + STEP * others
        path.append(hares)
    return float(stats.lognorm.logpdf(PELTS, 0.3, scale=path).sum())


def test_hundreds_of_steps_of_two_species_are_those_of_numpy() -> None:
    graph = graph_of(predators, covariates={}, rows=len(PELTS))
    assert len(graph.nodes) > 2_000
    density = build_density(canonical_model(graph).graph, {}, PELTS)
    centre = torch.tensor([[-0.6, 3.0], [3.0, -0.6]], dtype=torch.float64)
    first = int(density.log_prior(centre).argmin())  # which of the columns is the first number of hares
    points = torch.tensor([[-0.7, 3.1], [-0.5, 2.8]], dtype=torch.float64)
    theta = (points if first else points.flip(1)).requires_grad_(True)
    found = density.log_likelihood(theta).sum(1)
    (gradient,) = torch.autograd.grad(found.sum(), theta)

    def at(values: NDArray[np.float64]) -> float:
        return likelihood(float(np.exp(values[1 - first])), float(np.exp(values[first])))

    for s, values in enumerate(theta.detach().numpy()):
        np.testing.assert_allclose(found[s].item(), at(values), rtol=1e-9)
        for k in range(2):
            shift = np.zeros(2)
            shift[k] = 1e-5
            slope = (at(values + shift) - at(values - shift)) / 2e-5
            np.testing.assert_allclose(gradient[s, k].item(), slope, rtol=1e-5)

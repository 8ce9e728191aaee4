"""Sums of normal steps, integrated out as random walks, against their covariance in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock
from synthstats_lightning.scoring.marginals.integration import completed, integrate, whole_model
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from synthstats_lightning.scoring.marginals.walks import with_walks
from tests.scoring.marginals.test_density import Builder

STEPS, SERIES = 20, 3
RNG = np.random.default_rng(7)
VALUE = np.cumsum(RNG.normal(0.1, 0.5, STEPS)) + RNG.normal(0, 0.3, STEPS)
COUNT = RNG.poisson(2.0, STEPS)
POINTS = {"width": (-0.4, 0.8), "sigma": (0.2, -0.3), "free": (0.3, -0.5)}
"""Logs of the steps' scale and the rows', and a free number."""


def spelled(name: str, response: str = "Normal") -> Density:
    """A level that is the sum of normal steps, as people write it."""
    b = Builder()
    width = b.random("HalfNormal", "width", 0.0, 1.0)
    b.named["unrelated"] = b.op("mul", width, b.lift(2.0))
    sigma = b.random("HalfNormal", "sigma", 0.0, 1.0)
    # not normal, so that it is left
    free = b.random("Logistic", "free", 0.0, 0.1)
    length = STEPS - 1 if name == "after a first value" else STEPS
    drift = b.constant(np.linspace(0.0, 0.2, STEPS).tolist())
    scale = b.lift(0.5) if name == "own mean and scale" else b.lift(1.0)
    e = b.random("Normal", "e", drift if name == "own mean and scale" else 0.0, scale, shape=(length,))
    if name == "factor before":
        level = b.op("cumsum", b.op("mul", e, width), axis=0)
    elif name == "factor after":
        level = b.op("div", b.op("mul", b.op("cumsum", e, axis=0), width), b.lift(2.0))
    elif name == "drift, less":
        level = b.op("cumsum", b.op("sub", free, b.op("div", e, width)), axis=0)
    elif name == "own mean and scale":
        level = b.op("cumsum", b.op("add", b.op("neg", e), b.op("mul", drift, free)), axis=0)
    else:
        first = b.op("stack", free, axis=0)
        level = b.op("cumsum", b.op("concatenate", first, b.op("mul", e, width), axis=0), axis=0)
    b.named["scaled"] = b.op("mul", level, b.lift(3.0))
    if response == "Poisson":
        b.random("Poisson", "y", b.op("exp", level), shape=(STEPS,))
        return b.density({}, COUNT)
    b.random("Normal", "y", level, sigma, shape=(STEPS,))
    return b.density({}, VALUE)


def moments(name: str, width: float, free: float) -> tuple[Any, Any]:
    """Mean of the level, and what makes it of the standardised steps."""
    sums = np.tril(np.ones((STEPS, STEPS)))
    drift = np.linspace(0.0, 0.2, STEPS)
    if name == "factor before":
        return np.zeros(STEPS), width * sums
    if name == "factor after":
        return np.zeros(STEPS), 0.5 * width * sums
    if name == "drift, less":
        return sums @ np.full(STEPS, free), -sums / width
    if name == "own mean and scale":
        return sums @ (drift * free - drift), -0.5 * sums
    return np.full(STEPS, free), width * sums[:, 1:]


def walks(target: Any) -> list[str]:
    """Names of the parameters that are random walks."""
    return [p.name for p in target.density.parameters if p.distribution.name.startswith("RandomWalk")]


def points(target: Any) -> torch.Tensor:
    """`POINTS` in the order of a target's columns."""
    names = [p.name for p in target.density.parameters if p.name in POINTS]
    return torch.tensor([POINTS[name] for name in names], dtype=torch.float64).T


NAMES = ("factor before", "factor after", "drift, less", "own mean and scale", "after a first value")


@pytest.mark.parametrize("name", NAMES)
def test_the_likelihood_is_that_of_the_covariance(name: str) -> None:
    target = integrate(spelled(name))
    assert isinstance(target, GaussianBlock)
    assert target.dimension == 3
    assert walks(target) == ["e"]
    found = target.log_likelihood_given(points(target), torch.ones(STEPS, dtype=torch.bool))
    for log_width, log_sigma, free, own in zip(*POINTS.values(), found.tolist(), strict=True):
        mean, matrix = moments(name, np.exp(log_width), free)
        cov = matrix @ matrix.T + np.exp(2 * log_sigma) * np.eye(STEPS)
        assert own == pytest.approx(stats.multivariate_normal(mean, cov).logpdf(VALUE), abs=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_steps_as_they_were_written(name: str) -> None:
    target = integrate(spelled(name))
    theta = points(target)[:1].expand(4_000, -1)
    every = torch.ones(STEPS, dtype=torch.bool)
    draws = completed(target, theta, torch.Generator().manual_seed(0), every)
    named = {**draws.density.constrain(draws.theta), **draws.density.deterministics(draws.theta)}
    assert set(named) == {"width", "sigma", "free", "e", "scaled", "unrelated"}
    log_width, log_sigma, free = (each[0] for each in POINTS.values())
    mean, matrix = moments(name, np.exp(log_width), free)
    # the level's posterior mean, given which the written steps make it
    cov = matrix @ matrix.T
    gain = cov @ np.linalg.inv(cov + np.exp(2 * log_sigma) * np.eye(STEPS))
    expected = mean + gain @ (VALUE - mean)
    level = named["scaled"] / 3.0
    torch.testing.assert_close(level.mean(0), torch.from_numpy(expected), atol=0.06, rtol=0.0)
    # and again from the steps, by the model as it was written
    original = spelled(name)
    columns = torch.cat([column(named, p.name) for p in original.parameters], 1)
    again = original.deterministics(columns)["scaled"] / 3.0
    torch.testing.assert_close(again, level, atol=1e-9, rtol=1e-9)


def column(named: dict[str, Any], name: str) -> torch.Tensor:
    """Unconstrained values of a parameter."""
    value = named[name].log() if name in ("width", "sigma") else named[name]
    flat: torch.Tensor = value.reshape(len(value), -1)
    return flat


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_integrated_as_walks_too(name: str) -> None:
    density = spelled(name, "Poisson")
    target = integrate(density)
    assert isinstance(target, LaplaceIntegrated)
    assert walks(target) == ["e"]


@pytest.mark.parametrize("axis", [0, 1])
def test_several_walks_at_once(axis: int) -> None:
    b = Builder()
    width = b.random("HalfNormal", "width", 0.0, 1.0, shape=(SERIES,))
    shape = (STEPS, SERIES) if axis == 0 else (SERIES, STEPS)
    e = b.random("Normal", "e", 0.0, 1.0, shape=shape)
    each = width if axis == 0 else b.op("reshape", width, shape=[SERIES, 1])
    level = b.op("cumsum", b.op("mul", e, each), axis=axis)
    flat = b.op("reshape", level, shape=[STEPS * SERIES])
    b.random("Normal", "y", flat, 0.5, shape=(STEPS * SERIES,))
    value = RNG.normal(size=STEPS * SERIES)
    target = integrate(b.density({}, value))
    assert isinstance(target, GaussianBlock)
    assert target.dimension == SERIES
    assert walks(target) == ["e"]
    theta = torch.tensor([[-0.4, 0.2, 0.3]], dtype=torch.float64)
    (own,) = target.log_likelihood_given(theta, torch.ones(STEPS * SERIES, dtype=torch.bool)).tolist()
    sums = np.tril(np.ones((STEPS, STEPS)))
    rows = value.reshape(shape) if axis == 1 else value.reshape(shape).T
    expected = sum(
        stats.multivariate_normal(np.zeros(STEPS), w**2 * sums @ sums.T + 0.25 * np.eye(STEPS)).logpdf(row)
        for w, row in zip(theta.exp()[0].tolist(), rows, strict=True)
    )
    assert own == pytest.approx(expected, abs=1e-8)


def few_steps(b: Builder) -> int:
    """A sum of fewer steps than are worth it, spread over the rows."""
    e = b.random("Normal", "e", 0.0, 1.0, shape=(4,))
    index = b.constant(np.repeat(np.arange(4), STEPS // 4).tolist(), "int64")
    return b.op("take", b.op("cumsum", e, axis=0), index, axis=0)


def read_twice(b: Builder) -> int:
    """Steps that are read beside their sum."""
    e = b.random("Normal", "e", 0.0, 1.0, shape=(STEPS,))
    return b.op("add", b.op("cumsum", e, axis=0), e)


def of_others(b: Builder) -> int:
    """A sum of steps that are not normal."""
    e = b.random("StudentT", "e", 4.0, 0.0, 1.0, shape=(STEPS,))
    return b.op("cumsum", e, axis=0)


@pytest.mark.parametrize("level", [few_steps, read_twice, of_others])
def test_what_is_no_sum_of_normal_steps_stays_as_it_is(level: Any) -> None:
    b = Builder()
    b.random("Normal", "y", level(b), b.random("HalfNormal", "sigma", 0.0, 1.0), shape=(STEPS,))
    compiled = b.density({}, VALUE).compiled
    assert with_walks(compiled.graph, compiled.shapes) is compiled.graph


def test_a_walk_that_nothing_integrates_leaves_the_model_as_it_was_written() -> None:
    b = Builder()
    e = b.random("Normal", "e", 0.0, 1.0, shape=(STEPS,))
    level = b.op("cumsum", e, axis=0)
    # rows that read two places of it, one of them in their scale
    back = b.op("take", level, b.constant(list(range(STEPS))[::-1], "int64"), axis=0)
    b.random("Normal", "y", level, b.op("exp", back), shape=(STEPS,))
    density = b.density({}, VALUE)
    target = integrate(density)
    assert {p.name: p.distribution.name for p in whole_model(target).parameters} == {"e": "Normal"}

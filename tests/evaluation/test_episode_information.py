"""What experiments were expected to tell: closed form, potentials, and environments without noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.evaluation.episode_information import EpisodeInformation
from synthstats_lightning.tasks.experiments import ExperimentTask
from synthstats_lightning.tasks.experiments.episode import ExperimentEpisode, Turn

PRIOR, NOISE = 0.8, 0.5


class Line:
    """y ~ N(slope * x, 0.5), slope ~ N(0, 0.8): every posterior and gain has a closed form."""

    response = "y"
    independent_latents = True

    def sample_latents(self, rng, size):
        return {"slope": rng.normal(0, PRIOR, size)}

    def simulate(self, latents, covariates, rng):
        mean = latents["slope"][:, None] * covariates["x"]
        return mean + NOISE * rng.standard_normal(mean.shape)

    def log_likelihood(self, latents, covariates, response):
        return stats.norm(latents["slope"][:, None] * covariates["x"], NOISE).logpdf(response)


class Exact(Line):
    """The same without noise."""

    def simulate(self, latents, covariates, rng):
        return latents["slope"][:, None] * covariates["x"]

    def log_likelihood(self, latents, covariates, response):
        hit = self.simulate(latents, covariates, None) == response
        return np.where(hit, 0.0, -np.inf)


class ToyTask:
    """An environment of which only the simulator is read."""

    experiments = turns = 9

    def __init__(self, simulator: Any) -> None:
        self.simulator = simulator

    def unused(self, *_: Any) -> Any:
        raise AssertionError("only the simulator is read")

    read_design = shown = given = holding_out = unused


def episode(points, simulator, other_turns=()):
    made = ExperimentEpisode(ToyTask(simulator))
    made.observed = [{"x": np.array([x]), "y": np.array([y])} for x, y in points]
    made.turns = [Turn("", kind) for kind in (*["observe"] * len(points), *other_turns, "submit")]
    return made


def test_gains_of_a_line_against_the_closed_form():
    points = [(1.0, 0.9), (2.0, 1.2), (0.0, 0.3), (3.0, 2.0)]
    found = EpisodeInformation(particles=4000, outer=2000, inner=200).gains(
        episode(points, Line(), ["invalid"])
    )
    precision, exact = PRIOR**-2, []
    for x, _ in points:
        exact.append(0.5 * np.log1p(x**2 / (precision * NOISE**2)))
        precision += x**2 / NOISE**2
    assert len(found) == 6
    assert found[4:] == (0.0, 0.0)  # no experiments
    np.testing.assert_allclose(found[:4], exact, atol=0.06)


def test_gains_do_not_depend_on_what_follows():
    task = ExperimentTask("death_process", seed=1, experiments=3)
    first, second = task.begin(), task.begin()
    for one, written in ((first, ("1.0", "0.5")), (second, ("1.0", "2.5"))):
        for time in written:
            one.answer(f"<observe>{time}</observe>")
        one.answer("<program>x</program>")
    information = EpisodeInformation()
    a, b = information.gains(first), information.gains(second)
    assert len(a) == 3
    assert a[0] == b[0] > 0.2
    assert a[1] != b[1]
    assert a[2] == b[2] == 0.0
    assert EpisodeInformation().gains(second) == b  # in another process
    nothing = task.begin()
    nothing.answer("what?")
    assert information.gains(nothing) == (0.0,)


def test_an_environment_without_noise_tells_nothing_more():
    found = EpisodeInformation(particles=200).gains(episode([(1.0, 0.9), (2.0, 1.8)], Exact()))
    assert found[0] > 0
    assert found[1:] == (0.0, 0.0)


def test_numbers_out_of_range():
    with pytest.raises(ValueError, match="inner must be at least 2, got 1"):
        EpisodeInformation(inner=1)

"""Experiments judged by the program that they led to, against the closed form of a conjugate model."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning import ProgramScorer
from synthstats_lightning.evaluation.design_value import design_values
from synthstats_lightning.tasks.experiments import ExperimentTask

LINEAR = """with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    pm.Normal("y", a*age, 0.5, observed=length)"""


def gain(age, before):
    """0.5 log(1 + age² v / 0.25) with the variance v of the slope given the ages before."""
    variance = 1 / (1 + sum(other**2 for other in before) / 0.25)
    return 0.5 * np.log1p(age**2 * variance / 0.25)


@pytest.mark.slow
def test_gains_of_a_line_through_the_origin():
    task = ExperimentTask("dugongs_simulator", seed=2, experiments=3)
    episode = task.begin()
    for age in (2.0, 0.5):
        episode.answer(f"<observe>{age}</observe>")
    episode.answer(f"<program>{LINEAR}</program>")
    with ProgramScorer(1) as scorer:
        values = design_values(scorer, episode, alternatives=6, outer=2000, inner=1000)
    rng = np.random.default_rng(0)
    others = [task.simulator.random_design(rng)["age"] for _ in range(6)]
    for value, age, before in zip(values, (2.0, 0.5), ((), (2.0,)), strict=True):
        assert value.gain == pytest.approx(gain(age, before), abs=5 * value.standard_error + 0.02)
        best = max(gain(other, before) for other in (age, *others))
        assert value.best == pytest.approx(best, abs=0.15)
        assert value.regret == pytest.approx(value.best - value.gain)
        assert value.regret >= 0


def test_what_cannot_be_judged():
    episode = ExperimentTask("dugongs_simulator", seed=2).begin()
    episode.answer("<observe>1</observe>")
    scorer = ProgramScorer(1)  # never started
    with pytest.raises(ValueError, match="the episode submitted no program"):
        design_values(scorer, episode)
    with pytest.raises(ValueError, match="alternatives must be at least 0, got -1"):
        design_values(scorer, episode, LINEAR, alternatives=-1)

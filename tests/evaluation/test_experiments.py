"""Experiments and what they could have told."""

import numpy as np
import pytest

from synthstats_lightning.evaluation.experiments import design_regrets, run_experiments
from synthstats_lightning.evaluation.latent_particles import ImpossibleResponseError
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.tasks.simulators import SIMULATORS, DesignError

FEW = EvaluationSettings(eig_candidates=15, eig_outer=150, eig_inner=15, eig_particles=300)


def started(name, seed=1):
    simulator = SIMULATORS[name]()
    simulator.reset(seed)
    return simulator


@pytest.mark.parametrize("name", sorted(SIMULATORS))
def test_random_experiments_on_every_environment(name):
    simulator = started(name)
    made = run_experiments(simulator, 10)
    again = run_experiments(started(name), 10)
    assert made.designs == again.designs
    assert len(made.designs) == (8 if name == "eight_schools_simulator" else 10)
    rows = made.rows(3)
    assert set(rows) == set(simulator.columns)
    assert all(len(values) == 3 * simulator.rows_per_design for values in rows.values())
    for column, values in rows.items():
        np.testing.assert_array_equal(values, made.rows(10)[column][: len(values)])


@pytest.mark.parametrize("name", sorted(set(SIMULATORS) - {"lotka_volterra"}))
def test_every_environment_has_regrets(name):
    simulator = started(name)
    made = run_experiments(simulator, 2)
    regrets = design_regrets(simulator, made, 1, FEW)
    assert len(regrets) == 2
    assert all(0 <= regret < 10 for regret in regrets)
    assert regrets == design_regrets(simulator, made, 1, FEW)


def test_regrets_with_differential_equations():
    few = EvaluationSettings(eig_candidates=5, eig_outer=30, eig_inner=30, eig_particles=100)
    simulator = started("lotka_volterra")
    regrets = design_regrets(simulator, run_experiments(simulator, 1), 1, few)
    assert 0 <= regrets[0] < 15


def test_an_environment_without_noise_has_none():
    simulator = SIMULATORS["lotka_volterra"]("boxing_gym")
    simulator.reset(1)
    few = EvaluationSettings(eig_candidates=2, eig_outer=5, eig_inner=2, eig_particles=20)
    made = run_experiments(simulator, 1, lambda simulator, made: {"time": 30.0})
    with pytest.raises(ImpossibleResponseError):
        design_regrets(simulator, made, 1, few)


def test_a_useless_experiment_is_regretted():
    """Time next to 0 tells nothing of the rate of infection, later times do."""
    simulator = started("death_process")
    useless, sensible = (
        run_experiments(started("death_process"), 1, lambda simulator, made, t=t: {"time": t})
        for t in (0.0005, 1.0)
    )
    bad, good = (design_regrets(simulator, made, 1, FEW)[0] for made in (useless, sensible))
    assert bad > 0.8
    assert good < 0.5


def test_designs_that_are_chosen():
    seen = []

    def choose(simulator, made):
        seen.append(len(made.designs))
        return {"age": 1.0 + len(made.designs)}

    made = run_experiments(started("dugongs_simulator"), 3, choose)
    assert seen == [0, 1, 2]
    assert [design["age"] for design in made.designs] == [1.0, 2.0, 3.0]
    with pytest.raises(DesignError, match="age"):
        run_experiments(started("dugongs_simulator"), 1, lambda simulator, made: {"age": -1.0})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budgets": (3, 1)}, "budgets must be different numbers from 0 in ascending order"),
        ({"budgets": ()}, "budgets"),
        ({"seeds": (1, 1)}, "seeds must be different"),
        ({"points": 0}, "points must be at least 1, got 0"),
        ({"eig_inner": 1}, "eig_inner must be at least 2, got 1"),
        ({"eig_candidates": -1}, "eig_candidates"),
        ({"log_density_floor": 0.0}, "log_density_floor must be below 0"),
    ],
)
def test_settings_out_of_range(change, words):
    with pytest.raises(ValueError, match=words):
        EvaluationSettings(**change)

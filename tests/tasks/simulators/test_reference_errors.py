"""Constant-predictor and oracle errors against those measured elsewhere (the table that the issue names)."""

import numpy as np
import pytest

from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.simulators.balanced import UnbalancedError
from synthstats_lightning.tasks.simulators.reference_errors import reference_errors

HALF = (0.5, 1e-9)
"""Balanced points: either class is wrong half of the time."""

# name, variant, mean (value, own error of the table), sd, median, oracle; None: heavy tail, or not given
TABLE = {
    "dugongs": ("dugongs_simulator", "boxing_gym", (0.405, 0.01), None, (0.225, 0.01), (0.060, 0.001)),
    "peregrines": ("peregrines_simulator", "boxing_gym", (7843, 150), (18247, 3000), (3249, 150), (216, 6)),
    # cutting the oracle's prediction to a whole number adds the mean square of a uniform fraction, a third
    "death": ("death_process", "boxing_gym", (222.9, 1), (190.6, 2), (169, 12), (8.2 + 1 / 3, 0.1)),
    "death, not cut": ("death_process", "corrected", (222.9, 1), (190.6, 2), None, (8.2, 0.1)),
    "location": ("location_finding", "boxing_gym", None, None, (36, 5), (0.0, 1e-9)),
    "hyperbolic": ("hyperbolic_discounting", "boxing_gym", HALF, HALF, None, (0.026, 0.003)),
    "survival": ("survival", "boxing_gym", HALF, HALF, None, (0.5, 1e-3)),
    "item response": ("item_response", "boxing_gym", HALF, HALF, None, (0.33, 0.01)),
    "predator and prey": ("lotka_volterra", "boxing_gym", (1.90, 0.03), None, None, (0.0, 1e-9)),
    "morals": ("moral_machines", "boxing_gym", HALF, HALF, None, None),
    "morals, unbalanced": ("moral_machines", "corrected", (0.45, 0.005), None, None, (0.18, 0.005)),
    "emotion": ("emotion", "corrected", (1.10, 0.01), (0.44, 0.01), None, (0.51, 0.01)),
    "emotion, by number": ("emotion", "boxing_gym", (1.05, 0.01), (0.36, 0.01), None, (2.31, 0.1)),
}


def check(row, instances):
    name, variant, mean, sd, median, oracle = TABLE[row]
    got = reference_errors(SIMULATORS[name](variant), instances=instances)
    root = np.sqrt(instances)
    if mean is not None:
        assert got.mean == pytest.approx(mean[0], abs=4 * got.mean_se + 2 * mean[1])
    if sd is not None:
        assert got.sd == pytest.approx(sd[0], abs=2 * sd[1] + 4 * got.sd / root)
    if median is not None:
        assert got.median == pytest.approx(median[0], abs=2 * median[1] + 4 * got.median / root)
    if oracle is not None:
        assert got.oracle == pytest.approx(oracle[0], abs=4 * got.oracle_se + 2 * oracle[1])
    assert got.instances == instances
    assert got.skipped == 0


@pytest.mark.parametrize("row", TABLE)
def test_table(row):
    check(row, 150)


@pytest.mark.slow
@pytest.mark.parametrize("row", TABLE)
def test_table_with_many_instances(row):
    check(row, 10_000)


def test_parameter_rows():
    infection = reference_errors(SIMULATORS["death_process"](), "infection", 100_000)
    assert infection.mean == pytest.approx(0.2912, abs=0.004)
    assert infection.oracle == 0.0
    discount = reference_errors(SIMULATORS["hyperbolic_discounting"](), "discount", 100_000)
    # variance of a log-normal variable
    k = np.exp(2 * -4.25 + 0.25) * (np.exp(0.25) - 1)
    assert discount.mean == pytest.approx(k, rel=0.04)
    assert k == pytest.approx(7.41e-5, rel=0.01)
    assert discount.sd == pytest.approx(2.1e-4, rel=0.1)


def test_zeros_as_sources():
    simulator = SIMULATORS["location_finding"]()
    truth = simulator.sample_latents(np.random.default_rng(0), 100_000)["sources"]
    error = simulator.goals["source"].errors(np.zeros_like(truth), truth)
    # the mean of six squared standard normal variables: one, with standard deviation sqrt(2 / 6)
    assert error.mean() == pytest.approx(1.0, abs=0.008)
    assert error.std() == pytest.approx(np.sqrt(1 / 3), abs=0.008)
    # an answer that spreads out is a better constant than zeros
    assert reference_errors(simulator, "source", 20_000).mean < 0.9


def test_simple_rules_of_the_table():
    """Rules that know no instance: fixed discounting, death by metastasis, populations as at the start."""
    wrong = {"discount": [], "metastasis": [], "start": [], "number": []}
    discounting, survival = (
        SIMULATORS["hyperbolic_discounting"]("boxing_gym"),
        SIMULATORS["survival"]("boxing_gym"),
    )
    populations, emotion = SIMULATORS["lotka_volterra"]("boxing_gym"), SIMULATORS["emotion"]("boxing_gym")
    for seed in range(100):
        for simulator in (discounting, survival, populations, emotion):
            simulator.reset(1000 + seed)
        rows = discounting.evaluation_points(10)
        worth = rows["delayed_reward"] / (1 + np.exp(-4.25) * rows["days"])
        wrong["discount"].append(np.mean((worth > rows["immediate_reward"]) != rows["choice"]))
        rows = survival.evaluation_points(10)
        wrong["metastasis"].append(np.mean(rows["metastasised"] != rows["died"]))
        truth = populations.evaluation_points(10)["population"]
        wrong["start"].append(np.abs(truth - np.tile([40, 9], 10)).mean())
        rows = emotion.evaluation_points(10)
        truth = rows.pop("rating")
        prizes = np.stack([rows[f"prize_{number}"] for number in (1, 2, 3)])
        number = (prizes == rows["win"]).argmax(0).astype(float)
        oracle = emotion.mean(emotion.latents_batch, {**rows, "win": number})[0]
        wrong["number"].append(np.abs(oracle - truth).mean())
    for rule, expected, allowed in (
        ("discount", 0.098, 0.01),
        ("metastasis", 0.327, 0.01),
        ("start", 2.24, 0.1),
        ("number", 0.60, 0.02),
    ):
        se = np.std(wrong[rule]) / np.sqrt(100)
        assert np.mean(wrong[rule]) == pytest.approx(expected, abs=4 * se + allowed), rule


def test_seeded_and_without_hidden_state():
    simulator = SIMULATORS["dugongs_simulator"]()
    first = reference_errors(simulator, instances=20)
    second = reference_errors(SIMULATORS["dugongs_simulator"](), instances=20)
    assert first.mean == second.mean
    assert reference_errors(simulator, instances=20, seed=1).mean != first.mean
    np.testing.assert_allclose(first.constant, second.constant)


def test_instances_that_cannot_be_balanced_are_counted():
    rare = SIMULATORS["item_response"](
        "boxing_gym", mode="3pl", num_students=1, num_questions=3, num_evaluation=2
    )
    got = reference_errors(rare, instances=100, points=2)
    assert got.skipped > 10
    assert got.instances == 100 - got.skipped
    certain = SIMULATORS["survival"]("boxing_gym", baseline_shape=1e6, baseline_rate=1.0)
    with pytest.raises(UnbalancedError, match="none of 2 instances of survival has 10 evaluation points"):
        reference_errors(certain, instances=2)


def test_spread_of_single_counts():
    """The table's spread for predators and prey is that of single counts, not of pairs."""
    simulator, rng = SIMULATORS["lotka_volterra"]("boxing_gym"), np.random.default_rng(0)
    latents = simulator.sample_latents(rng, 10_000)
    time = np.round(4 * rng.beta(2, 5, (10_000, 1)), 1)
    rows = {"time": np.repeat(time, 2, axis=1), "species": np.tile(np.arange(2), (10_000, 1))}
    counts = simulator.simulate(latents, rows, rng)
    error = np.abs(counts - counts.mean(0))
    assert error.mean() == pytest.approx(1.90, abs=0.08)
    assert error.std() == pytest.approx(2.43, abs=0.2)

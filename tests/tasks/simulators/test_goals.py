"""Parameter goals: their truths, errors, and point predictions from posterior draws."""

import itertools

import numpy as np
import pytest

from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.simulators.goal import weighted_mean, weighted_mode
from synthstats_lightning.tasks.simulators.location_finding import aligned_mean, unordered_errors

PARAMETER_GOALS = [
    (name, variant, goal)
    for name in SIMULATORS
    for variant in ("corrected", "boxing_gym")
    for goal in SIMULATORS[name](variant).goals
    if goal != "prediction"
]


@pytest.mark.parametrize(("name", "variant", "goal_name"), PARAMETER_GOALS)
def test_truth_has_the_declared_shape_and_no_error(name, variant, goal_name):
    simulator = SIMULATORS[name](variant)
    simulator.reset(4)
    goal = simulator.goals[goal_name]
    assert goal.name == goal_name
    assert goal.quantity.isidentifier()
    assert f'pm.Deterministic("{goal.quantity}", ...)' in goal.request
    truth = goal.truth_of(simulator.sample_latents(np.random.default_rng(0), 5))
    assert truth.shape == (5, *goal.shape)
    np.testing.assert_array_equal(goal.errors(truth, truth), np.zeros(5))
    own = goal.truth_of(simulator.latents_batch)[0]
    # a posterior that is sure and right has no error
    answer = goal.summarise(np.broadcast_to(own, (7, *goal.shape)), np.full(7, 1 / 7))
    assert answer.shape == goal.shape
    assert goal.errors(answer, own) == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("name", SIMULATORS)
def test_every_environment_predicts_and_has_a_parameter_goal(name):
    goals = SIMULATORS[name]().goals
    prediction = goals["prediction"]
    assert not prediction.request
    assert len(goals) > 1
    assert all(goal.question and goal.plain_question for goal in goals.values())
    with pytest.raises(TypeError, match="the truth of the goal 'prediction' is the response"):
        prediction.truth_of({})


def test_item_response_goals_read_the_table_or_the_latents():
    table = np.array([[[1, 0, 1], [1, 1, 1], [1, 0, 0]]])
    latents = {
        "ability": np.array([[2.0, 1.0, -1.0]]),
        "difficulty": np.array([[0.5, 0.0, 1.5]]),
        "discrimination": np.array([[0.3, -1.4, 0.9]]),
        "responses": table,
    }
    settings = {"num_students": 3, "num_questions": 3, "num_evaluation": 4}
    faithful, own = (
        SIMULATORS["item_response"]("boxing_gym", **settings),
        SIMULATORS["item_response"](**settings),
    )
    # rows hold 2, 3, 1 right answers; columns 3, 1, 2, with spreads 0, and twice that of one in three
    for goal, by_table, by_latents in (
        ("best_student", 1, 0),
        ("difficult_question", 1, 2),
        ("discriminating_question", 1, 1),
    ):
        assert faithful.goals[goal].truth_of(latents).tolist() == [by_table]
        assert own.goals[goal].truth_of(latents).tolist() == [by_latents]
    assert own.goals["best_student"].errors(np.array(1), np.array(0)) == 1.0
    assert own.goals["best_student"].errors(np.array(0.2), np.array(0)) == 0.0
    assert "discriminating_question" not in SIMULATORS["item_response"](mode="1pl").goals


def test_sources_have_no_order():
    rng = np.random.default_rng(0)
    truth, guess = rng.standard_normal((50, 3, 2)), rng.standard_normal((50, 3, 2))
    by_hand = [
        min(((np.array(order) - one) ** 2).mean() for order in itertools.permutations(other))
        for one, other in zip(truth, guess, strict=True)
    ]
    np.testing.assert_allclose(unordered_errors(guess, truth), by_hand, rtol=1e-12)
    np.testing.assert_allclose(unordered_errors(truth[:, [2, 0, 1]], truth), 0.0, atol=1e-30)
    assert unordered_errors(guess[0], truth[0]) == pytest.approx(by_hand[0])


def test_aligned_mean_of_shuffled_draws():
    rng = np.random.default_rng(1)
    truth = np.array([[2.0, 0.0], [-1.0, 1.0], [0.0, -2.0]])
    draws = truth + 0.1 * rng.standard_normal((4000, 3, 2))
    shuffled = np.stack([rng.permutation(draw) for draw in draws])
    weights = rng.dirichlet(np.ones(4000))
    answer = aligned_mean(shuffled, weights)
    assert unordered_errors(answer, truth) < 1e-4
    # a plain mean merges the sources
    assert unordered_errors(weighted_mean(shuffled, weights), truth) > 0.5
    # it agrees with the plain mean of the draws in their true order
    in_order = weighted_mean(draws, weights)
    assert unordered_errors(answer, in_order) == pytest.approx(0.0, abs=1e-20)


def test_weighted_mean_and_mode():
    draws, weights = np.array([0, 2, 2, 1]), np.array([0.4, 0.1, 0.2, 0.3])
    assert weighted_mean(draws, weights) == pytest.approx(0.9)
    assert weighted_mode(draws, weights) == 0
    assert weighted_mode(draws, np.full(4, 0.25)) == 2


def test_errors_of_predictions():
    cut = SIMULATORS["peregrines_simulator"]("boxing_gym")
    assert cut.errors(np.array([3.9, 4e9]), np.array([3, 0])).tolist() == [0.0, 1.6e19]
    kept = SIMULATORS["peregrines_simulator"]()
    np.testing.assert_allclose(kept.errors(np.array([3.9]), np.array([3])), [0.81])
    binary = SIMULATORS["survival"]()
    # decimal shares are thresholded, whatever digits they hold
    np.testing.assert_array_equal(binary.errors(np.array([0.081, 0.91, 0.4]), np.array([0, 1, 1])), [0, 0, 1])
    counts = SIMULATORS["lotka_volterra"]()
    np.testing.assert_allclose(counts.errors(np.array([3.0, 5.5]), np.array([4.0, 5.0])), [1.0, 0.5])

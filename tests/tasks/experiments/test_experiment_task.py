"""The environment's side of an episode, and the data that its program is scored on."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.tasks import task_prompt
from synthstats_lightning.tasks.experiments import ExperimentTask, ExperimentTasks
from synthstats_lightning.tasks.simulators import SIMULATORS

PROGRAM = "<program>with pm.Model() as model:\n    pass</program>"


def dugongs(**settings):
    return ExperimentTask("dugongs_simulator", **({"seed": 3, "experiments": 2} | settings))


def test_prompt_says_what_there_is_and_nothing_of_the_instance():
    request = task_prompt(dugongs()).request
    assert "age: continuous, 0 to 5 years" in request
    assert "response length: continuous" in request
    assert "design age: a number from 0 to 5 years" in request
    assert request.endswith("experiments: 2, turns: 5")
    assert task_prompt(dugongs(seed=4)).request == request
    assert not task_prompt(dugongs()).thinking
    assert task_prompt(dugongs(thoughts="latent")).thinking


def test_an_episode():
    task = dugongs()
    episode = task.begin()
    first = episode.answer("<observe>1.5</observe>")
    assert first == f"age = 1.5, length = {episode.observed[0]['length'][0]:.4g}\nexperiments left: 1"
    second = episode.answer('{"tool": "observe", "arguments": {"age": 0.5}}')
    assert second.endswith("experiments left: 0")
    assert episode.answer(PROGRAM) is None
    assert episode.program == "with pm.Model() as model:\n    pass"
    assert episode.failure is None
    assert [turn.kind for turn in episode.turns] == ["observe", "observe", "submit"]
    assert episode.designs == [{"age": 1.5}, {"age": 0.5}]
    with pytest.raises(RuntimeError, match="the episode is over"):
        episode.answer("more")


def test_observations_are_those_of_the_instance_and_depend_on_the_turns_alone():
    task = dugongs()
    episodes = [task.begin() for _ in range(2)]
    answers = [[each.answer(f"<observe>{age}</observe>") for age in (1, 2)] for each in episodes]
    assert answers[0] == answers[1]
    own = SIMULATORS["dugongs_simulator"]()
    own.reset(3)
    assert episodes[0].observed[0]["length"] == own.observe(1.0)["length"]
    assert dugongs(seed=4).begin().answer("<observe>1</observe>") != answers[0][0]


def test_refusals_cost_a_turn_and_are_clear():
    episode = dugongs().begin()
    assert episode.answer("<observe>9</observe>") == (
        "error: age must be a number from 0 to 5, got '9'\nturns left: 4"
    )
    assert episode.answer("<observe>x <|end|></observe>").startswith("error: ")
    assert "<|" not in episode.turns[-1].answer
    assert episode.answer("what?").startswith("error: the turn holds no action; write <observe>DESIGN")
    assert episode.answer("<observe>1</observe>").endswith("experiments left: 1")
    assert episode.answer("<observe>") is None
    assert episode.failure == (FailureCategory.TURNS, "5 turns without a program")


def test_experiments_beyond_the_budget():
    episode = dugongs(experiments=1, turns=3).begin()
    episode.answer("<observe>1</observe>")
    assert episode.answer("<observe>1</observe>") == (
        "error: no experiments are left; submit a program\nturns left: 1"
    )
    assert episode.answer("<observe>1</observe>") is None
    assert episode.failure[0] is FailureCategory.EXPERIMENTS
    assert len(episode.observed) == 1


def test_cut_turns_fail_and_every_episode_can_be_replayed():
    task = dugongs()
    episode = task.begin()
    episode.answer("<observe>1</observe>")
    episode.cut("<observe>2", "a turn has no stop token within 4 tokens")
    assert episode.failure == (
        FailureCategory.TRUNCATED,
        "turn 2: a turn has no stop token within 4 tokens",
    )
    again = task.replay(episode.state())
    assert again.failure == episode.failure
    assert again.turns == episode.turns
    assert again.observed[0]["length"] == episode.observed[0]["length"]


def test_observed_rows_condition_and_evaluation_points_count():
    task = dugongs(evaluation_points=7)
    assert (task.num_rows, task.shown_rows, task.held_out) == (7, 0, 7)
    nothing = task.begin()
    nothing.answer(PROGRAM)
    assert task.given(nothing) is task
    episode = task.begin()
    episode.answer("<observe>1</observe>")
    episode.answer("<observe>2</observe>")
    given = task.given(episode)
    assert (given.num_rows, given.shown_rows, given.held_out) == (9, 2, 7)
    assert given.data["age"][:2].tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(given.data["length"][2:], task.data["length"])
    truth = task.simulator.evaluation_points(7)
    np.testing.assert_array_equal(task.data["length"], truth["length"])
    assert given.fingerprint != task.fingerprint
    assert given.columns["length"] == task.columns["length"]


def test_without_domain_knowledge():
    task = dugongs(domain_knowledge=False)
    request = task_prompt(task).request
    for word in ("dugong", "age", "length"):
        assert word not in request
    assert "design x: a number from 0 to 5" in request
    episode = task.begin()
    assert episode.answer("<observe>x = 1</observe>").startswith("x = 1, y = ")
    assert "x must be a number" in episode.answer("<observe>7</observe>")
    assert list(task.given(episode).data) == ["x", "y"]


@pytest.mark.parametrize("name", sorted(SIMULATORS))
def test_every_simulator_has_episodes(name):
    task = ExperimentTask(name, seed=1, experiments=2)
    rng = np.random.default_rng(0)
    episode = task.begin()
    design = task.simulator.random_design(rng)
    answer = episode.answer('{"tool": "observe", "arguments": ' + as_json(design) + "}")
    assert answer.endswith("experiments left: 1"), answer
    assert answer.count("\n") == task.simulator.rows_per_design
    given = task.given(episode)
    assert given.shown_rows == task.simulator.rows_per_design
    assert given.num_rows - given.held_out == given.shown_rows


def as_json(design):
    import json

    return json.dumps(design)


def test_many_instances():
    tasks = ExperimentTasks("death_process", instances=3, first_seed=5, experiments=1).tasks
    assert [task.name for task in tasks] == [f"death_process/{seed}" for seed in (5, 6, 7)]
    assert len({task.fingerprint for task in tasks}) == 3
    assert len({task_prompt(task) for task in tasks}) == 1
    with pytest.raises(ValueError, match="instances must be at least 1, got 0"):
        ExperimentTasks("death_process", instances=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"experiments": -1}, "experiments must be at least 0, got -1"),
        ({"turns": 0}, "turns must be at least 1, got 0"),
        ({"evaluation_points": 0}, "evaluation_points must be at least 1, got 0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        dugongs(**settings)

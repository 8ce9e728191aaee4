"""Tasks from simulators: designs, held-out points, goals, ranges, many instances."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from synthstats_lightning.tasks import (
    SimulatedTask,
    SimulatedTasks,
    baseline_program,
    expand_tasks,
    get_task,
    task_names,
    task_prompt,
)
from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.simulators.death_process import DeathProcessSimulator
from synthstats_lightning.tasks.simulators.design import DesignError


@pytest.mark.parametrize("name", sorted(SIMULATORS))
def test_every_simulator_is_a_task_by_name(name):
    task = get_task(name)
    simulator = task.simulator
    assert task.name == task.environment == name
    assert task.num_rows == len(task.designs) * simulator.rows_per_design
    assert tuple(task.data) == simulator.columns
    assert task.response_kind == simulator.response_kind
    assert simulator.description in task_prompt(task).request
    plain = SimulatedTask(name, domain_knowledge=False)
    assert simulator.plain_description in task_prompt(plain).request
    assert plain.response == "y"
    compile(baseline_program(plain), "baseline", "exec")


def test_names_are_the_real_data_and_the_simulators():
    names = task_names()
    assert names[:4] == ["dugongs", "eight_schools", "peregrines", "surgical"]
    assert set(names[4:]) == set(SIMULATORS)


def test_held_out_rows_are_evaluation_points_of_the_same_instance():
    task = SimulatedTask("lotka_volterra", 5, num_observations=4, held_out=3)
    assert (task.num_rows, task.held_out) == (14, 6)
    points = task.simulator.evaluation_points(3)
    for key, values in task.data.items():
        np.testing.assert_array_equal(values[-6:], points[key])
    other = SimulatedTask("lotka_volterra", 5, num_observations=9)
    np.testing.assert_array_equal(other.data["population"][:8], task.data["population"][:8])
    assert not np.array_equal(
        SimulatedTask("lotka_volterra", 6, num_observations=4).data["population"], task.data["population"][:8]
    )


def test_a_process_of_its_own_makes_the_same_task():
    code = (
        "from synthstats_lightning.tasks import SimulatedTask;"
        "print(SimulatedTask('peregrines_simulator', 7, held_out=4).fingerprint)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == SimulatedTask("peregrines_simulator", 7, held_out=4).fingerprint


def test_designs_are_random_on_a_grid_or_given():
    grid = SimulatedTask("death_process", num_observations=3, design="grid").data["time"]
    np.testing.assert_allclose(np.diff(grid), np.diff(grid)[0])
    given = SimulatedTask("death_process", num_observations=3, design=[0.5, {"time": 1.0}, "time = 1.5", 1.9])
    np.testing.assert_array_equal(given.data["time"], [0.5, 1.0, 1.5])
    assert len(SimulatedTask("death_process", design=[0.5, 1.0]).designs) == 2
    drawn = SimulatedTask("death_process", 3, num_observations=50).data["time"]
    assert len(set(drawn)) == 50
    with pytest.raises(DesignError, match="time must be a number from 0 to 2"):
        SimulatedTask("death_process", design=[3.0])


def test_a_simulator_is_copied():
    simulator = DeathProcessSimulator(population=80)
    first, second = (SimulatedTask(simulator, seed) for seed in (1, 2))
    assert first.simulator.latents["theta"] != second.simulator.latents["theta"]
    assert "out of 80" in task_prompt(first).request
    with pytest.raises(RuntimeError, match="reset"):
        _ = simulator.latents


def test_goals_ask_for_their_quantity():
    task = SimulatedTask("location_finding", goal="source")
    assert list(task.quantities) == ["sources"]
    assert 'declare pm.Deterministic("sources", ...)' in task_prompt(task).request
    assert "(shape (3, 2))" in task_prompt(task).request
    plain = SimulatedTask("death_process", goal="infection", domain_knowledge=False)
    assert plain.goal.plain_question in task_prompt(plain).request
    assert SimulatedTask("death_process").quantities == {}


def test_ranges_of_the_prior_tell_nothing_of_the_instance():
    first, second = (SimulatedTask("peregrines_simulator", seed, response_range="prior") for seed in (1, 2))
    assert task_prompt(first) == task_prompt(second)
    assert baseline_program(first) == baseline_program(second)
    low, high = first.ranges["pairs"]
    simulator = first.simulator
    rng = np.random.default_rng(5)
    latents = simulator.sample_latents(rng, 2000)
    years = rng.uniform(-1.67, 1.67, (2000, 1))
    counts = simulator.simulate(latents, {"year": years}, rng)
    assert np.mean((counts >= low) & (counts <= high)) == pytest.approx(0.98, abs=0.02)
    assert task_prompt(SimulatedTask("peregrines_simulator", 1)) != task_prompt(first)


def test_no_observation_at_all_leaves_the_prior():
    task = SimulatedTask("dugongs_simulator", 1, num_observations=0, held_out=10)
    assert task.held_out == task.num_rows == 10
    assert set(task.ranges) == {"age", "length"}
    with pytest.raises(ValueError, match="must not both be 0"):
        SimulatedTask("dugongs_simulator", num_observations=0)


def test_many_instances():
    collection = SimulatedTasks("death_process", instances=3, first_seed=10, held_out=2)
    assert [task.name for task in collection.tasks] == [f"death_process/{seed}" for seed in (10, 11, 12)]
    assert {task.environment for task in collection.tasks} == {"death_process"}
    assert {task.reference for task in collection.tasks} == {"death_process"}
    assert len({task.fingerprint for task in collection.tasks}) == len(collection) == 3
    alone = SimulatedTask("death_process", 11, held_out=2)
    np.testing.assert_array_equal(alone.data["infected"], collection.tasks[1].data["infected"])
    expanded = expand_tasks(["dugongs", collection, alone])
    assert [task.name for task in expanded][0::4] == ["dugongs", "death_process"]
    assert SimulatedTasks("death_process", 1, name="training").tasks[0].name == "training/0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"simulator": "death"}, "simulator 'death' is not one of: death_process"),
        ({"goal": "theta"}, "goal 'theta' of death_process is not one of: prediction, infection"),
        ({"num_observations": -1}, "num_observations must be 0 or more, got -1"),
        ({"held_out": -1}, "held_out must be 0 or more, got -1"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        SimulatedTask(**{"simulator": "death_process", **settings})


def test_a_collection_has_at_least_one_instance():
    with pytest.raises(ValueError, match="instances must be at least 1, got 0"):
        SimulatedTasks("death_process", instances=0)

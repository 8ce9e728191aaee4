"""Tasks of unequal weight are drawn in proportion to it, by priority and by structure."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.datamodule import ReplayDataModule
from synthstats_lightning.replay import ReplayBuffer, Trajectory

DRAWS = 20_000


def filled(**fractions):
    """40 programs of task 0, 5 of task 1 and 15 of task 2."""
    buffer = ReplayBuffer(**{"replay_fraction": 0.0, **fractions})
    for task, count in enumerate((40, 5, 15)):
        buffer.register_prompt(task, [1])
        for number in range(count):
            buffer.add(
                Trajectory(
                    task,
                    (task, number),
                    -float(number),
                    0.0,
                    structure=f"s{number % 3}",
                    canonical=f"c{number}",
                )
            )
    return buffer


@pytest.mark.parametrize("source", ["replay_fraction", "structure_fraction"])
def test_draws_follow_weights(source):
    buffer = filled(**{source: 1.0})
    shares = {}
    for weights in ({}, {0: 3.0, 2: 0.5}):
        buffer.weigh_tasks(weights)
        drawn = buffer.sample(DRAWS, np.random.default_rng(0))
        shares[bool(weights)] = np.bincount([item.task_index for item in drawn], minlength=3) / DRAWS
    np.testing.assert_allclose(shares[False], [1 / 3] * 3, atol=0.015)
    np.testing.assert_allclose(shares[True], np.array([3.0, 1.0, 0.5]) / 4.5, atol=0.015)


def test_weights_leave_the_order_within_a_task():
    buffer = filled(replay_fraction=1.0, priority=1.0)
    buffer.weigh_tasks({1: 10.0})
    drawn = [item for item in buffer.sample(DRAWS, np.random.default_rng(0)) if item.task_index == 1]
    counts = np.bincount([item.program_ids[1] for item in drawn], minlength=5) / len(drawn)
    ranks = 1 / np.arange(1, 6)
    np.testing.assert_allclose(counts, ranks / ranks.sum(), atol=0.015)


def test_wrong_weights_are_named():
    with pytest.raises(ValueError, match=r"weights must be above 0 and finite, got 0\.0 for task 1"):
        filled().weigh_tasks({1: 0.0})
    with pytest.raises(ValueError, match=r"task_weights names 'surgical', which is not one of: dugongs"):
        ReplayDataModule(task_weights={"surgical": 1.0})
    with pytest.raises(ValueError, match=r"task_weights must be above 0 and finite, got -1\.0 for 'dugongs'"):
        ReplayDataModule(task_weights={"dugongs": -1.0})


def test_a_data_module_weighs_tasks_and_environments():
    module = ReplayDataModule(["dugongs", "surgical", "eight_schools"], task_weights={"surgical": 2.0})
    assert module.sampling_weights == [1.0, 2.0, 1.0]
    assert module.buffer.task_weights == {0: 1.0, 1: 2.0, 2: 1.0}
    assert ReplayDataModule().sampling_weights is None

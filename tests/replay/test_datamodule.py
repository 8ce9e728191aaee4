"""The data module takes the replay buffer's arguments, under the buffer's names and defaults."""

import inspect

import pytest

from synthstats_lightning import ReplayDataModule
from synthstats_lightning.replay import ReplayBuffer


def test_arguments_reach_the_buffer():
    given = {
        "capacity": 70,
        "recent": 30,
        "replay_fraction": 0.1,
        "priority": 0.7,
        "structure_fraction": 0.2,
        "uniform_fraction": 0.3,
        "capacity_per_task": 9,
        "deduplicate": "text",
        "min_edit_distance": 0.25,
        "multiplicity": "program",
    }
    assert given.keys() == inspect.signature(ReplayBuffer).parameters.keys()
    buffer = ReplayDataModule(**given).buffer
    assert buffer._recent.maxlen == given.pop("recent")
    assert {name: getattr(buffer, name) for name in given} == given


def test_what_the_buffer_does_not_know_is_refused():
    with pytest.raises(TypeError, match="capacty"):
        ReplayDataModule(capacty=3)
    with pytest.raises(ValueError, match="capacity must be at least 1 program, got 0"):
        ReplayDataModule(capacity=0)

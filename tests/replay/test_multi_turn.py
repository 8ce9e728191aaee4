"""Trajectories of several turns in the buffer, in batches and in saved states."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.replay import ReplayBuffer, Trajectory, collate
from synthstats_lightning.replay.trajectory import own_tokens

EPISODE = Trajectory(0, (5, 6, 7, 8, 9, 10), -1.0, -2.0, -3.0, (0.5,), "form", "graph", 4, (2, 3, 1))
PROGRAM = Trajectory(0, (5, 6, 3), -2.0, -2.5, -3.0, (0.25,))


def buffer():
    made = ReplayBuffer(capacity=8, recent=4, replay_fraction=1.0)
    made.register_prompt(0, [1, 2])
    made.add(EPISODE)
    made.add(PROGRAM)
    return made


def test_own_tokens():
    assert own_tokens((), 2) == [True, True]
    assert own_tokens((2, 3, 1), 6) == [True, True, False, False, False, True]
    assert own_tokens((0, 1, 1), 2) == [False, True]
    with pytest.raises(ValueError, match="runs must be lengths that sum to the 4 tokens"):
        own_tokens((2, 3), 4)


def test_batches_know_whose_tokens_are_whose():
    batch = collate([EPISODE, PROGRAM], {0: (1, 2)})
    assert batch.own_mask.tolist() == [
        [True, True, False, False, False, True],
        [True, True, True, False, False, False],
    ]
    assert batch.program_mask.sum(1).tolist() == [6, 3]
    assert torch.equal(batch.written, batch.own_mask)
    moved = batch.to("cpu")
    assert torch.equal(moved.own_mask, batch.own_mask)
    single = collate([PROGRAM], {0: (1, 2)})
    assert single.own_mask is None
    assert single.to("cpu").own_mask is None
    assert torch.equal(single.written, single.program_mask)


def test_state_keeps_turns():
    state = buffer().state_dict()
    other = ReplayBuffer(capacity=8, recent=4)
    other.load_state_dict(state)
    assert other.trajectories == [EPISODE, PROGRAM]
    assert other.recent == [EPISODE, PROGRAM]


def test_gains_are_kept_and_count_from_the_end_of_their_turn():
    told = EPISODE._replace(gains=(0.5, 0.25))
    batch = collate([told, PROGRAM], {0: (1, 2)})
    assert batch.information.tolist() == [[0.0, 0.0, 0.5, 0.5, 0.5, 0.5], [0.0] * 6]
    longer = EPISODE._replace(runs=(2, 1, 1, 1, 1), gains=(0.5, 0.0, 0.25))
    assert collate([longer], {0: (1, 2)}).information.tolist() == [[0.0, 0.0, 0.5, 0.5, 0.5, 0.5]]
    assert collate([longer._replace(gains=(0.5, 1.0, 0.0))], {0: (1, 2)}).information[0, 4:].tolist() == [
        1.5,
        1.5,
    ]
    assert collate([EPISODE], {0: (1, 2)}).information is None
    made = ReplayBuffer(capacity=8, recent=4)
    made.register_prompt(0, [1, 2])
    made.add(told)
    made.add(PROGRAM)
    other = ReplayBuffer(capacity=8, recent=4)
    other.load_state_dict(made.state_dict())
    assert other.trajectories == other.recent == [told, PROGRAM]
    before = {key: value for key, value in made.state_dict().items() if not key.startswith("gain")}
    other.load_state_dict(before | {"format": 5})
    assert other.trajectories == [EPISODE, PROGRAM]
    for gains in ((0.1, 0.2, 0.3), (float("nan"),)):
        with pytest.raises(ValueError, match="gains must be finite as float32, one a turn"):
            made.add(EPISODE._replace(gains=gains))


def test_state_of_the_format_before_is_read():
    state = buffer().state_dict()
    old = {key: value for key, value in state.items() if key not in ("turns", "runs")} | {"format": 2}
    other = ReplayBuffer(capacity=8, recent=4)
    other.load_state_dict(old)
    assert other.trajectories == [EPISODE._replace(runs=()), PROGRAM]
    with pytest.raises(ValueError, match="format 1; this version reads 2, 3, 4"):
        other.load_state_dict(state | {"format": 1})


def test_runs_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="runs must sum to the 6 tokens"):
        buffer().add(EPISODE._replace(runs=(2, 3)))

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory, collate, rank_priorities


def filled(rewards, **settings):
    buffer = ReplayBuffer(**settings)
    buffer.register_prompt(0, [1, 2, 3])
    for number, reward in enumerate(rewards):
        buffer.add(Trajectory(0, (number + 10, 5), reward, -1.0))
    return buffer


def test_duplicates_are_stored_once_but_stay_recent():
    buffer = filled([1.0, 2.0], capacity=10, recent=4, replay_fraction=0.0)
    assert not buffer.add(Trajectory(0, (10, 5), 1.0, -1.0))
    assert len(buffer) == 2
    assert (buffer.added, buffer.duplicates) == (3, 1)
    drawn = buffer.sample(3000, np.random.default_rng(0))
    share = np.mean([item.program_ids == (10, 5) for item in drawn])
    assert share == pytest.approx(2 / 3, abs=0.03)


def test_recent_forgets_and_capacity_evicts_the_lowest_reward():
    buffer = filled([3.0, -1.0, 2.0, 1.0], capacity=3, recent=2)
    assert sorted(item.log_reward for item in buffer.trajectories) == [1.0, 2.0, 3.0]
    buffer.replay_fraction = 0.0
    assert {item.log_reward for item in buffer.sample(100, np.random.default_rng(0))} == {2.0, 1.0}


def test_priority_draws_follow_ranks():
    rewards = [0.0, 500.0, -300.0, 7.0]
    buffer = filled(rewards, capacity=10, recent=10, replay_fraction=1.0, priority=1.0)
    drawn = buffer.sample(40_000, np.random.default_rng(1))
    counts = np.array(
        [sum(item.log_reward == reward for item in drawn) for reward in (500.0, 7.0, 0.0, -300.0)]
    )
    expected = 1 / np.arange(1, 5)
    np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), atol=0.01)


def test_each_task_has_the_same_share_of_priority():
    priorities = rank_priorities(np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1]), 0.0)
    np.testing.assert_allclose(priorities, [0.25, 0.25, 0.5])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40), st.floats(0, 3))
def test_priorities_are_probabilities_that_rise_with_reward(rewards, exponent):
    rewards = np.array(rewards)
    priorities = rank_priorities(rewards, np.zeros(len(rewards), dtype=np.int64), exponent)
    assert priorities.sum() == pytest.approx(1)
    assert (np.diff(priorities[np.argsort(rewards, kind="stable")]) >= -1e-12).all() or len(
        set(rewards)
    ) < len(rewards)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.lists(st.integers(0, 900), min_size=1, max_size=6), st.floats(-1e6, 1e6)
        ),
        min_size=1,
        max_size=30,
    )
)
def test_state_round_trip_gives_the_same_next_batch(rows):
    def new():
        return ReplayBuffer(capacity=20, recent=7, replay_fraction=0.5, priority=0.7)

    buffer = new()
    for task in range(3):
        buffer.register_prompt(task, [task, 9])
    for task, ids, reward in rows:
        buffer.add(Trajectory(task, tuple(ids), reward, -2.5))
    restored = new()
    restored.load_state_dict(buffer.state_dict())
    assert restored.trajectories == buffer.trajectories
    assert restored.prompts == buffer.prompts
    assert restored.sample(50, np.random.default_rng(3)) == buffer.sample(50, np.random.default_rng(3))


def test_state_is_readable_without_pickle(tmp_path):
    torch.save(filled([1.0, 2.0]).state_dict(), tmp_path / "buffer.pt")
    restored = ReplayBuffer()
    restored.load_state_dict(torch.load(tmp_path / "buffer.pt", weights_only=True))
    assert len(restored) == 2


def test_loader_resumes_at_the_same_batch():
    buffer = filled(range(20), capacity=100, recent=10)
    loader = ReplayLoader(buffer, batch_size=4, num_batches=5, seed=3)
    iterator = iter(loader)
    [next(iterator) for _ in range(2)]
    state = loader.state_dict()
    rest = [batch.program_ids for batch in iterator]
    again = ReplayLoader(buffer, batch_size=4, num_batches=5, seed=99)
    again.load_state_dict(state)
    resumed = [batch.program_ids for batch in again]
    assert len(rest) == len(resumed) == 3
    for a, b in zip(rest, resumed, strict=True):
        assert torch.equal(a, b)
    assert len(list(again)) == 5, "the epoch after the resumed one is whole"


def test_a_batch_may_hold_what_was_added_after_the_one_before_it():
    buffer = filled([0.0], capacity=100, recent=1, replay_fraction=0.0)
    iterator = iter(ReplayLoader(buffer, batch_size=2, num_batches=5, seed=3))
    next(iterator)
    buffer.add(Trajectory(0, (77, 78, 5), 1.0, -1.0))
    assert next(iterator).program_ids.tolist() == [[77, 78, 5]] * 2


def test_collate_pads_prompts_left_and_programs_right():
    items = [Trajectory(0, (7, 8, 9), 1.0, -3.0), Trajectory(1, (5,), 2.0, -4.0)]
    batch = collate(items, {0: (1,), 1: (2, 3)}, pad_id=0)
    assert batch.prompt_ids.tolist() == [[0, 1], [2, 3]]
    assert batch.prompt_mask.tolist() == [[False, True], [True, True]]
    assert batch.program_ids.tolist() == [[7, 8, 9], [5, 0, 0]]
    assert batch.program_mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.log_reward.tolist() == [1.0, 2.0]
    assert batch.task_index.tolist() == [0, 1]
    assert len(batch.to("cpu")) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": 0}, "capacity must be at least 1"),
        ({"recent": 0}, "recent must be from 1"),
        ({"replay_fraction": 1.5}, "replay_fraction must be from 0 to 1, got 1.5"),
        ({"priority": float("nan")}, "priority must not be negative"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ReplayBuffer(**settings)


def test_wrong_trajectories_are_refused():
    buffer = filled([1.0])
    with pytest.raises(ValueError, match="must be finite"):
        buffer.add(Trajectory(0, (1,), float("nan"), 0.0))
    with pytest.raises(ValueError, match=r"finite as float32, got 2\.67e\+307"):
        buffer.add(Trajectory(0, (1,), 2.67e307, 0.0))
    with pytest.raises(ValueError, match=r"parts must be finite as float32"):
        buffer.add(Trajectory(0, (1,), 0.0, 0.0, parts=(1e39,)))
    with pytest.raises(ValueError, match="task_index 4 has no prompt"):
        buffer.add(Trajectory(4, (1,), 0.0, 0.0))
    with pytest.raises(LookupError, match="empty"):
        ReplayBuffer().sample(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="format"):
        buffer.load_state_dict({"format": 99})

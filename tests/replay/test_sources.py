"""Where batches come from: the four sources, each against what its definition says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.replay import ReplayBuffer, Trajectory, rank_priorities
from synthstats_lightning.replay.categorical import Categorical


def filled(items, tasks=1, **options):
    buffer = ReplayBuffer(**{"capacity": 1000, "recent": 50, **options})
    for task in range(tasks):
        buffer.register_prompt(task, [1])
    for item in items:
        buffer.add(item)
    return buffer


def programs(count, seed=0, tasks=1):
    generator = np.random.default_rng(seed)
    return [
        Trajectory(
            int(generator.integers(tasks)),
            (number, 5),
            float(generator.integers(-4, 4)),  # with ties
            -1.0,
            structure=f"{generator.integers(5):x}",
        )
        for number in range(count)
    ]


def test_two_sources_draw_what_the_first_format_drew():
    """The draws of a buffer with priority and recent samples alone are those of version 0.1, one by one."""
    items = programs(300, tasks=2)
    buffer = filled(items, tasks=2, recent=40, replay_fraction=0.3, priority=0.7)
    for seed in range(20):
        drawn = buffer.sample(64, np.random.default_rng(seed))
        generator = np.random.default_rng(seed)
        replayed = int(generator.binomial(64, 0.3))
        rewards = np.array([item.log_reward for item in items])
        cumulative = np.cumsum(rank_priorities(rewards, np.array([item.task_index for item in items]), 0.7))
        cumulative[-1] = 1.0
        rows = np.searchsorted(cumulative, generator.random(replayed), side="right")
        recent = generator.integers(40, size=64 - replayed)
        assert drawn == [items[row] for row in rows] + [items[-40:][row] for row in recent]


def shares(buffer, key, number=40_000):
    drawn = buffer.sample(number, np.random.default_rng(1))
    names, counts = np.unique([key(item) for item in drawn], return_counts=True)
    return dict(zip(names.tolist(), counts / number, strict=True))


def test_structures_are_balanced_within_tasks():
    items = [Trajectory(0, (n, 5), 0.0, 0.0, structure="common") for n in range(90)]
    items += [Trajectory(0, (n + 100, 5), 9.0, 0.0, structure="rare") for n in range(2)]
    items += [Trajectory(0, (n + 200, 5), -9.0, 0.0) for n in range(8)]  # failed
    items += [Trajectory(1, (300, 5), 0.0, 0.0, structure="common")]
    buffer = filled(items, tasks=2, replay_fraction=0.0, structure_fraction=1.0)
    found = shares(buffer, lambda item: f"{item.task_index}{item.structure}")
    assert found == {
        "0common": pytest.approx(1 / 6, abs=0.01),
        "0rare": pytest.approx(1 / 6, abs=0.01),
        "0": pytest.approx(1 / 6, abs=0.01),
        "1common": pytest.approx(1 / 2, abs=0.01),
    }


def test_uniform_draws_ignore_reward_structure_and_task():
    buffer = filled(programs(20, tasks=2), tasks=2, replay_fraction=0.0, uniform_fraction=1.0)
    found = shares(buffer, lambda item: item.program_ids[0])
    assert len(found) == 20
    assert max(found.values()) < 0.06
    assert min(found.values()) > 0.04


def test_a_batch_is_mixed_in_the_shares_that_are_set():
    options = {"replay_fraction": 0.2, "structure_fraction": 0.3, "uniform_fraction": 0.4}
    items = [Trajectory(0, (n, 5), float(n == 0), 0.0, structure="ab"[n < 5]) for n in range(10)]
    buffer = filled(items, recent=1, priority=50.0, **options)
    found = shares(buffer, lambda item: item.program_ids[0])
    # the best by priority; of either structure five; all alike; the last one as the only recent sample
    assert found[0] == pytest.approx(0.2 + 0.03 + 0.04, abs=0.01)
    assert found[9] == pytest.approx(0.1 + 0.03 + 0.04, abs=0.01)
    assert found[4] == pytest.approx(0.03 + 0.04, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(-3, 3), st.sampled_from("abc")),
        min_size=1,
        max_size=80,
    ),
    st.integers(1, 25),
    st.integers(1, 7),
)
def test_ranks_kept_up_to_date_are_ranks_computed_anew(rows, capacity, every):
    """Adding and overwriting between looks, with ties: as if sorted from scratch."""
    buffer = ReplayBuffer(capacity=capacity, recent=1, replay_fraction=1.0, structure_fraction=0.0)
    for task in range(2):
        buffer.register_prompt(task, [0])
    for number, (task, token, reward, structure) in enumerate(rows):
        buffer.add(Trajectory(task, (token, number % 3), float(reward), 0.0, structure=structure))
        if number % every == 0:
            found = buffer._ranking.probabilities(buffer._entries, 0.8)
            entries = buffer._entries
            order = np.argsort(entries.serial)  # the older first among equals
            expected = np.empty(len(order))
            expected[order] = rank_priorities(entries.log_reward[order], entries.task[order], 0.8)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=700), st.lists(st.floats(0, 0.999999), max_size=20))
def test_block_draws_are_draws_by_the_whole_running_sum(weights, uniforms):
    weights = np.array(weights) + 1e-9
    uniforms = np.array(uniforms, dtype=np.float64)
    drawn = Categorical(weights).draw(uniforms)
    cumulative = np.cumsum(weights)
    targets = uniforms * cumulative[-1]
    expected = np.minimum(np.searchsorted(cumulative, targets, side="right"), len(weights) - 1)
    # a target within rounding of a boundary may fall on either side
    apart = np.abs(cumulative[:, None] - targets).min(0) > 1e-9 if len(targets) else np.array([], dtype=bool)
    np.testing.assert_array_equal(drawn[apart], expected[apart])


def test_only_demonstrations_are_replayed_before_the_first_sample():
    buffer = filled([], replay_fraction=0.0)
    buffer.add(Trajectory(0, (7, 5), 1.0, -1.0), pinned=True)
    assert {item.program_ids for item in buffer.sample(20, np.random.default_rng(0))} == {(7, 5)}


def test_good_programs_of_a_task_are_drawn_by_priority_and_failed_ones_never():
    items = [Trajectory(0, (n, 5), float(n), 0.0, structure="" if n > 6 else "a") for n in range(10)]
    buffer = filled([*items, Trajectory(1, (99, 5), 50.0, 0.0, structure="a")], tasks=2, priority=1.0)
    drawn = buffer.draw_valid(0, 20_000, np.random.default_rng(0))
    counts = np.bincount([item.program_ids[0] for item in drawn], minlength=10) / len(drawn)
    expected = np.zeros(10)
    expected[6::-1] = 1 / np.arange(1, 8)
    np.testing.assert_allclose(counts, expected / expected.sum(), atol=0.01)
    assert filled(items[8:]).draw_valid(0, 3, np.random.default_rng(0)) == []

"""Where batches come from: the four sources, each against what its definition says."""

import numpy as np
import pytest

from synthstats_lightning.replay import ReplayBuffer, Trajectory, rank_priorities


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


def test_draws_follow_what_came_in_and_what_made_room():
    """What is kept between draws must not outlive a change: as a buffer draws that was just restored."""
    options = {"capacity": 20, "recent": 1, "replay_fraction": 0.5, "structure_fraction": 0.5}
    grown = filled([], tasks=2, **options)
    for number, item in enumerate(programs(60, tasks=2)):
        grown.add(item)
        if number % 7 == 0:
            other = ReplayBuffer(**options)
            other.load_state_dict(grown.state_dict())
            drawn = (buffer.sample(30, np.random.default_rng(number)) for buffer in (grown, other))
            assert next(drawn) == next(drawn)


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

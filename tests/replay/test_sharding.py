"""A buffer goes on with another number of processes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, Trajectory, composition, load_shard


def item(number: int, reward: float = 0.0, step: int = 0, structure: str = "") -> Trajectory:
    return Trajectory(0, (number, number + 1), reward, -1.0, structure=structure, step=step)


def filled(numbers, pinned=(), **settings) -> ReplayBuffer:
    buffer = empty(**settings)
    for number in pinned:
        buffer.add(item(number), pinned=True)
    for number in numbers:
        buffer.add(item(number, reward=float(number)))
    return buffer


def empty(**settings) -> ReplayBuffer:
    buffer = ReplayBuffer(recent=settings.pop("recent", 8), **settings)
    buffer.register_prompt(0, [1, 2])
    return buffer


def numbers(buffer: ReplayBuffer) -> list[int]:
    return [trajectory.program_ids[0] for trajectory in buffer.trajectories]


def shards(states, size, **settings):
    found = [empty(**settings) for _ in range(size)]
    for rank, buffer in enumerate(found):
        load_shard(buffer, states, rank, size)
    return found


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (3, 2), (4, 1)])
def test_every_program_goes_to_one_process(before, after):
    saved = [filled(range(100 * rank, 100 * rank + 10), pinned=[7000]) for rank in range(before)]
    found = shards([buffer.state_dict() for buffer in saved], after)
    dealt = [set(numbers(buffer)) - {7000} for buffer in found]
    assert set().union(*dealt) == set().union(*map(set, map(numbers, saved))) - {7000}
    assert sum(map(len, dealt)) == 10 * before
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    assert sum(buffer.added for buffer in found) == sum(buffer.added for buffer in saved)
    assert sum(len(buffer.recent) for buffer in found) == min(8 * before, 8 * after)
    for buffer in found:
        assert buffer.composition(0)["pinned"] == 1, "demonstrations go to all"
        assert buffer.prompts == {0: (1, 2)}


def test_as_many_processes_as_before_get_exactly_their_own():
    saved = [filled(range(5)), filled(range(50, 57))]
    for rank, found in enumerate(shards([buffer.state_dict() for buffer in saved], 2)):
        assert found.trajectories == saved[rank].trajectories
        assert found.next_serial == saved[rank].next_serial


def test_programs_that_several_held_count_once_and_the_lowest_rewards_make_room():
    states = [filled(range(10)).state_dict(), filled(range(5, 15)).state_dict()]
    (found,) = shards(states, 1)
    assert sorted(numbers(found)) == list(range(15))
    (small,) = shards(states, 1, capacity=12)
    assert sorted(numbers(small)) == list(range(3, 15))


def test_merged_programs_are_no_samples_of_this_process():
    buffer = filled(range(3))
    mark = buffer.next_serial
    buffer.merge([item(1, reward=1.0, step=9), item(40), item(41)])
    assert buffer.added == 3
    assert buffer.duplicates == 0
    assert [trajectory.program_ids[0] for trajectory in buffer.recent] == [0, 1, 2]
    assert numbers(buffer) == [0, 1, 2, 40, 41]
    assert [trajectory.program_ids[0] for trajectory in buffer.since(mark)] == [40, 41]
    assert next(t.step for t in buffer.trajectories if t.program_ids[0] == 1) == 9
    buffer.add(item(99), pinned=True)
    assert len(buffer.since(mark)) == 2, "a demonstration is everywhere already"


def test_shards_together_are_composed_like_one_buffer():
    parts = [empty(), empty()]
    whole = empty()
    for number in range(30):
        structure = f"{number % 5:032x}" if number % 3 else ""
        trajectory = item(number, step=number, structure=structure)
        for buffer in (parts[number % 2], whole):
            buffer.add(trajectory)
            if number % 4 == 0:
                buffer.add(trajectory)
    assert composition([part.contents(40) for part in parts]) == pytest.approx(whole.composition(40))
    assert composition([empty().contents(3)] * 2) == {"entries": 0.0}


def loader(rank: int, size: int, buffer=None, **settings) -> ReplayLoader:
    gathered = [None] * size
    given = filled(range(100), recent=100) if buffer is None else buffer
    return ReplayLoader(given, 4, 6, seed=rank, gather=lambda _: gathered, rank=rank, **settings)


def test_streams_of_more_processes_than_before_never_meet():
    first = ReplayLoader(filled(range(100), recent=100), 4, 6, seed=0)
    iterator = iter(first)
    next(iterator)
    state = first.state_dict()
    expected = next(iterator).program_ids
    drawn = []
    for rank in range(3):
        one = loader(rank, 3)
        one.load_state_dict(state)
        batches = list(one)
        assert len(batches) == 5, "each goes on where the saved one stood"
        drawn.append(torch.cat([batch.program_ids[:, 0] for batch in batches]))
    assert torch.equal(drawn[0][:4], expected[:, 0])
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[1], drawn[2])


def test_fewer_processes_take_the_first_streams():
    states = [np.random.PCG64(seed).state for seed in (5, 6)]
    one = loader(0, 1)
    one.load_state_dict({"position": 2, "generators": states})
    fresh = np.random.Generator(np.random.PCG64(5))
    expected = [t.program_ids[0] for t in filled(range(100), recent=100).sample(4, fresh)]
    assert next(iter(one)).program_ids[:, 0].tolist() == expected


def test_an_empty_buffer_is_an_error_only_where_there_is_one_process():
    with pytest.raises(LookupError, match="buffer is empty"):
        next(iter(loader(0, 1, empty())))
    batches = list(loader(0, 2, empty(), allow_empty=True))
    assert [len(batch) for batch in batches] == [0] * 6
    assert math.prod(batches[0].program_ids.shape) == 0

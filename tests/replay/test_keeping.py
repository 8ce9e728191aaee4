"""What the buffer keeps: capacities, pins, duplicates, texts of a program, temperatures; and its state."""

import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.replay import ReplayBuffer, Trajectory


def made(**options):
    buffer = ReplayBuffer(**{"capacity": 100, "recent": 10, **options})
    for task in range(2):
        buffer.register_prompt(task, [1, 2])
    return buffer


def item(number, reward=0.0, task=0, **more):
    return Trajectory(task, (number, 5), reward, -1.0, **more)


def rewards(buffer):
    return sorted(entry.log_reward for entry in buffer.trajectories)


def test_capacity_of_a_task_evicts_within_the_task():
    buffer = made(capacity_per_task=2)
    for number, reward in enumerate([5.0, 1.0, 3.0, 0.5]):
        buffer.add(item(number, reward))
    buffer.add(item(9, -7.0, task=1))
    assert rewards(buffer) == [-7.0, 3.0, 5.0]


def test_the_oldest_of_the_lowest_makes_room():
    buffer = made(capacity=3, recent=1)
    for number, reward in enumerate([1.0, 1.0, 1.0, 1.0, 2.0, 0.5, 1.0]):
        buffer.add(item(number, reward))
    assert [entry.program_ids[0] for entry in buffer.trajectories] == [3, 4, 6]


def test_pinned_programs_never_make_room():
    buffer = made(capacity=2, recent=1)
    buffer.add(item(0, -50.0), pinned=True)
    for number in range(1, 6):
        buffer.add(item(number, float(number)))
    assert rewards(buffer) == [-50.0, 5.0]
    assert buffer.added == 5, "demonstrations are no samples"
    buffer.add(item(5, 5.0), pinned=True)  # a known program is pinned where it is
    with pytest.raises(ValueError, match="capacity must exceed the number of pinned programs"):
        buffer.add(item(7, 9.0), pinned=True)
    assert buffer.add(item(8, 9.0)), "a sample that finds no room is new all the same"
    assert rewards(buffer) == [-50.0, 5.0]


def test_of_one_canonical_form_the_better_text_is_kept():
    buffer = made(deduplicate="program")
    assert buffer.add(item(0, 1.0, canonical="aa"))
    assert not buffer.add(item(1, 3.0, canonical="aa"))
    assert not buffer.add(item(2, 2.0, canonical="aa"))
    assert buffer.add(item(3, 0.0, canonical="aa", task=1))
    assert buffer.add(item(4, -9.0)), "failed programs have no canonical form and are no duplicates"
    assert buffer.add(item(5, -9.0))
    assert [entry.program_ids[0] for entry in buffer.trajectories if entry.task_index == 0] == [1, 4, 5]
    assert buffer.duplicates == 2
    buffer.sample(10, np.random.default_rng(0))
    assert not buffer.add(item(6, 4.0, canonical="aa")), "the index follows what replaced the first"
    assert item(6, 4.0) in buffer


def tokens(*ids, reward=0.0):
    return Trajectory(0, ids, reward, -1.0)


def levenshtein(a, b):
    """By the textbook recurrence."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
    return row[-1]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=6), min_size=1, max_size=12))
def test_near_copies_by_the_textbook_distance(programs):
    buffer = made(min_edit_distance=0.4)
    kept = []
    for ids in dict.fromkeys(map(tuple, programs)):
        near = any(levenshtein(ids, other) / max(len(ids), len(other)) < 0.4 for other in kept)
        assert buffer.add(tokens(*ids)) == (not near)
        kept += [] if near else [ids]
    assert [entry.program_ids for entry in buffer.trajectories] == kept


def test_of_near_copies_the_better_is_kept():
    buffer = made(min_edit_distance=0.3)
    buffer.add(tokens(1, 2, 3, 4, 5, reward=1.0))
    assert not buffer.add(tokens(1, 2, 3, 4, 6, reward=2.0))
    assert [entry.program_ids for entry in buffer.trajectories] == [(1, 2, 3, 4, 6)]
    assert buffer.add(tokens(1, 2, 3, 4, 5, 7, 8)), "the program that was replaced is forgotten"


def test_edit_distance_without_rapidfuzz_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    monkeypatch.setitem(sys.modules, "rapidfuzz.process", None)
    with pytest.raises(ImportError, match="min_edit_distance needs rapidfuzz: pip install"):
        made(min_edit_distance=0.1)


def test_a_reward_is_shared_among_the_texts_that_are_stored():
    buffer = made(multiplicity="program", capacity=4, recent=4, replay_fraction=0.5)
    for number in range(3):
        buffer.add(item(number, 2.0, canonical="aa", structure="s"))
    buffer.add(item(7, 1.0, canonical="bb", structure="s"))
    for drawn in buffer.sample(50, np.random.default_rng(0)):
        expected = 2.0 - math.log(3) if drawn.canonical == "aa" else 1.0
        assert drawn.log_reward == pytest.approx(expected)
    # over the texts of a program the shares add up to its reward
    total = sum(math.exp(2.0 - buffer.log_num_texts(0, "aa")) for _ in range(3))
    assert total == pytest.approx(math.exp(2.0))
    buffer.add(item(8, 5.0, canonical="cc"))  # bb makes room
    buffer.add(item(9, 6.0, canonical="dd"))  # one text of aa makes room
    assert buffer.log_num_texts(0, "aa") == pytest.approx(math.log(2))
    assert buffer.log_num_texts(0, "bb") == buffer.log_num_texts(0, "") == 0.0
    assert made().log_num_texts(0, "aa") == 0.0


def test_update_rewards_blends_every_reward_anew_and_ranks_by_it():
    buffer = made(replay_fraction=0.5, priority=60.0)
    for number in range(6):
        buffer.add(item(number, float(number), parts=(float(number), -(float(number) ** 2))))
    buffer.sample(4, np.random.default_rng(0))
    buffer.update_rewards(lambda parts, reference, task: 0.5 * parts[:, 0] + parts[:, 1] + reference)
    expected = {number: 0.5 * number - number**2 - 1.0 for number in range(6)}
    assert {entry.program_ids[0]: entry.log_reward for entry in buffer.trajectories} == expected
    drawn = buffer.sample(500, np.random.default_rng(0))
    assert all(entry.log_reward == expected[entry.program_ids[0]] for entry in drawn)
    buffer.replay_fraction = 1.0
    assert {entry.program_ids[0] for entry in buffer.sample(50, np.random.default_rng(0))} == {0}
    with pytest.raises(ValueError, match="parts must be 2 numbers"):
        buffer.add(item(99))


def test_composition_and_ages():
    buffer = made()
    assert buffer.composition(3) == {"entries": 0.0}
    buffer.add(item(0, structure="a", step=2))
    buffer.add(item(1, structure="b", step=4))
    buffer.add(item(2, structure="b", step=4), pinned=True)
    buffer.add(item(3, step=6))
    buffer.add(item(3, step=8))  # sampled again
    share = np.array([1 / 3, 2 / 3])
    assert buffer.composition(10) == pytest.approx(
        {
            "entries": 4.0,
            "pinned": 1.0,
            "failed": 0.25,
            "duplicates": 1 / 4,
            "structures": 2.0,
            "effective_structures": float(np.exp(-(share * np.log(share)).sum())),
            "age_mean": (8 + 6 + 6 + 2) / 4,
            "age_max": 8.0,
        }
    )


OPTIONS = {
    "plain": {},
    "full": {"structure_fraction": 0.3, "uniform_fraction": 0.1, "capacity_per_task": 6},
    "programs": {"deduplicate": "program"},
    "near": {"min_edit_distance": 0.5},
    "shared": {"multiplicity": "program"},
}


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(-2, 2)), max_size=60))
def test_a_restored_buffer_goes_on_as_the_saved_one(name, rows):
    """Also with ties, overwritten rows and the queue: equal draws now and after more programs."""

    def new():
        return made(**{"capacity": 10, "recent": 5, "replay_fraction": 0.4, **OPTIONS[name]})

    def trajectory(number, row):
        task, token, reward = row
        form = f"{token % 7:x}" if token % 5 else ""
        parts = (float(reward) if form else -math.inf, 0.5)
        return Trajectory(
            task, (token, token // 3, 5), float(reward), -0.5, math.inf, parts, form, form[:1], number
        )

    buffer = new()
    for number, row in enumerate(rows):
        buffer.add(trajectory(number, row), pinned=number == 3)
        if number % 7 == 0:
            buffer.sample(3, np.random.default_rng(0))
    restored = new()
    restored.load_state_dict(buffer.state_dict())
    for more in range(3):
        assert restored.trajectories == buffer.trajectories
        assert restored.composition(99) == buffer.composition(99)
        if len(buffer):
            generators = [np.random.default_rng(more) for _ in range(2)]
            drawn = [one.sample(30, rng) for one, rng in zip((buffer, restored), generators, strict=True)]
            assert drawn[0] == drawn[1]
        for one in (buffer, restored):
            for token in range(4):
                one.add(trajectory(100 + more, (0, 37 + 5 * token + more, 2)))


def test_state_is_plain_and_old_states_are_refused(tmp_path):
    buffer = made()
    buffer.add(item(0, 1.0, parts=(-math.inf, 0.0), canonical="c0ffee", structure="f00", step=7), pinned=True)
    state = buffer.state_dict()
    assert {type(value) for value in state.values()} <= {int, str, dict, torch.Tensor}
    torch.save(state, tmp_path / "state.pt")
    restored = made()
    restored.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert restored.trajectories == buffer.trajectories
    with pytest.raises(
        ValueError, match="state of format 1; this version reads 2, 3, 4, 5, 6, 7: start a new run"
    ):
        made().load_state_dict({"format": 1})
    buffer.add(item(1, 1.0, parts=(0.0, 0.0)))
    with pytest.raises(ValueError, match="capacity must be at least the 2 programs of the state, got 1"):
        made(capacity=1, recent=1).load_state_dict(buffer.state_dict())


@pytest.mark.parametrize("terms", [(), (0.5, 0.25)])
def test_programs_of_an_older_state_have_looked_at_nothing(terms):
    old, new = made(), made()
    for number in range(3):
        parts = float(number), 0.0, -5.0, -2.0
        old.add(item(number, 1.0, parts=(*parts, *terms)))
        new.add(item(number, 1.0, parts=(*parts, 0.0, *terms)))
    restored = made()
    restored.load_state_dict(old.state_dict() | {"format": 6})
    assert restored.trajectories == new.trajectories
    assert restored.recent == new.recent


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure_fraction": -0.1}, "structure_fraction must be from 0 to 1, got -0.1"),
        ({"uniform_fraction": 0.4, "structure_fraction": 0.2}, "must sum to at most 1"),
        ({"capacity_per_task": 0}, "capacity_per_task must be at least 1"),
        ({"min_edit_distance": 2.0}, "min_edit_distance must be from 0 to 1, got 2.0"),
        ({"deduplicate": "program", "multiplicity": "program"}, "choose one of the two"),
    ],
)
def test_wrong_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)

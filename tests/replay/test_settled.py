"""The newest settled score of a text holds everywhere; fresh rounds are drawn evenly."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from synthstats_lightning.replay import ReplayBuffer, Trajectory

IDS = (5, 6, 7)
KILLED = Trajectory(0, IDS, -25.0, -3.0, -2.0, (-np.inf, -0.6), settled=False)
SCORED = Trajectory(0, IDS, 4.0, -3.0, -2.5, (4.0, 0.0), "form", "structure", step=7)
OTHER = Trajectory(0, (5, 8), 1.0, -3.0, -2.0, (1.0, 0.0), "other", "structure")


def filled(*items: Trajectory, **settings: object) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity=10, recent=5, **settings)
    buffer.register_prompt(0, [1, 2])
    for item in items:
        buffer.add(item)
    return buffer


def score(item: Trajectory) -> tuple[object, ...]:
    return item.log_reward, item.parts, item.canonical, item.structure, item.settled


def everywhere(buffer: ReplayBuffer) -> set[tuple[object, ...]]:
    return {score(item) for item in (*buffer.trajectories, *buffer.recent) if item.program_ids == IDS}


@pytest.mark.parametrize("order", [(KILLED, SCORED), (SCORED, KILLED), (KILLED, KILLED, SCORED, KILLED)])
def test_a_transient_failure_never_outlives_a_score(order: tuple[Trajectory, ...]) -> None:
    buffer = filled(OTHER, *order)
    assert everywhere(buffer) == {score(SCORED)}
    assert len(buffer) == 2
    assert buffer.composition(step=7)["failed"] == 0
    assert max(item.step for item in buffer.trajectories) == 7
    assert [item.program_ids for item in buffer.draw_valid(0, 50, np.random.default_rng(0))].count(IDS) > 5
    state = filled()
    state.load_state_dict(buffer.state_dict())
    assert everywhere(state) == {score(SCORED)}


def test_while_there_is_no_score_the_failure_stands_and_is_remembered_as_unsettled() -> None:
    buffer = filled(KILLED)
    restored = filled()
    restored.load_state_dict(buffer.state_dict())
    assert everywhere(restored) == {score(KILLED)}
    restored.add(SCORED)
    assert everywhere(restored) == {score(SCORED)}


def test_of_two_settled_scores_the_newer_holds_and_reaches_other_processes() -> None:
    buffer = filled(SCORED, OTHER)
    sent = buffer.next_serial
    better = SCORED._replace(log_reward=6.0, parts=(6.0, 0.0), structure="another")
    buffer.add(SCORED)
    assert not buffer.since(sent), "an equal score is no news"
    buffer.add(better)
    assert everywhere(buffer) == {score(better)}
    other = filled(SCORED)
    other.merge(buffer.since(sent))
    assert everywhere(other) == {score(better)}


def test_pinned_programs_stay_pinned_when_their_score_changes() -> None:
    buffer = filled()
    buffer.add(SCORED, pinned=True)
    buffer.add(SCORED._replace(log_reward=5.0, parts=(5.0, 0.0)))
    assert buffer.composition(step=0)["pinned"] == 1


def test_fresh_rounds_are_drawn_evenly_and_alone() -> None:
    generator = np.random.default_rng(0)
    buffer = filled(SCORED, OTHER)
    buffer.on_policy = True
    buffer.start_round()
    with pytest.raises(LookupError, match="needs a round of programs"):
        buffer.sample(4, generator)
    fresh = [OTHER._replace(program_ids=(9, n), token_log_probs=(-1.0, -0.5 * n)) for n in range(4)]
    for item in fresh:
        buffer.add(item)
    drawn = Counter(item.program_ids for item in buffer.sample(8, generator))
    assert drawn == {item.program_ids: 2 for item in fresh}
    assert len({item.program_ids for item in buffer.sample(3, generator)}) == 3
    restored = filled()
    restored.load_state_dict(buffer.state_dict())
    assert restored.recent == buffer.recent == fresh

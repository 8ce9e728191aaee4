"""What the proposal's prompt shows, what it never shows, and that the prior's shows nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning import ReplayDataModule
from synthstats_lightning.tasks import Task, task_prompt
from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask
from synthstats_lightning.tasks.proposal import MOST_ROWS, looking

LOOKS = ["rows", "digest"]


def grown(response=None, rows=40, **more):
    rng = np.random.default_rng(1)
    size = rng.uniform(1, 9, rows)
    grown = 2 + 0.5 * size + rng.normal(0, 0.3, rows)
    return Task("grown", "Growth.", {"size": size, "y": grown if response is None else response}, "y", **more)


@pytest.mark.parametrize("proposal", LOOKS)
def test_the_prior_knows_no_value_and_the_proposal_no_row_that_is_held_out(proposal):
    task = looking(grown(held_out=8), proposal)
    prompt = task_prompt(task)
    assert prompt.data
    assert not prompt.prior.data
    assert prompt.prior == task_prompt(grown(held_out=8))
    shuffled = task.data["y"].copy()
    np.random.default_rng(2).shuffle(shuffled[:32])
    other = task_prompt(looking(grown(shuffled, held_out=8), proposal))
    assert other.prior == prompt.prior
    assert other.data != prompt.data
    held_out = task.data["y"].copy()
    held_out[32:] = 50.0
    assert task_prompt(looking(grown(held_out, held_out=8), proposal)) == prompt


@pytest.mark.parametrize("proposal", LOOKS)
def test_rows_that_only_the_proposal_sees_still_count(proposal):
    task = grown(shown_rows=5, held_out=8)
    looks = looking(task, proposal)
    assert looks.counting_rows == task.counting_rows == slice(5, 32)
    assert looks.fingerprint == task.fingerprint
    assert task.proposal == "nothing"
    assert task_prompt(looks).prior == task_prompt(task)
    # what the prior's prompt shows only conditions, and is no part of what the proposal looks at
    first = task.data["y"].copy()
    first[0] += 0.1
    assert (
        task_prompt(looking(grown(first, shown_rows=5, held_out=8), proposal)).data == task_prompt(looks).data
    )


def test_rows_are_those_of_the_data_and_many_are_spread_evenly():
    task = Task("t", "T.", {"x": np.array([1, 2, 3]), "y": np.array([0.5, 1.25, 3.0])}, "y", shown_rows=1)
    text = task_prompt(looking(task, "rows")).data
    assert text == "data (all rows): x, y\n2, 1.25\n3, 3"
    lines = task_prompt(looking(grown(rows=500), "rows")).data.splitlines()
    assert lines[0] == f"data ({MOST_ROWS} of 500 rows): size, y"
    assert len(lines) == MOST_ROWS + 1


def test_the_data_module_gives_every_task_its_proposal():
    module = ReplayDataModule(tasks=["dugongs", "surgical"], proposal="rows")
    assert all(task_prompt(task).data for task in module.tasks)
    assert not any(task_prompt(task).data for task in ReplayDataModule(tasks=["dugongs"]).tasks)
    state = ReplayDataModule(tasks=["dugongs", "surgical"]).state_dict()
    with pytest.raises(ValueError, match="proposal must be 'nothing' as in the checkpoint, got 'rows'"):
        module.load_state_dict(state)


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(ValueError, match=r"proposal must be one of nothing, rows.*, got 'all'"):
        looking(grown(), "all")
    with pytest.raises(ValueError, match="proposal must be 'nothing' for task 'dugongs_simulator'"):
        ReplayDataModule(tasks=[ExperimentTask("dugongs_simulator")], proposal="rows")

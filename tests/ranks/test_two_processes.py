"""A run on two gloo processes, and runs that go on with another number of processes."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.reports.journal import read_records
from tests.ranks.processes import finish, start, wait_until
from tests.ranks.run import POISONED, PROGRAMS, SAVED, STARVED, STEPS, WARMUP, fit

pytestmark = pytest.mark.long

ROUNDS = STEPS // 4


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One process for ten steps; two for twenty; two that go on from the one."""
    folder = tmp_path_factory.mktemp("ranks")
    one = fit(folder / "one", devices=1, steps=SAVED)
    saved = folder / "one" / "saved" / f"step{SAVED}.ckpt"
    finish(start(["-m", "tests.ranks.run"], str(folder), str(saved)), timeout=170)
    return (
        folder,
        one,
        *(
            [torch.load(folder / name / f"rank-{rank}.pt", weights_only=True) for rank in (0, 1)]
            for name in ("two", "wider")
        ),
    )


def test_no_rank_is_in_the_process_group_when_its_interpreter_ends(runs):
    for rank in (0, 1):
        left = runs[0] / f"left-{rank}"
        # the first process does not wait for the second to end
        assert (
            wait_until(lambda left=left: left.exists() and left.read_text(), 30, left.name)
            == "out of the group"
        )


def keys(end):
    return {(task, tuple(ids)) for task, ids in end["programs"]}


def test_both_ranks_end_with_the_same_parameters(runs):
    _, _, (first, second), wider = runs
    for one, other in ((first, second), wider):
        assert one["parameters"].keys() == other["parameters"].keys()
        for name, value in one["parameters"].items():
            assert torch.equal(value, other["parameters"][name]), name
    moved = [value for name, value in first["parameters"].items() if "lora_B" in name]
    assert moved
    assert all(bool(value.any()) for value in moved)


def test_ranks_sample_different_programs_and_exchange_them(runs):
    _, _, (first, second), _ = runs
    own = [{tuple(ids) for ids in end["recent"]} for end in (first, second)]
    assert len(first["recent"]) == first["added"] == second["added"] == WARMUP + PROGRAMS * ROUNDS
    assert own[0].isdisjoint(own[1])
    # the last exchange was at step 20, after the last programs
    assert keys(first) == keys(second)
    assert {ids for _, ids in keys(first)} == own[0] | own[1]
    assert first["losses"] != second["losses"], "each draws its own batches"


def test_the_programs_of_both_ranks_are_in_one_file(runs):
    folder, _, (first, second), _ = runs
    records = read_records(folder / "two" / "programs.jsonl")
    assert sum(record.count for record in records) == 2 * (WARMUP + PROGRAMS * ROUNDS)
    assert len(records) == first["records"] > second["records"] == 0, "the first rank has taken all over"
    assert not list((folder / "two").glob("programs-*.jsonl"))


def test_a_rank_without_programs_takes_a_step_of_no_loss(runs):
    _, _, (first, second), _ = runs
    assert [step for step, loss in enumerate(second["losses"], 1) if loss == 0] == [STARVED]
    assert 0 not in first["losses"]


def test_a_gradient_that_is_not_finite_on_one_rank_is_a_step_that_both_skip(runs):
    _, one, ends, wider = runs
    assert [end["skipped"] for end in (one, *ends, *wider)] == [0, 1, 1, 0, 0]
    for end in ends:
        moved = [before != after for before, after in zip(end["log_z"], end["log_z"][1:], strict=False)]
        assert not moved[POISONED - 2], "log Z after the skipped step is that of the step before"
        assert moved[POISONED - 3]
        assert moved[POISONED - 1]


def test_metrics_are_those_of_both_ranks(runs):
    _, _, (first, second), _ = runs
    ours = {
        name: value
        for name, value in first["metrics"].items()
        if name.split("/")[0] in ("train", "sample", "replay", "balance", "fresh", "failures")
    }
    assert {"train/loss", "sample/log_reward", "fresh/valid_rate", "replay/entries"} <= ours.keys()
    assert {"fresh/log_z_importance/dugongs", "balance/residual_std"} <= ours.keys()
    for name, value in ours.items():
        assert second["metrics"][name] == pytest.approx(value, nan_ok=True), name
    mean = (first["losses"][-1] + second["losses"][-1]) / 2
    assert ours["train/loss"] == pytest.approx(mean, rel=1e-5)
    assert ours["replay/entries"] == len(first["programs"]) + len(second["programs"])
    assert ours["fresh/effective_sample_size/dugongs"] <= 4, "two programs of either rank"


def test_two_processes_go_on_from_one(runs):
    folder, one, _, wider = runs
    saved = torch.load(folder / "one" / "saved" / f"step{SAVED}.ckpt", weights_only=True)
    entries = saved["ReplayDataModule"]["buffer"]["entries"]
    old = keys(one)
    assert len(old) == entries
    held = [keys(end) & old for end in wider]
    assert held[0] | held[1] == old, "nothing of the saved buffer is lost"
    assert held[0].isdisjoint(held[1]), "no step from 10 to 12 exchanged anything"
    assert abs(len(held[0]) - len(held[1])) <= 1
    assert sum(end["added"] for end in wider) == one["added"] + 2 * PROGRAMS, "no second warm-up"
    new = [keys(end) - old for end in wider]
    assert new[0].isdisjoint(new[1])


def test_one_process_goes_on_from_two(runs):
    folder, *_ = runs
    path = folder / "two" / "saved" / f"step{SAVED}.ckpt"
    data = torch.load(path, weights_only=True)["ReplayDataModule"]
    states = [data["buffer"], *data["buffers_of_other_ranks"]]
    assert len(states) == 2
    narrower = fit(folder / "narrower", devices=1, steps=SAVED + 2, checkpoint=path)
    # at step 10 both had just exchanged: each of the two held everything
    assert len(narrower["programs"]) <= states[0]["entries"] + PROGRAMS
    assert narrower["added"] == sum(state["added"] for state in states) + PROGRAMS
    assert len(narrower["losses"]) == 2

"""Two processes that each see a part of the data say what one says that sees everything."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing

from synthstats_lightning import GFlowNetModule, ReplayDataModule
from synthstats_lightning.callbacks.exchange import BufferExchange
from synthstats_lightning.learning.log_z_updates import learn_prompts
from synthstats_lightning.learning.step_metrics import step_metrics
from synthstats_lightning.metrics import (
    GroupedVariance,
    ImportanceLogZ,
    Moments,
    PrefixCollapse,
    StructureDiversity,
)
from synthstats_lightning.objectives import (
    LogVariance,
    PromptLogZ,
    RelativeTrajectoryBalance,
    Supervised,
    log_variance_loss,
)
from synthstats_lightning.objectives.base import loss_output
from synthstats_lightning.objectives.groups import group_advantage
from synthstats_lightning.objectives.rloo import leave_one_out_advantage
from synthstats_lightning.replay import ReplayBuffer, Trajectory, collate
from synthstats_lightning.replay.trajectory import empty_batch
from synthstats_lightning.runtime.distributed import all_ranks, gather_objects

pytestmark = pytest.mark.long


def data():
    """Columns of forty programs of two tasks."""
    generator = np.random.default_rng(0)
    return {
        "log_reward": torch.from_numpy(generator.normal(0, 3, 40)).float(),
        "log_prob": torch.from_numpy(generator.normal(-20, 2, 40)).float(),
        "task": torch.from_numpy(generator.integers(2, size=40)),
        "structure": [None if code == 0 else f"{code:08x}" for code in generator.integers(9, size=40)],
        "ids": torch.from_numpy(generator.integers(2, size=(40, 6))),
    }


def values(rows: list[int]) -> list[torch.Tensor]:
    """Every metric over some rows, and over those of other processes if there are any."""
    columns = data()
    index = torch.tensor(rows, dtype=torch.int64)
    reward, prob, task = (columns[name][index] for name in ("log_reward", "log_prob", "task"))
    moments, variance, importance = Moments(), GroupedVariance(2), ImportanceLogZ(2)
    diversity, prefixes = StructureDiversity(2), PrefixCollapse((1, 3))
    moments.update(prob - reward)
    variance.update(reward - prob, task)
    importance.update(reward - prob, task)
    diversity.update([columns["structure"][row] for row in rows], task.tolist())
    prefixes.update(columns["ids"][index], torch.ones(len(rows), 6, dtype=torch.bool), task)
    computed = [metric.compute() for metric in (moments, variance, importance, diversity, prefixes)]
    return [
        torch.cat([part.reshape(-1).double() for part in (value if isinstance(value, tuple) else (value,))])
        for value in computed
    ]


def module(rank: int) -> ReplayDataModule:
    """A data module that knows its rank."""
    made = ReplayDataModule(batch_size=4, steps_per_epoch=10, seed=0)
    made.trainer = SimpleNamespace(
        global_rank=rank,
        world_size=1,
        validating=False,
        testing=False,
        predicting=False,
        interrupted=False,
    )
    return made


def in_process(rank: int, folder: str, expected: list[torch.Tensor]) -> None:
    """Body of one process."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    rows = list(range(13)) if rank == 0 else list(range(13, 40))  # of different size
    for whole, found in zip(expected, values(rows), strict=True):
        torch.testing.assert_close(found, whole)
    assert gather_objects(f"rank {rank}") == ["rank 0", "rank 1"]

    data_module = module(rank)
    buffer, loader = data_module.buffer, data_module.train_dataloader()
    buffer.register_prompt(0, [1, 2])
    for number in range(20):
        buffer.add(Trajectory(0, (rank, number), float(number), -1.0))
    iterator = iter(loader)
    next(iterator)
    state, position = data_module.state_dict(), loader.state_dict()
    assert len(state["buffers_of_other_ranks"]) == 1
    expected_batch = next(iterator).program_ids

    resumed = module(rank)
    resumed.load_state_dict(state)
    assert resumed.buffer.trajectories == buffer.trajectories
    again = resumed.train_dataloader()
    again.load_state_dict(position)
    assert torch.equal(next(iter(again)).program_ids, expected_batch)
    assert set(expected_batch[:, 0].tolist()) == {rank}

    exchange_in_process(rank)
    groups_in_process(rank)
    prompts_in_process(rank)
    steps_in_process(rank)
    distributed.destroy_process_group()


def exchange_in_process(rank: int) -> None:
    """What a rank stored since the last exchange reaches the other, once."""
    buffer, exchange = ReplayBuffer(), BufferExchange(5)
    buffer.register_prompt(0, [1])
    buffer.add(Trajectory(0, (7, 7), 0.0, -1.0), pinned=True)
    for number in range(3 + rank):
        buffer.add(Trajectory(0, (rank, number), float(number), -1.0, structure="a" * 32, step=2))
    exchange.step(buffer, 4)
    assert len(buffer) == 4 + rank, "it is not time"
    exchange.step(buffer, 5)
    everything = {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (7, 7)}
    assert {item.program_ids for item in buffer.trajectories} == everything
    assert buffer.added == 3 + rank
    given = next(item for item in buffer.trajectories if item.program_ids == (1 - rank, 2))
    assert given == Trajectory(0, (1 - rank, 2), 2.0, -1.0, structure="a" * 32, step=2)
    buffer.add(Trajectory(0, (rank, 9), 0.0, -1.0))
    exchange.step(buffer, 10)
    assert {item.program_ids for item in buffer.trajectories} == everything | {(0, 9), (1, 9)}
    exchange.step(buffer, 15)
    assert len(buffer) == 10
    again = BufferExchange(5)
    again.restore(gather_objects(exchange.state()))
    again.start(buffer)
    assert again.state() == exchange.state() == buffer.next_serial


def groups_in_process(rank: int) -> None:
    """The log-variance loss of two shards, and its gradient, are those of the whole batch."""
    columns = data()
    columns |= {name: columns[name].double() for name in ("log_prob", "log_reward")}
    rows = slice(0, 13) if rank == 0 else slice(13, 40)

    def loss(index: slice, spans: bool) -> tuple[torch.Tensor, torch.Tensor]:
        weight = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        log_prob = weight * columns["log_prob"][index]
        if spans:
            value, _ = log_variance_loss(log_prob, columns["log_reward"][index], columns["task"][index])
        else:  # written out, with the gradient through the mean
            difference = columns["log_reward"] - log_prob
            task = columns["task"]
            means = torch.stack([difference[task == number].mean() for number in range(2)])
            value = (means[task] - difference).square().mean()
        value.backward()
        return value.detach(), weight.grad

    for advantage in (leave_one_out_advantage, functools.partial(group_advantage, scale_by_std=True)):
        task, reward = columns["task"], columns["log_reward"]
        shards = gather_objects(advantage(reward[rows], task[rows]))
        with mock.patch.object(distributed, "is_initialized", return_value=False):
            torch.testing.assert_close(torch.cat(shards), advantage(reward, task))
    share = len(columns["task"][rows]) / 40
    parts = torch.stack(loss(rows, spans=True)) * share
    distributed.all_reduce(parts)
    torch.testing.assert_close(parts, torch.stack(loss(slice(0, 40), spans=False)))


def prompts_in_process(rank: int) -> None:
    """Log Z as a function of the prompt learns each rank's prompts on both."""
    made = GFlowNetModule(tasks=["a", "b"], log_z_form="prompt", objective=LogVariance(), seed=0)
    made.log_z = PromptLogZ(2, 3)
    made.policy = SimpleNamespace(
        prompt_features=lambda ids, mask: ids.float() @ torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 5.0]])
    )
    batch = collate([Trajectory(rank, (5,), 1.0, -1.0)], {0: (1, 0), 1: (2, 3)})
    learn_prompts(made.log_z, made.policy, batch if rank == 0 else empty_batch())
    assert made.log_z.known.tolist() == [True, False]
    learn_prompts(made.log_z, made.policy, batch)
    assert made.log_z.known.tolist() == [True, True]
    features = gather_objects(made.log_z.features)
    assert torch.equal(*features)
    learn_prompts(
        made.log_z, made.policy, empty_batch() if rank else batch
    )  # all known: nobody waits for anybody


def steps_in_process(rank: int) -> None:
    """A rank without programs takes a step of loss 0 while the other learns, and both log the same."""
    for objective in (LogVariance(), Supervised(), RelativeTrajectoryBalance(log_z="batch")):
        assert objective.groups_span_ranks
        made = GFlowNetModule(tasks=["a", "b"], objective=objective, seed=0)
        made.policy = SimpleNamespace()
        nothing = torch.zeros(0)
        if rank == 0:
            output = made.objective_loss(empty_batch())
            assert output.loss.requires_grad
            output.loss.backward()
            assert made.log_z.value.grad.tolist() == [0.0, 0.0]
            assert made.batch_residual.shape == nothing.shape
            size = 0
        else:
            log_prob, log_reward = torch.tensor([-2.0, -3.0]), torch.tensor([1.0, 4.0])
            task = torch.tensor([1, 1])
            made.log_z.initialise(log_reward - log_prob, task)
            made.log_z.follow(log_reward - log_prob, task)
            loss, residual = log_variance_loss(log_prob, log_reward, task)
            assert residual.tolist() == [2.0, -2.0]
            output, size = loss_output(loss, residual), 2
        assert made.log_z.value.tolist() == [0.0, 5.0], "log Z of both is that of the batch there was"
        logged = gather_objects({name: float(v) for name, v in step_metrics(output, size).items()})
        assert logged[0] == logged[1] == {"loss": 2.0, "residual_mean": 0.0, "residual_std": 2.0}
    assert not all_ranks(rank == 0)
    assert all_ranks(True)


def test_two_gloo_processes(tmp_path):
    expected = values(list(range(40)))
    multiprocessing.spawn(in_process, args=(str(tmp_path), expected), nprocs=2)


def test_a_checkpoint_of_two_ranks_serves_one():
    made = module(0)
    made.buffer.register_prompt(0, [1, 2])
    made.buffer.add(Trajectory(0, (1,), 1.0, -1.0))
    first = made.state_dict()["buffer"]
    made.buffer.add(Trajectory(0, (2,), 2.0, -1.0))
    state = made.state_dict() | {"buffers_of_other_ranks": [first]}
    resumed = module(0)
    resumed.load_state_dict(state)
    assert {item.program_ids for item in resumed.buffer.trajectories} == {(1,), (2,)}
    assert resumed.buffer.added == 3
    resumed.trainer.testing = True
    resumed.load_state_dict(state)
    assert resumed.buffer.trajectories == made.buffer.trajectories, "evaluation takes the first rank's"
    with pytest.raises(ValueError, match="the checkpoint's buffer is of tasks"):
        resumed.load_state_dict(state | {"tasks": ["whales"]})

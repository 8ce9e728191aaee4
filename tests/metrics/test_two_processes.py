"""Two processes that each see a part of the data say what one says that sees everything."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing

from synthstats_lightning import ReplayDataModule
from synthstats_lightning.distributed import gather_objects
from synthstats_lightning.metrics import (
    GroupedVariance,
    ImportanceLogZ,
    Moments,
    PrefixCollapse,
    StructureDiversity,
)
from synthstats_lightning.replay import Trajectory


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
    importance.update(reward, prob, task)
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
        global_rank=rank, world_size=1, validating=False, testing=False, predicting=False
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
    distributed.destroy_process_group()


def test_two_gloo_processes(tmp_path):
    expected = values(list(range(40)))
    multiprocessing.spawn(in_process, args=(str(tmp_path), expected), nprocs=2)


def test_a_checkpoint_of_two_ranks_is_not_for_one():
    made = module(0)
    state = made.state_dict()
    state["buffers_of_other_ranks"] = [state["buffer"]]
    with pytest.raises(ValueError, match="replay buffers of 2 processes, this run has 1"):
        made.load_state_dict(state)
    made.trainer.testing = True
    made.load_state_dict(state)
    loader = made.train_dataloader()
    position = loader.state_dict()
    position["generators"] *= 2
    with pytest.raises(ValueError, match="random streams of 2 processes, this run has 1"):
        loader.load_state_dict(position)

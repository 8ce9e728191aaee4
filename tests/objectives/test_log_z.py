from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from synthstats_lightning.objectives import LogZ, log_variance_estimate


def test_starts_where_asked_and_looks_up_by_task() -> None:
    log_z = LogZ(3, initial=2.5)
    with torch.no_grad():
        log_z.value[1] = -4.0
    assert log_z(torch.tensor([1, 0, 1])).tolist() == [-4.0, 2.5, -4.0]


@pytest.mark.parametrize(
    "convert", [lambda m: m.to(torch.bfloat16), lambda m: m.half(), lambda m: m.double()]
)
def test_stays_float32_without_rounding_inside_a_module_that_is_converted(convert) -> None:
    module = nn.ModuleDict({"log_z": LogZ(2, initial=50.1), "layer": nn.Linear(2, 2)})
    converted = convert(module)
    assert converted["layer"].weight.dtype != torch.float32
    assert converted["log_z"].value.dtype == torch.float32
    assert converted["log_z"].value[0].item() == pytest.approx(50.1, abs=1e-5)


def test_moves_with_the_module_and_still_ignores_dtype() -> None:
    log_z = LogZ(2).to("meta", torch.bfloat16)
    assert log_z.value.device.type == "meta"
    assert log_z.value.dtype == torch.float32
    assert log_z.initialised.device.type == "meta"


def test_is_float32_under_another_default_dtype() -> None:
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert LogZ(2).value.dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_moves_in_training_where_bfloat16_would_not() -> None:
    log_z = LogZ(1, initial=50.0).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(log_z.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(50):
        optimizer.zero_grad()
        (log_z(torch.zeros(4, dtype=torch.long)) - 49.0).square().mean().backward()
        optimizer.step()
    assert log_z.value.item() == pytest.approx(49.5, abs=0.05)


def test_estimate_is_the_mean_and_makes_mean_residuals_zero() -> None:
    log_prob = torch.tensor([-1.0, -3.0, -2.0, -7.0])
    log_reward = torch.tensor([4.0, 1.0, 10.0, -1.0])
    total, count = log_variance_estimate(log_reward - log_prob, torch.tensor([0, 0, 2, 2]), 3)
    assert total.tolist() == [9.0, 0.0, 18.0]
    assert count.tolist() == [2.0, 0.0, 2.0]


def test_each_task_is_initialised_by_the_first_batch_that_has_it() -> None:
    log_z = LogZ(2)
    log_z.initialise(torch.tensor([5.0, 7.0]), torch.tensor([0, 0]))
    assert log_z.value.tolist() == [6.0, 0.0]
    log_z.initialise(torch.tensor([1.0, -2.0]), torch.tensor([0, 1]))
    assert log_z.value.tolist() == [6.0, -2.0]
    log_z.initialise(torch.tensor([99.0]), torch.tensor([1]))
    assert log_z.value.tolist() == [6.0, -2.0]
    assert log_z.value.requires_grad


RANK_PROGRAM = """
import sys, torch, torch.distributed as dist
from synthstats_lightning.objectives import LogZ
rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
log_z = LogZ(3)
task, log_reward = ([0, 0], [1.0, 2.0]) if rank == 0 else ([0, 1], [6.0, 5.0])
log_z.initialise(torch.tensor(log_reward), torch.tensor(task))
print(log_z.value.tolist(), log_z.initialised.tolist())
dist.destroy_process_group()
"""


def test_all_ranks_are_initialised_alike(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK_PROGRAM, str(tmp_path / "store")]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0].strip() for process in ranks]
    assert outputs == ["[3.0, 5.0, 0.0] [True, True, False]"] * 2


def test_saved_state_remembers_what_was_initialised() -> None:
    log_z = LogZ(2)
    log_z.initialise(torch.tensor([5.0]), torch.tensor([0]))
    restored = LogZ(2)
    restored.load_state_dict(log_z.state_dict())
    restored.initialise(torch.tensor([1.0, 2.0]), torch.tensor([0, 1]))
    assert restored.value.tolist() == [5.0, 2.0]


def test_refuses_an_empty_table() -> None:
    with pytest.raises(ValueError, match="num_tasks must be at least 1, got 0"):
        LogZ(0)

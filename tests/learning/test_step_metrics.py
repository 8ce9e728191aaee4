"""Metrics of several batches together are those of one batch that holds them all."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.learning import step_metrics as module
from synthstats_lightning.learning.step_metrics import StepSums, over_ranks, step_metrics
from synthstats_lightning.objectives.base import loss_output


def output(residual: torch.Tensor):
    return loss_output(residual.square().mean(), residual, share=(residual > 0).float().mean())


def sums(residual: torch.Tensor) -> StepSums:
    made = output(residual)
    size = len(residual)
    metrics = {name: size * float(value) for name, value in made.metrics.items()}
    return StepSums(size, float(made.loss), metrics, float(residual.sum()), float(residual.square().sum()))


def test_ranks_of_one_size_are_one_batch():
    residual = torch.randn(12, generator=torch.Generator().manual_seed(0)) + 3
    whole = {name: float(value) for name, value in step_metrics(output(residual), 12).items()}
    assert set(whole) == {"loss", "residual_mean", "residual_std", "share"}
    assert over_ranks([sums(part) for part in residual.split(4)]) == pytest.approx(whole, rel=1e-5)


def test_a_rank_without_programs_halves_the_loss_and_changes_no_mean():
    residual = torch.tensor([1.0, -3.0])
    nothing = StepSums(0, 0.0, {}, 0.0, 0.0)
    expected = {"loss": 2.5, "residual_mean": -1.0, "residual_std": 2.0, "share": 0.5}
    assert over_ranks([sums(residual), nothing]) == pytest.approx(expected)
    assert over_ranks([nothing, nothing]) == {"loss": 0.0}


def test_a_loss_with_a_gradient_is_logged_without_a_warning(monkeypatch):
    monkeypatch.setattr(module, "rank_and_size", lambda: (0, 2))
    monkeypatch.setattr(module, "gather_objects", lambda own: [own, own])
    loss = torch.tensor(2.0, requires_grad=True) * 3.0
    torch.set_warn_always(True)  # otherwise it says so once a process
    try:
        found = step_metrics(output(torch.tensor([1.0, 2.0]))._replace(loss=loss), 2)
    finally:
        torch.set_warn_always(False)
    assert found["loss"] == 6.0

"""Perceptrons against torch, and their file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from synthstats_lightning.learning.screen.perceptrons import Perceptron, load_perceptrons, save_perceptrons


def made(seed: int) -> tuple[Perceptron, nn.Sequential]:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    layers = tuple(
        (each.weight.detach().numpy(), each.bias.detach().numpy())
        for each in network
        if isinstance(each, nn.Linear)
    )
    return Perceptron(("a", "b", "c"), np.arange(5.0), np.full(5, 2.0), layers), network


def test_log_probabilities_are_those_of_torch():
    found, network = made(0)
    features = np.array([0.3, -1.0, 2.0, 9.0, 500.0])
    inside = torch.from_numpy(np.clip((features - np.arange(5.0)) / 2, -6, 6))
    wanted = network(inside).log_softmax(-1).tolist()
    assert list(found.log_probs(features).values()) == pytest.approx(wanted, abs=1e-12)
    with pytest.raises(ValueError, match=r"features must have shape \(5,\), got \(4,\)"):
        found.log_probs(features[:4])


def test_a_file_keeps_them_to_half_precision(tmp_path):
    both = {"one": made(1)[0], "two": made(2)[0]}
    save_perceptrons(both, tmp_path / "both.npz")
    again = load_perceptrons(tmp_path / "both.npz")
    features = np.linspace(-1.0, 3.0, 5)
    assert again.keys() == both.keys()
    for name, wanted in both.items():
        assert again[name].log_probs(features) == pytest.approx(wanted.log_probs(features), abs=5e-3)

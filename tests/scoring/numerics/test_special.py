"""Functions whose derivatives a confined process takes, and logarithms of small probabilities."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from mpmath import mp

from synthstats_lightning.scoring.numerics.special import log_ndtr_between

SECOND_DERIVATIVE = """
import sys, torch
from synthstats_lightning.scoring.numerics.special import absolute, softplus
x = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
(slope,) = torch.autograd.grad(softplus(x).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(slope.sum(), x)
p = torch.sigmoid(x.detach())
torch.testing.assert_close(slope[[0, 2]].detach(), p[[0, 2]])
torch.testing.assert_close(second[[0, 2]], (p * (1 - p))[[0, 2]])
(slope,) = torch.autograd.grad((absolute(x) * x).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(slope.sum(), x)
torch.testing.assert_close(slope.detach(), 2 * x.detach().abs())
torch.testing.assert_close(second, 2 * torch.sign(x.detach()))
print("torch._dynamo" in sys.modules)
"""


def test_second_derivatives_import_nothing() -> None:
    """A scoring process may not read what PyTorch's compiler imports."""
    done = subprocess.run(
        [sys.executable, "-c", SECOND_DERIVATIVE], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("low", [-1e60, -90.0, -32.0, -8.0, -1.0, -1e-3])
@pytest.mark.parametrize("width", [1e-7, 1e-4, 0.3, 5.0])
def test_probabilities_of_intervals_are_those_of_mpmath(low: float, width: float) -> None:
    mp.dps = 60
    high = min(low + width, -low)
    ends = torch.tensor([[low], [high]], dtype=torch.float64, requires_grad=True)
    found = log_ndtr_between(ends[0], ends[1])
    below, above = (mp.erfc(-mp.mpf(end) / mp.sqrt(2)) for end in ends[:, 0].tolist())
    if above == below:
        return
    assert found.item() == pytest.approx(float(mp.log((above - below) / 2)), rel=1e-9, abs=1e-11)
    (slope,) = torch.autograd.grad(found, ends)
    density = mp.exp(-(mp.mpf(ends[1, 0].item()) ** 2) / 2) / mp.sqrt(2 * mp.pi)
    assert slope[1].item() == pytest.approx(float(density / ((above - below) / 2)), rel=1e-7)

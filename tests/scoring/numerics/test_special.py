"""Functions whose derivatives a confined process takes."""

from __future__ import annotations

import subprocess
import sys

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

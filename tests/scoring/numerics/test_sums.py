"""Sums over short axes against PyTorch's own."""

import pytest
import torch

from synthstats_lightning.scoring.numerics.sums import log_sum_exp_last, sum_last


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 40])
def test_sums_and_gradients_are_those_of_torch(n: int) -> None:
    values = torch.randn(5, 3, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    values.requires_grad_(True)
    found, wanted = sum_last(values), values.sum(-1)
    torch.testing.assert_close(found, wanted)
    (slope,) = torch.autograd.grad((found * torch.arange(3.0)).sum(), values)
    torch.testing.assert_close(slope, torch.arange(3.0, dtype=torch.float64)[:, None].expand(5, 3, n))


def test_what_is_impossible_stays_so() -> None:
    values = torch.tensor([[0.5, -torch.inf, 1.0], [1.0, torch.nan, 1.0]], dtype=torch.float64)
    assert sum_last(values)[0] == -torch.inf
    assert sum_last(values)[1].isnan()


@pytest.mark.parametrize("n", [1, 2, 3, 12, 13])
def test_logs_of_sums_of_exponentials_are_those_of_torch(n: int) -> None:
    values = 40 * torch.randn(5, 3, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    values[0, 0, 1:], values[1, 1, 0] = -torch.inf, 900.0
    values.requires_grad_(True)
    found, wanted = log_sum_exp_last(values), torch.logsumexp(values, -1)
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=1e-14)
    slopes = [torch.autograd.grad(each.sin().sum(), values)[0] for each in (found, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-13)
    nothing = torch.full((2, n), -torch.inf, dtype=torch.float64)
    assert log_sum_exp_last(nothing).tolist() == [-torch.inf] * 2

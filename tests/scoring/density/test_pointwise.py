"""What leave-one-out needs of rows that depend on each other, also far out."""

from __future__ import annotations

import torch

from synthstats_lightning.scoring.density.target import Marginals, pointwise


class FarOut:
    """A coupled target: at the second particle single rows are beyond all digits, at the third all are."""

    coupled = True
    dimension = 1
    num_observations = 2

    def log_prior(self, theta: torch.Tensor) -> torch.Tensor:
        return theta[:, 0]

    def log_likelihood(self, theta: torch.Tensor) -> torch.Tensor:
        return theta.expand(-1, 2)

    def log_prior_and_likelihood(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.log_prior(theta), self.log_likelihood(theta)

    def sample_prior(self, n: int, generator: torch.Generator) -> torch.Tensor:
        return torch.zeros(n, 1, dtype=torch.float64)

    def marginals(self, theta: torch.Tensor, given: torch.Tensor | None = None) -> Marginals:
        total = torch.tensor([-10.0, -2e4, -7e19], dtype=torch.float64)
        changed = torch.tensor([[-8.0, -9.0], [-2e117, -1.9e4], [5e7, -7e19]], dtype=torch.float64)
        return Marginals(total[: len(theta)], changed[: len(theta)])


def test_a_row_without_digits_counts_for_nothing() -> None:
    theta = torch.zeros(2, 1, dtype=torch.float64)
    found = pointwise(FarOut(), theta, theta.expand(2, 2))
    # 2e117 nats for one row, which its weight in the whole would cancel, but for rounding
    assert found.own.tolist() == [[-2.0, -1.0], [-torch.inf, -1e3]]
    assert found.others.tolist() == [[-8.0, -9.0], [-torch.inf, -1.9e4]]


def test_a_whole_without_digits_leaves_no_row_any() -> None:
    theta = torch.zeros(3, 1, dtype=torch.float64)
    found = pointwise(FarOut(), theta, theta.expand(3, 2))
    # a search for a mode that ended far out: 5e7 nats without a row would outweigh every other particle
    assert found.others[2].tolist() == [-torch.inf, -torch.inf]

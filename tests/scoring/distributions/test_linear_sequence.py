"""Parts of linear sequences against the same sequences' dense covariance."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from synthstats_lightning.scoring.distributions.linear_sequence import LinearSequence

N, PARTICLES = 9, 3


def dense(sequence: LinearSequence, n: int, particle: int) -> MultivariateNormal:
    """The joint normal, by simulating what each innovation does to every entry."""
    order = sequence.rho.shape[-1]
    mean, scale = (part[min(particle, len(part) - 1)] for part in (sequence.mean, sequence.scale))
    rho = sequence.rho[min(particle, len(sequence.rho) - 1)]
    responses = []
    for pulse in [*torch.eye(n, dtype=torch.float64), mean.expand(n)]:
        entries: list[torch.Tensor] = []
        for t in range(n):
            before = (
                sum((rho[i] * entries[t - 1 - i] for i in range(order)), torch.zeros(())) if t >= order else 0
            )
            entries.append(pulse[t] + before)
        responses.append(torch.stack(entries).to(torch.float64))
    effects = torch.stack(responses[:-1], 1) * scale
    return MultivariateNormal(responses[-1], effects @ effects.mT)


def log_density(joint: MultivariateNormal, value: torch.Tensor, given: torch.Tensor) -> float:
    if not bool(given.any()):
        return 0.0
    cov = joint.covariance_matrix[given][:, given]
    return float(MultivariateNormal(joint.loc[given], cov).log_prob(value[given]))


@pytest.mark.parametrize("missing", [(), (4,), (0,), (8,), (0, 1, 5), (3, 4, 5, 6, 7, 8), tuple(range(N))])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_parts_are_those_of_the_dense_normal(missing: tuple[int, ...], order: int) -> None:
    generator = torch.Generator().manual_seed(order)
    sequence = LinearSequence(
        torch.randn(PARTICLES, N, generator=generator, dtype=torch.float64),
        torch.rand(1, N, generator=generator, dtype=torch.float64) + 0.3,
        torch.randn(PARTICLES, order, generator=generator, dtype=torch.float64),
    )
    value = torch.randn(N, generator=generator, dtype=torch.float64)
    given = torch.ones(N, dtype=torch.bool)
    given[list(missing)] = False
    found, alone = sequence.subsets(value, given), sequence.part(value, given)
    for particle in range(PARTICLES):
        joint = dense(sequence, N, particle)
        wanted = log_density(joint, value, given)
        assert float(found.given[particle]) == pytest.approx(wanted, abs=1e-9)
        assert float(alone[particle]) == pytest.approx(wanted, abs=1e-9)
        for place in range(N):
            other = given.clone()
            other[place] = not given[place]
            wanted = log_density(joint, value, other)
            assert float(found.changed[particle, place]) == pytest.approx(wanted, abs=1e-8)


def test_a_diffuse_start_takes_no_digits() -> None:
    value = torch.arange(200, dtype=torch.float64).sin()
    scale = torch.full((1, 200), 0.1, dtype=torch.float64)
    scale[:, 0] = 1e6
    walk = LinearSequence(
        torch.zeros(1, 200, dtype=torch.float64), scale, torch.ones(1, 1, dtype=torch.float64)
    )
    everything = torch.ones(200, dtype=torch.bool)
    found = walk.subsets(value, everything)
    # a middle entry given both neighbours is their mean with half a step's variance
    step = torch.distributions.Normal(0.5 * (value[:-2] + value[2:]), 0.1 / 2**0.5)
    wanted = step.log_prob(value[1:-1])
    assert torch.allclose(found.given[:, None] - found.changed[:, 1:-1], wanted[None], atol=1e-6)


def test_scales_that_vanish_are_impossible_rather_than_nan() -> None:
    zeros = torch.zeros(1, 5, dtype=torch.float64)
    walk = LinearSequence(zeros, zeros, torch.ones(1, 1, dtype=torch.float64))
    found = walk.subsets(torch.arange(5.0, dtype=torch.float64), torch.ones(5, dtype=torch.bool))
    assert not found.given.isnan().any()
    assert not found.changed.isnan().any()

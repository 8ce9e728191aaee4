"""Normal series whose variance follows a GARCH(1, 1) process (Bollerslev 1986)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
    real_vector,
)
from synthstats_lightning.scoring.distributions.constraints import NON_NEGATIVE, POSITIVE
from synthstats_lightning.scoring.distributions.gaussian import Subsets
from synthstats_lightning.scoring.distributions.normal import NORMAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, broadcast_tensors


def volatilities(
    value: Float[Tensor, "*batch n"], omega: Tensor, alpha: Tensor, beta: Tensor, initial: Tensor
) -> Float[Tensor, "*shape n"]:
    """Standard deviation of every entry given those before it.

    The first is `initial`, and `s_t^2 = omega + alpha * y_(t-1)^2 + beta * s_(t-1)^2`.
    """
    variance = initial.square()
    shocks = omega.unsqueeze(-1) + alpha.unsqueeze(-1) * value[..., :-1].square()
    found = [variance]
    for t in range(value.shape[-1] - 1):
        found.append(shocks[..., t] + beta * found[-1])
    return torch.sqrt(torch.stack(broadcast_tensors(*found), -1))


def _log_kernel(
    offset: Tensor,
    statistics: Statistics,
    omega: Tensor,
    alpha: Tensor,
    beta: Tensor,
    initial: Tensor,
) -> Tensor:
    value = statistics[0]
    scale = volatilities(value, omega, alpha, beta, initial)
    return offset + NORMAL.log_prob(value, torch.zeros_like(scale), scale).sum(-1)


def _sample(
    generator: torch.Generator,
    shape: tuple[int, ...],
    omega: Tensor,
    alpha: Tensor,
    beta: Tensor,
    initial: Tensor,
) -> Tensor:
    noise = standard_normal(generator, shape)
    variance = initial.square().expand(shape[:-1])
    values = []
    for t in range(shape[-1]):
        values.append(torch.sqrt(variance) * noise[..., t])
        variance = omega + alpha * values[-1].square() + beta * variance
    return torch.stack(values, -1)


def _nodes() -> tuple[Tensor, Tensor]:
    """Places on the positive half line and logs of weights, for integrals of smooth decaying functions.

    The trapezoidal rule in `u` with `z = exp(u - exp(-u))` (Takahasi and Mori 1974), whose places crowd
    towards zero, where a missing entry may change the next variances on a scale of its own.
    """
    u = torch.linspace(-3.0, 2.4, _COUNT, dtype=torch.float64)
    z = torch.exp(u - torch.exp(-u))
    return z, torch.log((u[1] - u[0]) * z * (1.0 + torch.exp(-u)))


_COUNT = 64
_REPLICATES = 256
_PLACES, _LOG_WEIGHTS = _nodes()


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def _paths(count: int) -> Tensor:
    """Squares of standard normal variables for several missing entries `[count, replicates]`: fixed points.

    Scrambled Sobol points: a mean over them is the density of a mixture of as many normalised series.
    """
    sobol = torch.quasirandom.SobolEngine(count, scramble=True, seed=0)  # type: ignore[no-untyped-call]
    uniform: Tensor = sobol.draw(_REPLICATES, dtype=torch.float64)
    normal: Tensor = torch.special.ndtri(uniform.clamp(1e-12, 1.0 - 1e-12))
    return normal.square().T


def _log_given(value: Tensor, given: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Log-density of some entries; entries after the last of them do not matter.

    One entry that is missing between them is integrated over by quadrature, several by quasi-Monte Carlo; the
    later variances know no entry's sign.

    Args:
        value: The series `[n]`.
        given: Which entries are given `[n]`.
        parameters: Each `[particles, 1]`.
    """
    omega, alpha, beta, initial = parameters
    variance, total = initial.square(), torch.zeros_like(omega)
    places = given.nonzero().squeeze(-1).tolist()
    last = places[-1] if places else -1
    missing = last + 1 - len(places)
    squares = _PLACES.square()[None] if missing == 1 else _paths(missing) if missing else _PLACES[:0, None]
    if missing == 1:
        total = total + _LOG_WEIGHTS - 0.5 * squares[0] - HALF_LOG_TWO_PI + math.log(2.0)
    used = 0
    for t in range(last + 1):
        if bool(given[t]):
            square = value[t].square()
            total = total - 0.5 * (square / variance + torch.log(variance)) - HALF_LOG_TWO_PI
        else:
            square = variance * squares[used]
            used += 1
        variance = omega + alpha * square + beta * variance
    return torch.logsumexp(total, -1) - (math.log(_REPLICATES) if missing > 1 else 0.0)


def _columns(parameters: Sequence[Tensor]) -> list[Tensor]:
    columns = [parameter.reshape(-1, 1) for parameter in parameters]
    particles = max(column.shape[0] for column in columns)
    return [column.expand(particles, 1) for column in columns]


def _part(value: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
    return _log_given(value, given, _columns(parameters))


def _subsets(value: Tensor, given: Tensor, *parameters: Tensor) -> Subsets:
    columns = _columns(parameters)
    total = _log_given(value, given, columns)
    changed = torch.full((len(total), len(value)), torch.nan, dtype=torch.float64)
    everything = bool(given.all())
    with torch.no_grad():
        for t in range(len(value)):
            if everything or not given[t]:
                other = given.clone()
                other[t] = not everything
                changed[:, t] = _log_given(value, other, columns)
    return Subsets(total, changed)


GARCH11 = Distribution(
    name="GARCH11",
    constraints=(POSITIVE, NON_NEGATIVE, NON_NEGATIVE, POSITIVE),
    support=Support.REAL,
    inside=real_vector,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    anchor=0.0,
    event_rank=1,
    subsets=_subsets,
    part=_part,
)
"""Series with mean zero; variance `omega + alpha_1 * y^2 + beta_1 * variance` of the entry before.

Densities of parts of a series are integrals over the missing entries before the last one given: to 1e-10 over
one of them, to some hundredths of a nat over several. Where some are missing, `subsets` has in `changed` what
each of them adds, and NaN for the others.
"""

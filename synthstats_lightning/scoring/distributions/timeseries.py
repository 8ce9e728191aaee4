"""Series: random walks, autoregressions, and normal series with a volatility."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Distribution,
    Statistics,
    over_core,
    real_vector,
)
from synthstats_lightning.scoring.distributions.gaussian import Subsets
from synthstats_lightning.scoring.distributions.linear_sequence import LinearSequence
from synthstats_lightning.scoring.distributions.location_scale import Normal
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, LOG_TWO, broadcast_tensors


def random_walk(entry: Entry, start: Distribution, step: Distribution) -> Distribution:
    """A first value from one distribution and independent steps from another: numbers, or vectors.

    Args:
        entry: What `programs` says of the result.
        start: The distribution of the first value.
        step: The distribution of the steps, whose parameters have an axis along them in front of those of one
            step.
    """
    count = len(start.constraints)
    axis = -1 - start.event_rank

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return over_core(torch.isfinite(value), -axis)

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        first = start.log_prob(value.select(axis, 0), *parameters[:count])
        steps = step.log_prob(torch.diff(value, dim=axis), *parameters[count:])
        return offset + first + steps.sum(-1)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        place = len(shape) + axis
        batch, length, event = shape[:place], shape[place], shape[place + 1 :]
        first = start.sample(generator, (*batch, *event), *parameters[:count]).unsqueeze(axis)
        steps = step.sample(generator, (*batch, length - 1, *event), *parameters[count:])
        return torch.cumsum(torch.cat([first, steps], axis), axis)

    def sequence(length: int, mu0: Tensor, sigma0: Tensor, mu: Tensor, sigma: Tensor) -> LinearSequence:
        along = _flat([mu0.unsqueeze(-1), sigma0.unsqueeze(-1)], 1)
        steps = _flat([mu, sigma], length - 1)
        mean = torch.cat(_together([along[0], steps[0]]), -1)
        scale = torch.cat(_together([along[1], steps[1]]), -1)
        return LinearSequence(mean, scale, torch.ones(1, 1, dtype=torch.float64))

    def subsets(value: Tensor, given: Tensor, *parameters: Tensor) -> Subsets:
        return sequence(len(value), *parameters).subsets(value, given)

    def part(value: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
        return sequence(len(value), *parameters).part(value, given)

    linear = start is Normal.distribution and step is Normal.distribution

    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        anchor=start.anchor,
        subsets=subsets if linear else None,
        part=part if linear else None,
    )


def autoregression(entry: Entry, start: Distribution) -> Distribution:
    """`x_t = constant + sum_i rho_i x_(t-i) + sigma * noise`, with first values from a distribution.

    Args:
        entry: What `programs` says of the result.
        start: The distribution of the first values, as many as `rho` has entries, whose parameters have an
            axis along them.
    """

    def log_kernel(
        offset: Tensor, statistics: Statistics, constant: Tensor, rho: Tensor, sigma: Tensor, *first: Tensor
    ) -> Tensor:
        value = statistics[0]
        order, length = rho.shape[-1], value.shape[-1]
        begin = start.log_prob(value[..., :order], *first).sum(-1)
        if length == order:
            return offset + begin
        mean = constant.unsqueeze(-1)
        for lag in range(1, order + 1):
            mean = mean + rho[..., lag - 1 : lag] * value[..., order - lag : length - lag]
        later = Normal.distribution.log_prob(value[..., order:], mean, sigma.unsqueeze(-1))
        return offset + begin + later.sum(-1)

    def sample(
        generator: torch.Generator,
        shape: tuple[int, ...],
        constant: Tensor,
        rho: Tensor,
        sigma: Tensor,
        *first: Tensor,
    ) -> Tensor:
        order = rho.shape[-1]
        values = list(start.sample(generator, (*shape[:-1], order), *first).unbind(-1))
        noise = standard_normal(generator, (*shape[:-1], shape[-1] - order))
        for t in range(order, shape[-1]):
            mean = constant
            for lag in range(1, order + 1):
                mean = mean + rho[..., lag - 1] * values[t - lag]
            values.append(mean + sigma * noise[..., t - order])
        return torch.stack(values, -1)

    def sequence(length: int, constant: Tensor, rho: Tensor, sigma: Tensor, *first: Tensor) -> LinearSequence:
        order = rho.shape[-1]
        begin = _flat(list(first), order)
        later = _flat([constant.unsqueeze(-1), sigma.unsqueeze(-1)], length - order)
        mean = torch.cat(_together([begin[0], later[0]]), -1)
        scale = torch.cat(_together([begin[1], later[1]]), -1)
        return LinearSequence(mean, scale, rho.reshape(-1, order))

    def subsets(value: Tensor, given: Tensor, *parameters: Tensor) -> Subsets:
        return sequence(len(value), *parameters).subsets(value, given)

    def part(value: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
        return sequence(len(value), *parameters).part(value, given)

    return Distribution(
        entry=entry,
        inside=real_vector,
        log_kernel=log_kernel,
        sample=sample,
        anchor=start.anchor,
        subsets=subsets if start is Normal.distribution else None,
        subsets_width=lambda entries, out: entries * (1 + out),
        part=part if start is Normal.distribution else None,
    )


def _flat(parts: Sequence[Tensor], length: int) -> list[Tensor]:
    """Parameters of one sequence as `[particles or 1, length]`."""
    return [part.reshape(-1, part.shape[-1]).expand(-1, length) for part in parts]


def _together(parts: Sequence[Tensor]) -> list[Tensor]:
    """Parameters with the same number of particles."""
    particles = max(part.shape[0] for part in parts)
    return [part.expand(particles, -1) for part in parts]


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
_ONE = torch.ones((), dtype=torch.float64)
_TOGETHER = 8
"""Ratios of variances whose logarithm is taken together."""
_STILL = 1e-7
"""Relative changes of a variance below which later ones do not matter."""


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


class GARCH11(Definition):
    """Series with mean zero; variance `omega + alpha_1 * y^2 + beta_1 * variance` of the entry before.

    Densities of parts of a series are integrals over the missing entries before the last one given: to 1e-10
    over one of them, to 1e-6 where each is left out in turn, to some hundredths of a nat over several. Where
    some are missing, `subsets` has in `changed` what each of them adds, and NaN for the others.
    """

    inside = real_vector
    anchor = 0.0

    @staticmethod
    def log_kernel(
        offset: Tensor,
        statistics: Statistics,
        omega: Tensor,
        alpha: Tensor,
        beta: Tensor,
        initial: Tensor,
    ) -> Tensor:
        value = statistics[0]
        scale = volatilities(value, omega, alpha, beta, initial)
        return offset + Normal.distribution.log_prob(value, torch.zeros_like(scale), scale).sum(-1)

    @staticmethod
    def sample(
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

    @staticmethod
    def _log_given(value: Tensor, given: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Log-density of some entries; entries after the last of them do not matter.

        One entry that is missing between them is integrated over by quadrature, several by quasi-Monte Carlo;
        the later variances know no entry's sign.

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
        squares = (
            _PLACES.square()[None] if missing == 1 else _paths(missing) if missing else _PLACES[:0, None]
        )
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

    @staticmethod
    def _columns(parameters: Sequence[Tensor]) -> list[Tensor]:
        columns = [parameter.reshape(-1, 1) for parameter in parameters]
        particles = max(column.shape[0] for column in columns)
        return [column.expand(particles, 1) for column in columns]

    @staticmethod
    def subsets_width(entries: int, out: int) -> int:
        return max(4 * entries, _REPLICATES if out > 1 else 8 * _COUNT)

    @staticmethod
    def part(value: Tensor, given: Tensor, *parameters: Tensor) -> Tensor:
        return GARCH11._log_given(value, given, GARCH11._columns(parameters))

    @staticmethod
    def subsets(value: Tensor, given: Tensor, *parameters: Tensor) -> Subsets:
        columns = GARCH11._columns(parameters)
        if bool(given.all()):
            return GARCH11._without_each(value, columns)
        total = GARCH11._log_given(value, given, columns)
        changed = torch.full((len(total), len(value)), torch.nan, dtype=torch.float64)
        with torch.no_grad():
            for t in range(len(value)):
                if not given[t]:
                    other = given.clone()
                    other[t] = True
                    changed[:, t] = GARCH11._log_given(value, other, columns)
        return Subsets(total, changed)

    @staticmethod
    def _without_each(value: Tensor, parameters: Sequence[Tensor]) -> Subsets:
        """The whole series, and the series without each entry.

        What an entry changes of the next variance goes on to all later ones by `beta`: these are those of
        the whole series and a geometric sequence, of which the end is left out.

        Args:
            value: The series `[n]`.
            parameters: Each `[particles, 1]`.
        """
        _, alpha, beta, _ = parameters
        variance = volatilities(value, *(each[:, 0] for each in parameters)).square()
        own = -0.5 * (value.square() / variance + torch.log(variance)) - HALF_LOG_TWO_PI
        total, length = own.sum(-1), len(value)
        before = own.cumsum(-1) - own
        changed = torch.empty_like(own)
        squares = _PLACES.square()
        weights = _LOG_WEIGHTS - 0.5 * squares - HALF_LOG_TWO_PI + LOG_TWO
        with torch.no_grad():
            fitted = value.square() / variance
            for t in range(length):
                shift = alpha * (variance[:, t : t + 1] * squares - value[t].square())
                quotients, log_ratios = torch.zeros_like(shift), torch.zeros_like(shift)
                product, last = torch.ones_like(shift), t + 1
                for s in range(t + 1, length):
                    ratio = torch.addcdiv(_ONE, shift, variance[:, s : s + 1])
                    quotients.addcdiv_(fitted[:, s : s + 1], ratio)
                    product.mul_(ratio)
                    last = s + 1
                    if (s - t) % _TOGETHER == 0:
                        log_ratios.add_(product.log())
                        product.fill_(1.0)
                        low, high = torch.aminmax(ratio)
                        if max(float(high) - 1.0, 1.0 - float(low)) < _STILL:
                            break
                    shift.mul_(beta)
                log_ratios.add_(product.log())
                later = own[:, last:].sum(-1) - HALF_LOG_TWO_PI * (last - t - 1)
                later = later - 0.5 * torch.log(variance[:, t + 1 : last]).sum(-1)
                nodes = weights - 0.5 * (quotients + log_ratios)
                changed[:, t] = before[:, t] + later + torch.logsumexp(nodes, -1)
        return Subsets(total, changed)

"""Gamma functions in the sums that densities need, without cancellation however large the arguments are.

A density of large parameters is a small difference of large log-gammas. With Stirling's formula the large
parts combine into deviances `x log(x / m) + m - x`, which are small and never negative where the density is
not (Loader 2000, "Fast and accurate computation of binomial probabilities"); what is left of each log-gamma
is Stirling's error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

LARGE = 1e3
"""Sums of plain log-gammas up to it are exact to 1e-12; above it Stirling's formula is used."""
MANY = 1e4
"""Likewise up to it to 1e-10, at a fifth of the time: betas and beta-binomials, of which models have many."""
_SERIES_FROM = 10.0
_STIRLING = (1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156)
_NEAR = 0.1
TINY = 1e-300
"""Stands in for 0 where its logarithm is not used."""


def either(
    chosen: Bool[Tensor, ...],
    one: Callable[..., Tensor],
    other: Callable[..., Tensor],
    *given: Float[Tensor, ...],
) -> Float[Tensor, ...]:
    """One function of the elements that are chosen and another of the rest, each of its own elements alone.

    What an element gets does not depend on those beside it.

    Args:
        chosen: Which elements the first function is for; all tensors broadcast.
        one: Takes elements of `given` to as many numbers.
        other: Likewise, for the rest.
        given: What the functions are of.
    """
    if not bool(chosen.any()):
        return other(*given)
    if bool(chosen.all()):
        return one(*given)
    shape = np.broadcast_shapes(chosen.shape, *(each.shape for each in given))
    chosen, given_each = chosen.expand(shape), [each.expand(shape) for each in given]
    found = torch.zeros_like(given_each[0], memory_format=torch.contiguous_format)
    for place, function in ((chosen, one), (~chosen, other)):
        found = found.masked_scatter(place, function(*(each[place] for each in given_each)))
    return found


def stirling_error(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`lgamma(x)` minus Stirling's `(x - 1/2) log(x) - x + log(2 pi) / 2`, for positive `x`."""
    return either(x >= _SERIES_FROM, _stirling_series, _stirling_error_of_few, x)


def _stirling_series(x: Tensor) -> Tensor:
    r = torch.reciprocal(x)
    square = r * r
    series = torch.full_like(r, _STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        series = series * square + coefficient
    return series * r


def _stirling_error_of_few(x: Tensor) -> Tensor:
    return torch.lgamma(x) - (x - 0.5) * torch.log(x) + x - HALF_LOG_TWO_PI


def deviance(
    count: Float[Tensor, ...],
    log_expected: Float[Tensor, ...],
    excess: Float[Tensor, ...],
) -> Float[Tensor, ...]:
    """`count log(count / expected) + expected - count`, exact also where the two nearly agree.

    Args:
        count: Not negative; all arguments broadcast.
        log_expected: Logarithm of what is expected.
        excess: `expected - count`, to its last digits.
    """
    positive = count > 0
    safe = torch.where(positive, count, 1.0)
    t = torch.where(positive, excess, 0.0) / safe
    near = t.abs() < _NEAR
    small = torch.where(near, t, 0.0)
    # t - log(1 + t) with log(1 + t) = 2 artanh(s)
    s = small / (2.0 + small)
    square = s * s
    series = torch.full_like(square, 1.0 / 13)
    for odd in (11, 9, 7, 5, 3):
        series = series * square + 1.0 / odd
    close = safe * s * (small - 2.0 * square * series)
    log_ratio = log_expected - torch.log(safe)
    regular = ~near & positive
    far = excess - safe * torch.where(regular, log_ratio, 0.0)
    return torch.where(near & positive, close, far)


def log_gamma_ratio(x: Float[Tensor, "*x"], k: Float[Tensor, "*k"]) -> Float[Tensor, "*shape"]:
    """`lgamma(x + k) - lgamma(x)` for positive `x` and `k >= 0`."""
    return either(x + k > LARGE, _log_ratio_of_large, _log_ratio_of_small, x, k)


def _log_ratio_of_large(x: Tensor, k: Tensor) -> Tensor:
    total = x + k
    series = (x - 0.5) * torch.log1p(k / x) + k * (torch.log(total) - 1.0)
    return series + stirling_error(total) - stirling_error(x)


def _log_ratio_of_small(x: Tensor, k: Tensor) -> Tensor:
    return torch.lgamma(x + k) - torch.lgamma(x)


def log_beta(a: Float[Tensor, "*a"], b: Float[Tensor, "*b"]) -> Float[Tensor, "*shape"]:
    """Logarithm of the beta function."""
    small, big = torch.minimum(a, b), torch.maximum(a, b)
    return torch.lgamma(small) - log_gamma_ratio(big, small)


def log_factorial(k: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`log(k!)`."""
    return torch.lgamma(k + 1.0)


def log_gamma_kernel(
    alpha: Float[Tensor, ...], y: Float[Tensor, ...], log_y: Float[Tensor, ...]
) -> Float[Tensor, ...]:
    """`alpha log(y) - y - lgamma(alpha)`: the log-density of the logarithm of a gamma variable of scale 1.

    Args:
        alpha: Shape of the gamma variable.
        y: Value of the variable.
        log_y: Its logarithm, which may be known where `y` underflows.
    """
    return either(alpha > LARGE, _large_gamma_kernel, _small_gamma_kernel, alpha, y, log_y)


def _large_gamma_kernel(alpha: Tensor, y: Tensor, log_y: Tensor) -> Tensor:
    rest = 0.5 * torch.log(alpha) - HALF_LOG_TWO_PI - stirling_error(alpha)
    return rest - deviance(alpha, log_y, y - alpha)


def _small_gamma_kernel(alpha: Tensor, y: Tensor, log_y: Tensor) -> Tensor:
    return alpha * log_y - y - torch.lgamma(alpha)


def log_beta_kernel(
    a: Float[Tensor, ...],
    b: Float[Tensor, ...],
    log_p: Float[Tensor, ...],
    log_q: Float[Tensor, ...],
    excess: Float[Tensor, ...],
) -> Float[Tensor, ...]:
    """`a log(p) + b log(q) - log B(a, b)` with `q = 1 - p`: the log-density of the logit of a beta variable.

    Args:
        a: First shape of the beta variable.
        b: Second shape of the beta variable.
        log_p: Logarithm of the share of the first.
        log_q: Logarithm of the share of the second.
        excess: `a q - b p`, to its last digits.
    """
    large = (a + b > LARGE) & (log_p > -math.inf) & (log_q > -math.inf)
    return either(large, _large_beta_kernel, _small_beta_kernel, a, b, log_p, log_q, excess)


def _large_beta_kernel(a: Tensor, b: Tensor, log_p: Tensor, log_q: Tensor, excess: Tensor) -> Tensor:
    total = a + b
    log_total = torch.log(total)
    main = deviance(a, log_total + log_p, -excess) + deviance(b, log_total + log_q, excess)
    rest = stirling_error(total) - stirling_error(a) - stirling_error(b) - HALF_LOG_TWO_PI
    return rest + 0.5 * (torch.log(a) + torch.log(b) - log_total) - main


def _small_beta_kernel(a: Tensor, b: Tensor, log_p: Tensor, log_q: Tensor, excess: Tensor) -> Tensor:
    return a * log_p + b * log_q - log_beta(a, b)


def log_rising(x: Float[Tensor, "*x"], k: Float[Tensor, "*k"]) -> Float[Tensor, "*shape"]:
    """`log(Gamma(x + k) / (Gamma(x) k!))` for positive `x` and counts `k`: `log((x + k - 1) choose k)`."""
    return either((x + k > LARGE) & (k > 0), _large_rising, _small_rising, x, k)


def _large_rising(x: Tensor, k: Tensor) -> Tensor:
    total = x + k
    series = x * torch.log1p(k / x) + k * torch.log1p(x / k)
    series = series + 0.5 * (torch.log(x) - torch.log(k) - torch.log(total)) - HALF_LOG_TWO_PI
    return series + stirling_error(total) - stirling_error(x) - stirling_error(k)


def _small_rising(x: Tensor, k: Tensor) -> Tensor:
    return torch.where(k > 0, log_gamma_ratio(x, k) - torch.lgamma(k + 1.0), 0.0)


def log_binomial(
    k: Float[Tensor, ...],
    rest: Float[Tensor, ...],
    log_p: Float[Tensor, ...],
    log_q: Float[Tensor, ...],
    p: Float[Tensor, ...],
    q: Float[Tensor, ...],
) -> Float[Tensor, ...]:
    """Log-probability of `k` successes and `rest` failures.

    Args:
        k: Number of successes that were seen.
        rest: Number of failures that were seen.
        log_p: Logarithm of the probability of a success.
        log_q: Logarithm of that of a failure.
        p: Probability of a success.
        q: Probability of a failure, to its last digits.
    """
    mixed = (k > 0) & (rest > 0)
    first, second = torch.where(mixed, k, 1.0), torch.where(mixed, rest, 1.0)
    n = first + second
    kernel = log_beta_kernel(first, second, log_p, log_q, first * q - second * p)
    kernel = kernel + torch.log(n) - torch.log(first) - torch.log(second)
    return torch.where(mixed, kernel, torch.where(k > 0, k * log_p, rest * log_q))


def log_negative_binomial(
    k: Float[Tensor, ...],
    n: Float[Tensor, ...],
    log_p: Float[Tensor, ...],
    log_q: Float[Tensor, ...],
    excess: Float[Tensor, ...],
) -> Float[Tensor, ...]:
    """Log-probability of `k` failures before `n` successes, `n` any positive number.

    Args:
        k: Number of failures that were seen.
        n: Number of successes that end it.
        log_p: Logarithm of the probability of a success.
        log_q: Logarithm of that of a failure.
        excess: `n q - k p`, to its last digits.
    """
    some = k > 0
    safe = torch.where(some, k, 1.0)
    kernel = log_beta_kernel(n, safe, log_p, log_q, torch.where(some, excess, 0.0)) - torch.log(safe)
    return torch.where(some, kernel, n * log_p)


def log_poisson(
    k: Float[Tensor, ...], mu: Float[Tensor, ...], log_mu: Float[Tensor, ...]
) -> Float[Tensor, ...]:
    """Log-probability of `k` events of which `mu` are expected, for many events: `k` above 0.

    Args:
        k: Number of events that were seen.
        mu: How many events are expected.
        log_mu: Logarithm of how many are expected.
    """
    return -deviance(k, log_mu, mu - k) - _factorial_rest(k)


def log_beta_binomial(
    k: Float[Tensor, ...], rest: Float[Tensor, ...], alpha: Float[Tensor, ...], beta: Float[Tensor, ...]
) -> Float[Tensor, ...]:
    """`log(B(k + alpha, rest + beta) / B(alpha, beta) * ((k + rest) choose k))`.

    Args:
        k: Number of successes that were seen.
        rest: Number of failures that were seen.
        alpha: First shape of the beta variable.
        beta: Second shape of the beta variable.
    """
    many = (k + rest) + (alpha + beta) > MANY
    return either(many, _many_of_beta_binomial, _few_of_beta_binomial, k, rest, alpha, beta)


def _few_of_beta_binomial(k: Tensor, rest: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """`log_beta_binomial` by log-gammas, of which those of counts alone are the same for all parameters."""
    n, shapes = k + rest, alpha + beta
    choices = torch.lgamma(n + 1.0) - torch.lgamma(k + 1.0) - torch.lgamma(rest + 1.0)
    first = torch.lgamma(alpha + k) - torch.lgamma(alpha)
    second = torch.lgamma(beta + rest) - torch.lgamma(beta)
    return choices + first + second - (torch.lgamma(shapes + n) - torch.lgamma(shapes))


def _many_of_beta_binomial(k: Tensor, rest: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """`log_beta_binomial` without cancellation."""
    n, shapes = k + rest, alpha + beta
    total = n + shapes
    cells = _table_deviance((k, rest, alpha, beta), (rest * alpha - k * beta) / total)
    sizes = _gamma_rest(k + alpha) - _gamma_rest(alpha) - _factorial_rest(k)
    sizes = sizes + _gamma_rest(rest + beta) - _gamma_rest(beta) - _factorial_rest(rest)
    sizes = sizes - _gamma_rest(total) + _gamma_rest(shapes) + _factorial_rest(n)
    return sizes - cells


def log_hypergeometric(
    a: Float[Tensor, ...], b: Float[Tensor, ...], c: Float[Tensor, ...], d: Float[Tensor, ...]
) -> Float[Tensor, ...]:
    """Log-probability of the table of counts `[[a, b], [c, d]]` given its margins."""
    total = a + b + c + d
    shift = (b * c - a * d) / total.clamp_min(1.0)
    result = -_factorial_rest(total) - _table_deviance((a, b, c, d), shift)
    for margin in (a + b, c + d, a + c, b + d):
        result = result + _factorial_rest(margin)
    for cell in (a, b, c, d):
        result = result - _factorial_rest(cell)
    return result


def _table_deviance(cells: tuple[Tensor, Tensor, Tensor, Tensor], shift: Tensor) -> Tensor:
    """Sum of the deviances of a table of two by two from independence.

    Args:
        cells: Row by row.
        shift: What independence adds to the first cell, and takes from its neighbours.
    """
    first, second, third, fourth = cells
    rows = (first + second, first + second, third + fourth, third + fourth)
    columns = (first + third, second + fourth, first + third, second + fourth)
    log_total = torch.log((rows[0] + rows[2]).clamp_min(TINY))
    result = torch.zeros_like(shift)
    for cell, row, column, sign in zip(cells, rows, columns, (1.0, -1.0, -1.0, 1.0), strict=True):
        log_expected = torch.log(row.clamp_min(TINY)) + torch.log(column.clamp_min(TINY)) - log_total
        result = result + deviance(cell, log_expected, sign * shift)
    return result


def _gamma_rest(x: Tensor) -> Tensor:
    """`lgamma(x) - x log(x) + x`."""
    return HALF_LOG_TWO_PI - 0.5 * torch.log(x) + stirling_error(x)


def _factorial_rest(k: Tensor) -> Tensor:
    """`log(k!) - k log(k) + k`, 0 at 0."""
    safe = torch.where(k > 0, k, 1.0)
    return torch.where(k > 0, HALF_LOG_TWO_PI + 0.5 * torch.log(safe) + stirling_error(safe), 0.0)

"""Gamma functions in the sums that densities need, without cancellation however large the arguments are.

A density of large parameters is a small difference of large log-gammas. With Stirling's formula the large
parts combine into deviances `x log(x / m) + m - x`, which are small and never negative where the density is
not (Loader 2000, "Fast and accurate computation of binomial probabilities"); what is left of each log-gamma
is Stirling's error.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

LARGE = 1e3
"""Sums of plain log-gammas up to it are exact to 1e-12; above it Stirling's formula is used."""
_MANY = 1e4
"""Up to it the nine log-gammas of a beta-binomial are exact to 1e-10 together, at a fifth of the time."""
_SERIES_FROM = 10.0
_STIRLING = (1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156)
_NEAR = 0.1
TINY = 1e-300
"""Stands in for 0 where its logarithm is not used."""


def stirling_error(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`lgamma(x)` minus Stirling's `(x - 1/2) log(x) - x + log(2 pi) / 2`, for positive `x`."""
    large = x >= _SERIES_FROM
    far = torch.where(large, x, _SERIES_FROM)
    r = torch.reciprocal(far)
    square = r * r
    series = torch.full_like(r, _STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        series = series * square + coefficient
    if bool(large.all()):
        return series * r
    near = torch.where(large, 1.0, x)
    plain = torch.lgamma(near) - (near - 0.5) * torch.log(near) + near - HALF_LOG_TWO_PI
    return torch.where(large, series * r, plain)


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
    total = x + k
    large = total > LARGE
    if not bool(large.any()):
        return torch.lgamma(total) - torch.lgamma(x)
    wide, start = torch.where(large, total, 2.0 * LARGE), torch.where(large, x, LARGE)
    step = torch.where(large, k, LARGE)
    series = (start - 0.5) * torch.log1p(step / start) + step * (torch.log(wide) - 1.0)
    series = series + stirling_error(wide) - stirling_error(start)
    plain = torch.lgamma(torch.where(large, 1.0, total)) - torch.lgamma(torch.where(large, 1.0, x))
    return torch.where(large, series, plain)


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
    large = alpha > LARGE
    if not bool(large.any()):
        return alpha * log_y - y - torch.lgamma(alpha)
    shape = torch.where(large, alpha, LARGE)
    accurate = 0.5 * torch.log(shape) - HALF_LOG_TWO_PI - stirling_error(shape)
    accurate = accurate - deviance(shape, log_y, y - shape)
    shape = torch.where(large, 1.0, alpha)
    plain = shape * torch.where(large, 0.0, log_y) - y - torch.lgamma(shape)
    return torch.where(large, accurate, plain)


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
    total = a + b
    large = (total > LARGE) & (log_p > -math.inf) & (log_q > -math.inf)
    if not bool(large.any()):
        return a * log_p + b * log_q - log_beta(a, b)
    plain_a, plain_b = torch.where(large, 1.0, a), torch.where(large, 1.0, b)
    plain = plain_a * torch.where(large, 0.0, log_p) + plain_b * torch.where(large, 0.0, log_q)
    plain = plain - log_beta(plain_a, plain_b)
    a, b = torch.where(large, a, LARGE), torch.where(large, b, LARGE)
    log_p, log_q = torch.where(large, log_p, -0.5), torch.where(large, log_q, -0.5)
    excess = torch.where(large, excess, 0.0)
    total = a + b
    log_total = torch.log(total)
    main = deviance(a, log_total + log_p, -excess) + deviance(b, log_total + log_q, excess)
    rest = stirling_error(total) - stirling_error(a) - stirling_error(b) - HALF_LOG_TWO_PI
    return torch.where(large, rest + 0.5 * (torch.log(a) + torch.log(b) - log_total) - main, plain)


def log_rising(x: Float[Tensor, "*x"], k: Float[Tensor, "*k"]) -> Float[Tensor, "*shape"]:
    """`log(Gamma(x + k) / (Gamma(x) k!))` for positive `x` and counts `k`: `log((x + k - 1) choose k)`."""
    total = x + k
    large = (total > LARGE) & (k > 0)
    if not bool(large.any()):
        return torch.lgamma(total) - torch.lgamma(x) - torch.lgamma(k + 1.0)
    safe_x, safe_k = torch.where(large, x, LARGE), torch.where(large, k, LARGE)
    wide = safe_x + safe_k
    series = safe_x * torch.log1p(safe_k / safe_x) + safe_k * torch.log1p(safe_x / safe_k)
    series = series + 0.5 * (torch.log(safe_x) - torch.log(safe_k) - torch.log(wide)) - HALF_LOG_TWO_PI
    series = series + stirling_error(wide) - stirling_error(safe_x) - stirling_error(safe_k)
    few, start = torch.where(large, 1.0, k), torch.where(large, 1.0, x)
    plain = log_gamma_ratio(start, few) - torch.lgamma(few + 1.0)
    return torch.where(large, series, torch.where(k > 0, plain, 0.0))


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
    many = (k + rest) + (alpha + beta) > _MANY
    if not bool(many.any()):
        return _few_of_beta_binomial(k, rest, alpha, beta)
    if bool(many.all()):
        return _many_of_beta_binomial(k, rest, alpha, beta)
    given = torch.broadcast_tensors(many, k, rest, alpha, beta)[1:]
    result = torch.zeros_like(given[2])
    for chosen, formula in ((many, _many_of_beta_binomial), (~many, _few_of_beta_binomial)):
        result = result.masked_scatter(chosen, formula(*(each[chosen] for each in given)))
    return result


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

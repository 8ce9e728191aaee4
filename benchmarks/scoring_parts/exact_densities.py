"""Log-densities of numbers in 50 digits, by their textbook formulas; vectors are in `exact_vectors.py`.

Arguments are the scorer's parameters in its order, as float64 numbers that mean exactly what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath as mp

DIGITS = 50
SMALLEST_RATIO = 0.05
"""Below it PyMC leaves the exponential part of an ExGaussian out."""

Exact = Callable[..., Any]
log, exp, sqrt, gamma = mp.log, mp.exp, mp.sqrt, mp.loggamma


def beta(a: Any, b: Any) -> Any:
    """Log of the beta function."""
    return gamma(a) + gamma(b) - gamma(a + b)


def choose(n: Any, k: Any) -> Any:
    """Log of a binomial coefficient."""
    return gamma(n + 1) - gamma(k + 1) - gamma(n - k + 1)


def times(count: Any, logarithm: Callable[[], Any]) -> Any:
    """`count * logarithm()`, 0 where the count is."""
    return count * logarithm() if count else mp.mpf(0)


def normal(x: Any, mu: Any, sigma: Any) -> Any:
    """Normal."""
    return -(((x - mu) / sigma) ** 2) / 2 - log(sigma) - log(2 * mp.pi) / 2


def log_ndtr(z: Any) -> Any:
    """Log of the standard normal's distribution function."""
    if z < -1e5:
        r = z**-2
        return -z * z / 2 - log(-z * sqrt(2 * mp.pi)) + mp.log1p(-r * (1 - r * (3 - r * (15 - r * 105))))
    return log(mp.erfc(-z / sqrt(2)) / 2) if z < 0 else mp.log1p(-mp.erfc(min(z, 1e5) / sqrt(2)) / 2)


def student_t(x: Any, nu: Any, mu: Any, sigma: Any) -> Any:
    """Student's t."""
    z = (x - mu) / sigma
    constant = gamma((nu + 1) / 2) - gamma(nu / 2) - log(nu * mp.pi) / 2 - log(sigma)
    return constant - (nu + 1) / 2 * mp.log1p(z * z / nu)


def gamma_density(x: Any, alpha: Any, scale: Any) -> Any:
    """Gamma."""
    return times(alpha - 1, lambda: log(x)) - x / scale - gamma(alpha) - alpha * log(scale)


def inverse_gamma(x: Any, alpha: Any, b: Any) -> Any:
    """Inverse gamma."""
    return alpha * log(b) - gamma(alpha) - (alpha + 1) * log(x) - b / x


def beta_density(x: Any, a: Any, b: Any) -> Any:
    """Beta."""
    return times(a - 1, lambda: log(x)) + times(b - 1, lambda: mp.log1p(-x)) - beta(a, b)


def asymmetric_laplace(x: Any, b: Any, kappa: Any, mu: Any) -> Any:
    """Asymmetric Laplace."""
    distance = x - mu
    slope = distance * kappa if distance > 0 else -distance / kappa
    return log(b) - log(kappa + 1 / kappa) - b * slope


def ex_gaussian(x: Any, mu: Any, sigma: Any, nu: Any) -> Any:
    """Exponentially modified normal, as PyMC has it."""
    if nu <= SMALLEST_RATIO * sigma:
        return normal(x, mu, sigma)
    z, ratio = (x - mu) / sigma, sigma / nu
    return ratio * ratio / 2 - z * ratio + log_ndtr(z - ratio) - log(nu)


def gumbel(x: Any, mu: Any, scale: Any) -> Any:
    """Gumbel."""
    z = (x - mu) / scale
    return -log(scale) - z - exp(-z)


def kumaraswamy(x: Any, a: Any, b: Any) -> Any:
    """Kumaraswamy."""
    return log(a) + log(b) + (a - 1) * log(x) + (b - 1) * log(-mp.expm1(a * log(x)))


def logit_normal(x: Any, mu: Any, sigma: Any) -> Any:
    """Logit-normal."""
    return normal(log(x) - mp.log1p(-x), mu, sigma) - log(x) - mp.log1p(-x)


def moyal(x: Any, mu: Any, sigma: Any) -> Any:
    """Moyal."""
    z = (x - mu) / sigma
    return -(z + exp(-z)) / 2 - log(sigma) - log(2 * mp.pi) / 2


def rice(x: Any, b: Any, sigma: Any) -> Any:
    """Rice."""
    z = x / sigma
    return log(x) - 2 * log(sigma) - (z * z + b * b) / 2 + log(mp.besseli(0, z * b))


def skew_normal(x: Any, mu: Any, sigma: Any, alpha: Any) -> Any:
    """Skew normal."""
    return normal(x, mu, sigma) + log(2) + log_ndtr(alpha * (x - mu) / sigma)


def skew_student_t(x: Any, a: Any, b: Any, mu: Any, sigma: Any) -> Any:
    """Skew t of Jones and Faddy."""
    z = (x - mu) / sigma
    with mp.workdps(8 * DIGITS):  # far out 1 + r has few digits
        root = sqrt(a + b + z * z)
        far, near = log((root + abs(z)) / root), log((a + b) / (root * (root + abs(z))))
    above, below = (far, near) if z > 0 else (near, far)
    constant = (a + b - 1) * log(2) + beta(a, b) + log(a + b) / 2 + log(sigma)
    return (a + mp.mpf(1) / 2) * above + (b + mp.mpf(1) / 2) * below - constant


def triangular(x: Any, lower: Any, c: Any, upper: Any) -> Any:
    """Triangular."""
    if x < c:
        return log(2 * (x - lower) / (upper - lower) / (c - lower))
    return log(2 * (upper - x) / (upper - lower) / (upper - c)) if upper > c else log(2 / (upper - lower))


def von_mises(x: Any, mu: Any, kappa: Any) -> Any:
    """Von Mises."""
    return -2 * kappa * mp.sin((x - mu) / 2) ** 2 - log(2 * mp.pi * mp.besseli(0, kappa) * exp(-kappa))


def wald(x: Any, mu: Any, lam: Any, shift: Any) -> Any:
    """Inverse Gaussian."""
    with mp.workdps(8 * DIGITS):  # means and shifts of any sizes
        y = x - shift
        return log(lam / (2 * mp.pi * y**3)) / 2 - lam * (y - mu) ** 2 / (2 * mu**2 * y)


def weibull(x: Any, alpha: Any, scale: Any) -> Any:
    """Weibull."""
    ratio = x / scale
    return log(alpha / scale) + (alpha - 1) * log(ratio) - ratio**alpha


def negative_binomial(k: Any, n: Any, p: Any) -> Any:
    """Negative binomial."""
    return gamma(n + k) - gamma(n) - gamma(k + 1) + n * log(p) + times(k, lambda: mp.log1p(-p))


def binomial(k: Any, n: Any, p: Any) -> Any:
    """Binomial."""
    return choose(n, k) + times(k, lambda: log(p)) + times(n - k, lambda: mp.log1p(-p))


def beta_binomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    """Beta-binomial."""
    return choose(n, k) + beta(k + a, n - k + b) - beta(a, b)


def discrete_weibull(k: Any, q: Any, b: Any) -> Any:
    """Discrete Weibull."""
    return log(q ** (k**b) - q ** ((k + 1) ** b))


EXACT: Mapping[str, Exact] = {
    "Normal": normal,
    "HalfNormal": lambda x, loc, sigma: normal(x, loc, sigma) + log(2),
    "LogNormal": lambda x, mu, sigma: normal(log(x), mu, sigma) - log(x),
    "Exponential": lambda x, scale: -log(scale) - x / scale,
    "Gamma": gamma_density,
    "InverseGamma": inverse_gamma,
    "Beta": beta_density,
    "Uniform": lambda x, lower, upper: -log(upper - lower),
    "StudentT": student_t,
    "HalfStudentT": lambda x, nu, sigma: student_t(x, nu, mp.mpf(0), sigma) + log(2),
    "Cauchy": lambda x, a, b: -log(mp.pi * b) - mp.log1p(((x - a) / b) ** 2),
    "HalfCauchy": lambda x, b: log(2) - log(mp.pi * b) - mp.log1p((x / b) ** 2),
    "Laplace": lambda x, mu, b: -log(2 * b) - abs(x - mu) / b,
    "Logistic": lambda x, mu, s: -log(s) - abs(x - mu) / s - 2 * mp.log1p(exp(-abs(x - mu) / s)),
    "AsymmetricLaplace": asymmetric_laplace,
    "ExGaussian": ex_gaussian,
    "Gumbel": gumbel,
    "Kumaraswamy": kumaraswamy,
    "LogitNormal": logit_normal,
    "Moyal": moyal,
    "Pareto": lambda x, alpha, m: log(alpha) + alpha * log(m) - (alpha + 1) * log(x),
    "Rice": rice,
    "SkewNormal": skew_normal,
    "SkewStudentT": skew_student_t,
    "Triangular": triangular,
    "VonMises": von_mises,
    "Wald": wald,
    "Weibull": weibull,
    "Poisson": lambda k, mu: times(k, lambda: log(mu)) - mu - gamma(k + 1),
    "NegativeBinomial": negative_binomial,
    "Binomial": binomial,
    "Bernoulli": lambda k, p: log(p) if k else mp.log1p(-p),
    "BetaBinomial": beta_binomial,
    "DiscreteUniform": lambda k, lower, upper: -log(upper - lower + 1),
    "DiscreteWeibull": discrete_weibull,
    "Geometric": lambda k, p: log(p) + times(k - 1, lambda: mp.log1p(-p)),
    "HyperGeometric": lambda k, good, bad, n: choose(good, k) + choose(bad, n - k) - choose(good + bad, n),
}
"""Every distribution of numbers but `Categorical` and `Interpolated`, which have tables for parameters."""

"""Log-densities to 40 digits, from their definitions, at the numbers that the scorer used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import mpmath as mp
import numpy as np
import torch

from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.scoring.marginals.density import Density

mp.mp.dps = 40
Number = Any


def _beta(a: Number, b: Number) -> Number:
    """Log of the beta function; arguments to 1e30 cancel 30 digits."""
    with mp.workdps(120):
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def _choose(n: Number, k: Number) -> Number:
    return -_beta(k + 1, n - k + 1) - mp.log(n + 1)


def _student(x: Number, nu: Number, mu: Number, s: Number) -> Number:
    z = (x - mu) / s
    return -_beta(nu / 2, mp.mpf(1) / 2) - mp.log(nu) / 2 - mp.log(s) - (nu + 1) / 2 * mp.log1p(z * z / nu)


def _negative_binomial(k: Number, n: Number, p: Number) -> Number:
    return _choose(k + n - 1, k) + n * mp.log(p) + k * mp.log1p(-p)


def _skew_student(x: Number, a: Number, b: Number, mu: Number, s: Number) -> Number:
    # 1 - z / root is about 1 / z ** 2, and z may be 1e300
    with mp.workdps(700):
        z = (x - mu) / s
        root = mp.sqrt(a + b + z * z)
        body = (a + 0.5) * mp.log1p(z / root) + (b + 0.5) * mp.log1p(-z / root)
        return body - (a + b - 1) * mp.log(2) - _beta(a, b) - mp.log(a + b) / 2 - mp.log(s)


LAWS: Mapping[str, Callable[..., Number]] = {
    "Normal": lambda x, m, s: -((x - m) ** 2) / (2 * s * s) - mp.log(s) - mp.log(2 * mp.pi) / 2,
    "HalfNormal": lambda x, _, s: -(x**2) / (2 * s * s) - mp.log(s) + mp.log(2 / mp.pi) / 2,
    "LogNormal": lambda x, m, s: (
        -((mp.log(x) - m) ** 2) / (2 * s * s) - mp.log(x * s) - mp.log(2 * mp.pi) / 2
    ),
    "Exponential": lambda x, s: -x / s - mp.log(s),
    "Gamma": lambda x, a, s: (a - 1) * mp.log(x) - x / s - mp.loggamma(a) - a * mp.log(s),
    "InverseGamma": lambda x, a, b: a * mp.log(b) - mp.loggamma(a) - (a + 1) * mp.log(x) - b / x,
    "Beta": lambda x, a, b: (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x) - _beta(a, b),
    "Uniform": lambda x, a, b: -mp.log(b - a) if a <= x <= b else -mp.inf,
    "StudentT": _student,
    "HalfStudentT": lambda x, nu, s: mp.log(2) + _student(x, nu, mp.mpf(0), s),
    "HalfCauchy": lambda x, s: mp.log(2 / mp.pi) - mp.log(s) - mp.log1p((x / s) ** 2),
    "Cauchy": lambda x, m, s: -mp.log(mp.pi * s) - mp.log1p(((x - m) / s) ** 2),
    "Laplace": lambda x, m, b: -abs(x - m) / b - mp.log(2 * b),
    "Logistic": lambda x, m, s: -(x - m) / s - mp.log(s) - 2 * mp.log1p(mp.exp(-(x - m) / s)),
    "Gumbel": lambda x, m, b: -(x - m) / b - mp.exp(-(x - m) / b) - mp.log(b),
    "Weibull": lambda x, a, b: mp.log(a / b) + (a - 1) * mp.log(x / b) - (x / b) ** a,
    "Pareto": lambda x, a, m: mp.log(a) + a * mp.log(m) - (a + 1) * mp.log(x),
    "Kumaraswamy": lambda x, a, b: mp.log(a * b) + (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-(x**a)),
    "SkewStudentT": _skew_student,
    "Poisson": lambda k, m: k * mp.log(m) - m - mp.loggamma(k + 1),
    "NegativeBinomial": _negative_binomial,
    "Binomial": lambda k, n, p: _choose(n, k) + k * mp.log(p) + (n - k) * mp.log1p(-p),
    "BetaBinomial": lambda k, n, a, b: _choose(n, k) + _beta(k + a, n - k + b) - _beta(a, b),
    "Geometric": lambda k, p: mp.log(p) + (k - 1) * mp.log1p(-p),
    "Bernoulli": lambda k, p: mp.log(p) if k else mp.log1p(-p),
}
"""Distributions whose log-density is known here, with parameters in the table's order."""


SHARES = frozenset({"Bernoulli", "Binomial", "Geometric", "NegativeBinomial"})
"""Laws whose last parameter is a probability."""


def log_joint(
    density: Density, model: Any, response: np.ndarray[Any, Any], theta: torch.Tensor
) -> float | None:
    """Log joint density of response and unconstrained parameters at one particle.

    Args:
        density: Gives parameters of distributions, in double precision, and reads no density.
        model: The model in nested lists, see `graphs`.
        response: The response.
        theta: Unconstrained parameters `[1, dimension]`.

    Returns:
        The log density, or `None` where a distribution is not known here, a latent has no coordinate, or a
        probability that is no constant is 0 or 1 in double precision.
    """
    values = {name: found[0].numpy() for name, found in density.deterministics(theta).items()}
    places = {parameter.name: parameter for parameter in density.parameters}
    total = mp.mpf(0)
    nodes = {**model.get("latents", {}), "y": model["response"]}
    for name, node in nodes.items():
        law = node[0] if isinstance(node, list) else node["law"]
        # a discrete latent is summed out
        if law not in LAWS or (name != "y" and name not in places):
            return None
        count = len(node) - 1 if isinstance(node, list) else len(node["inputs"])
        inputs = [values[f"{name}.{place}"] for place in range(count)]
        if name == "y":
            elements = [(mp.mpf(float(each)), mp.mpf(0)) for each in response]
        else:
            found = places[name]
            columns = theta[0, found.start : found.stop].tolist()
            elements = [_constrained(u, found.distribution.support, inputs) for u in columns]
        shape = (len(elements),)
        spread = [np.broadcast_to(each, shape).tolist() for each in inputs]
        share = node[-1] if isinstance(node, list) else node["inputs"][-1]
        if law in SHARES and not isinstance(share, float | int) and {0.0, 1.0} & set(spread[-1]):
            # computed, beyond what a double holds, and the scorer may have its logit
            return None
        for (x, log_jacobian), *parameters in zip(elements, *spread, strict=True):
            try:
                total += LAWS[law](x, *(mp.mpf(each) for each in parameters)) + log_jacobian
            except (ValueError, ZeroDivisionError, OverflowError):
                return -math.inf
    # numbers that no double holds come back as infinite
    return float(mp.re(total))


def _constrained(u: float, support: Support, inputs: Any) -> tuple[Number, Number]:
    if support is Support.POSITIVE:
        return mp.exp(mp.mpf(u)), mp.mpf(u)
    if support in (Support.UNIT, Support.INTERVAL):
        low, high = (mp.mpf(0), mp.mpf(1)) if support is Support.UNIT else map(mp.mpf, map(float, inputs[:2]))
        share = 1 / (1 + mp.exp(-mp.mpf(u)))
        return low + (high - low) * share, mp.log(high - low) + mp.log(share) - mp.log1p(mp.exp(mp.mpf(u)))
    if support is Support.ABOVE:
        return mp.mpf(float(inputs[1])) + mp.exp(mp.mpf(u)), mp.mpf(u)
    return mp.mpf(u), mp.mpf(0)

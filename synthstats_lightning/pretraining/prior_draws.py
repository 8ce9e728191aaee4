"""Data from programs of the grammar: every parameter drawn from its prior, then the response.

The grammar's own programs are run with NumPy in place of PyMC; nothing else is ever run this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "tanh": np.tanh,
    "sigmoid": expit,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "switch": np.where,
}
"""What the grammar takes from `pt`."""


def draw_response(source: str, covariates: Mapping[str, Array], response: str, seed: int) -> Array | None:
    """A response drawn from a program's prior.

    Args:
        source: A program of the grammar; it is executed.
        covariates: Column name to values `[rows]`.
        response: Name of the response.
        seed: Seeds all random numbers.

    Returns:
        Values `[rows]`, or `None` if they are not all finite.
    """
    shape = np.shape(next(iter(covariates.values())))
    model = _Distributions(np.random.default_rng(seed), shape)
    scope = {"pm": model, "pt": _Functions(), response: None, **covariates}
    with np.errstate(all="ignore"):
        try:
            exec(source, scope)  # noqa: S102
        except (ValueError, OverflowError):  # parameters out of a distribution's range
            return None
    drawn = model.response
    return drawn if drawn is not None and np.isfinite(drawn).all() else None


class _Functions:
    def __getattr__(self, name: str) -> Callable[..., Any]:
        return FUNCTIONS[name]


class _Model:
    def __enter__(self) -> _Model:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class _Distributions:
    """The distributions of the grammar in PyMC's parametrisation; an observed one is drawn for every row."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...]) -> None:
        self.rng = rng
        self.shape = shape
        self.response: Array | None = None

    def Model(self) -> _Model:
        return _Model()

    def __getattr__(self, family: str) -> Callable[..., Any]:
        draw: Callable[..., Any] = getattr(_Draws(self.rng), family)

        def variable(name: str, *arguments: Any, observed: Any = _ABSENT, **named: Any) -> Any:
            if observed is _ABSENT:
                return draw((), *arguments, **named)
            self.response = np.asarray(draw(self.shape, *arguments, **named), dtype=np.float64)
            return self.response

        return variable


_ABSENT = object()


class _Draws:
    """One method a distribution: shape first, then PyMC's arguments."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def Normal(self, shape: Any, mu: Any, sigma: Any) -> Any:
        return mu + sigma * self.rng.standard_normal(shape)

    def StudentT(self, shape: Any, nu: Any, mu: Any, sigma: Any) -> Any:
        return mu + sigma * self.rng.standard_t(nu, shape)

    def Laplace(self, shape: Any, mu: Any, b: Any) -> Any:
        return mu + b * self.rng.laplace(size=shape)

    def Logistic(self, shape: Any, mu: Any, s: Any) -> Any:
        return mu + s * self.rng.logistic(size=shape)

    def Cauchy(self, shape: Any, alpha: Any, beta: Any) -> Any:
        return alpha + beta * self.rng.standard_cauchy(shape)

    def Uniform(self, shape: Any, lower: Any, upper: Any) -> Any:
        return self.rng.uniform(lower, upper, shape)

    def HalfNormal(self, shape: Any, sigma: Any) -> Any:
        return sigma * np.abs(self.rng.standard_normal(shape))

    def HalfCauchy(self, shape: Any, beta: Any) -> Any:
        return beta * np.abs(self.rng.standard_cauchy(shape))

    def HalfStudentT(self, shape: Any, nu: Any, sigma: Any) -> Any:
        return sigma * np.abs(self.rng.standard_t(nu, shape))

    def Exponential(self, shape: Any, lam: Any) -> Any:
        return self.rng.exponential(1.0, shape) / lam

    def Gamma(self, shape: Any, alpha: Any, beta: Any) -> Any:
        return self.rng.gamma(alpha, 1.0, shape or None) / beta

    def InverseGamma(self, shape: Any, alpha: Any, beta: Any) -> Any:
        return beta / self.rng.gamma(alpha, 1.0, shape or None)

    def LogNormal(self, shape: Any, mu: Any, sigma: Any) -> Any:
        return np.exp(mu + sigma * self.rng.standard_normal(shape))

    def Beta(self, shape: Any, alpha: Any, beta: Any) -> Any:
        return self.rng.beta(alpha, beta, shape or None)

    def Poisson(self, shape: Any, mu: Any) -> Any:
        return self.rng.poisson(mu, shape)

    def NegativeBinomial(self, shape: Any, mu: Any, alpha: Any) -> Any:
        return self.rng.poisson(mu * self.rng.gamma(alpha, 1.0, shape) / alpha)

    def Binomial(self, shape: Any, n: Any, p: Any) -> Any:
        return self.rng.binomial(n, p, shape)

    def Bernoulli(self, shape: Any, p: Any = None, logit_p: Any = None) -> Any:
        return self.rng.binomial(1, expit(logit_p) if p is None else p, shape)


def plausible(values: Array, low: float, high: float) -> bool:
    """Whether values lie no further from a range than its own length.

    Args:
        values: Simulated responses, all finite.
        low: Lower end of the range.
        high: Upper end of the response's range.
    """
    span = max(high - low, math.ulp(1.0))
    return bool((values >= low - span).all() and (values <= high + span).all())

"""How each distribution is drawn in NumPy, by the name and the parameters of PyMC's constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from synthstats_lightning.programs.distributions import DISTRIBUTIONS

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Generator = np.random.Generator


class Law(NamedTuple):
    """A distribution with its parameters, of which nothing is drawn yet.

    Attributes:
        name: Name of PyMC's constructor.
        arguments: Parameters by position.
        named: Parameters by name.
    """

    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


Sampler = Callable[..., Any]


def draw(generator: Generator, law: Law, shape: tuple[int, ...] | None) -> Any:
    """A draw.

    Args:
        generator: Source of the draw.
        law: What is drawn.
        shape: Shape of the draw; by default that of the parameters together.

    Raises:
        ValueError: If a parameter lies outside of what the distribution allows, or there is no sampler.
    """
    if shape is None:
        shapes = [
            np.shape(value)
            for value in (*law.arguments, *law.named.values())
            if isinstance(value, np.ndarray)
        ]
        shape = np.broadcast_shapes(*shapes) if shapes else ()
    sampler = SAMPLERS.get(law.name)
    if sampler is None:
        return _engine_draw(generator, law, shape)
    return sampler(generator, shape, *law.arguments, **law.named)


def _engine_draw(generator: Generator, law: Law, shape: tuple[int, ...]) -> Any:
    """A draw of the engine's own sampler: for what its table has and the one here lacks."""
    import torch

    from synthstats_lightning.scoring.distributions import DISTRIBUTIONS as DEFINED

    entry = DISTRIBUTIONS.get(law.name)
    if entry is None:
        raise ValueError(f"{law.name} has no sampler")
    given = dict(zip(entry.parameters, law.arguments, strict=False)) | law.named
    parameters = [torch.as_tensor(np.asarray(given[name], dtype=np.float64)) for name in entry.parameters]
    source = torch.Generator().manual_seed(int(generator.integers(2**62)))
    return DEFINED[law.name].sample(source, shape, *parameters).numpy()


def _normal(rng: Generator, shape: Any, mu: Any = 0.0, sigma: Any = 1.0, transform: Any = None) -> Any:
    value = mu + sigma * rng.standard_normal(shape)
    return np.sort(value) if transform is not None else value


def _student_t(rng: Generator, shape: Any, nu: Any, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
    return mu + sigma * rng.standard_t(nu, shape)


def _skew_normal(rng: Generator, shape: Any, mu: Any, sigma: Any, alpha: Any) -> Any:
    half, whole = np.abs(rng.standard_normal(shape)), rng.standard_normal(shape)
    return mu + sigma * (alpha * half + whole) / np.hypot(alpha, 1.0)


def _gamma(rng: Generator, shape: Any, alpha: Any, beta: Any) -> Any:
    return rng.gamma(alpha, 1.0, shape) / beta


def _beta(
    rng: Generator, shape: Any, alpha: Any = None, beta: Any = None, mu: Any = None, nu: Any = None
) -> Any:
    if mu is not None:
        alpha, beta = mu * nu, (1.0 - mu) * nu
    return rng.beta(alpha, beta, shape)


def _negative_binomial(rng: Generator, shape: Any, mu: Any, alpha: Any) -> Any:
    return rng.poisson(mu * rng.gamma(alpha, 1.0, shape) / alpha)


def _binomial(rng: Generator, shape: Any, n: Any, p: Any = None, logit_p: Any = None) -> Any:
    return rng.binomial(n, expit(logit_p) if p is None else p, shape)


def _bernoulli(rng: Generator, shape: Any, p: Any = None, logit_p: Any = None) -> Any:
    return _binomial(rng, shape, 1, p, logit_p)


def _beta_binomial(rng: Generator, shape: Any, n: Any, alpha: Any, beta: Any) -> Any:
    return rng.binomial(n, rng.beta(alpha, beta, shape))


def _inflated(count: Sampler) -> Sampler:
    def sample(rng: Generator, shape: Any, psi: Any, **named: Any) -> Any:
        return np.where(rng.random(shape) < psi, count(rng, shape, **named), 0)

    return sample


def _hurdle(positive: Sampler) -> Sampler:
    """Positive draws with probability `psi`; counts are drawn again until none is zero."""

    def sample(rng: Generator, shape: Any, psi: Any, **named: Any) -> Any:
        value = positive(rng, shape, **named)
        for _ in range(200):
            if (value > 0).all():
                break
            value = np.where(value > 0, value, positive(rng, shape, **named))
        # of a mean near zero nearly all that is positive is 1
        return np.where(rng.random(shape) < psi, np.where(value > 0, value, 1), 0)

    return sample


def _log_normal(rng: Generator, shape: Any, mu: Any, sigma: Any) -> Any:
    return np.exp(mu + sigma * rng.standard_normal(shape))


def _ordered(noise: Callable[[Generator, Any], Any]) -> Sampler:
    def sample(rng: Generator, shape: Any, eta: Any, cutpoints: Any) -> Any:
        latent = eta + noise(rng, shape)
        return (latent[..., None] > np.asarray(cutpoints)).sum(axis=-1)

    return sample


def _exponential(rng: Generator, shape: Any, lam: Any) -> Any:
    return rng.exponential(1.0, shape) / lam


def _inverse_gamma(rng: Generator, shape: Any, alpha: Any, beta: Any) -> Any:
    return beta / rng.gamma(alpha, 1.0, shape)


def _zero_sum(rng: Generator, shape: Any, sigma: Any) -> Any:
    value = rng.standard_normal(shape)
    return sigma * (value - value.mean())


def _mixture(rng: Generator, shape: Any, w: Any, comp_dists: list[Law]) -> Any:
    weights = np.asarray(w)
    drawn = [draw(rng, law, shape) for law in comp_dists]
    which = np.minimum((rng.random(shape)[..., None] > np.cumsum(weights)).sum(axis=-1), len(drawn) - 1)
    return np.choose(which, drawn)


def _censored(rng: Generator, shape: Any, law: Law, lower: Any = None, upper: Any = None) -> Any:
    value = draw(rng, law, shape)
    value = value if lower is None else np.maximum(value, lower)
    return value if upper is None else np.minimum(value, upper)


def _random_walk(rng: Generator, shape: Any, init_dist: Law, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
    steps = mu + sigma * rng.standard_normal(shape[0] - 1)
    return np.concatenate([[0.0], np.cumsum(steps)]) + draw(rng, init_dist, ())


def _autoregression(rng: Generator, shape: Any, rho: Any, sigma: Any, init_dist: Law) -> Any:
    (coefficient,) = np.atleast_1d(np.asarray(rho, dtype=np.float64))
    value = np.empty(shape)
    value[0] = draw(rng, init_dist, ())
    noise = sigma * rng.standard_normal(shape[0])
    for place in range(1, shape[0]):
        value[place] = coefficient * value[place - 1] + noise[place]
    return value


SAMPLERS: dict[str, Sampler] = {
    "Normal": _normal,
    "StudentT": _student_t,
    "SkewNormal": _skew_normal,
    "Laplace": lambda rng, shape, mu, b: mu + b * rng.laplace(size=shape),
    "Logistic": lambda rng, shape, mu, s: mu + s * rng.logistic(size=shape),
    "Cauchy": lambda rng, shape, alpha, beta: alpha + beta * rng.standard_cauchy(shape),
    "Gumbel": lambda rng, shape, mu, beta: mu + beta * rng.gumbel(size=shape),
    "Uniform": lambda rng, shape, lower, upper: rng.uniform(lower, upper, shape),
    "HalfNormal": lambda rng, shape, sigma: sigma * np.abs(rng.standard_normal(shape)),
    "HalfCauchy": lambda rng, shape, beta: beta * np.abs(rng.standard_cauchy(shape)),
    "Exponential": _exponential,
    "Gamma": _gamma,
    "InverseGamma": _inverse_gamma,
    "Weibull": lambda rng, shape, alpha, beta: beta * rng.weibull(alpha, shape),
    "LogNormal": _log_normal,
    "LogitNormal": lambda rng, shape, mu, sigma: expit(mu + sigma * rng.standard_normal(shape)),
    "Beta": _beta,
    "Dirichlet": lambda rng, shape, a: rng.dirichlet(a),
    "ZeroSumNormal": _zero_sum,
    "Poisson": lambda rng, shape, mu: rng.poisson(mu, shape),
    "NegativeBinomial": _negative_binomial,
    "Binomial": _binomial,
    "Bernoulli": _bernoulli,
    "BetaBinomial": _beta_binomial,
    "ZeroInflatedPoisson": _inflated(lambda rng, shape, mu: rng.poisson(mu, shape)),
    "ZeroInflatedNegativeBinomial": _inflated(_negative_binomial),
    "ZeroInflatedBinomial": _inflated(_binomial),
    "HurdlePoisson": _hurdle(lambda rng, shape, mu: rng.poisson(mu, shape)),
    "HurdleNegativeBinomial": _hurdle(_negative_binomial),
    "HurdleGamma": _hurdle(_gamma),
    "HurdleLogNormal": _hurdle(_log_normal),
    "OrderedLogistic": _ordered(lambda rng, shape: rng.logistic(size=shape)),
    "OrderedProbit": _ordered(lambda rng, shape: rng.standard_normal(shape)),
    "Mixture": _mixture,
    "Censored": _censored,
    "GaussianRandomWalk": _random_walk,
    "AR": _autoregression,
}
"""Samplers by the name of PyMC's constructor: generator and shape first, then its parameters."""

"""Posteriors that samplers get wrong, with evidence and leave-one-out from closed forms and grids."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from tests.scoring.targets import (
    F,
    HandTarget,
    half_normal_prior,
    make,
    normal_log_prob,
    normal_prior,
    tensor,
)


class Exact:
    """A target with its log evidence and leave-one-out densities."""

    def __init__(self, target: HandTarget, evidence: float, loo: np.ndarray) -> None:
        self.target, self.evidence, self.loo = target, evidence, loo


def normal_marginals(y: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density of zero-mean normal rows, and of each given the others, for stacked covariances."""
    inverse = np.linalg.inv(covariance)
    weighted = inverse @ y
    log_det = np.linalg.slogdet(covariance)[1]
    total = -0.5 * (len(y) * math.log(2 * math.pi) + log_det + weighted @ y)
    precision = np.diagonal(inverse, axis1=-2, axis2=-1)
    own = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * weighted**2 / precision
    return total, own


def mixed(log_weight: np.ndarray, total: np.ndarray, own: np.ndarray) -> tuple[float, np.ndarray]:
    """Evidence and leave-one-out of a mixture over a grid of hyperparameters."""
    joint = log_weight + total
    evidence = logsumexp(joint)
    return float(evidence), evidence - logsumexp(joint[:, None] - own, axis=0)


def ridge(rows: int, columns: int, noise: float = 0.5, seed: int = 0) -> Exact:
    """b ~ N(0, 1) for each column, s ~ HalfNormal(1), y ~ N(x b, s): one integral over s."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = x @ (rng.normal(size=columns) * (rng.random(columns) < 0.4)) + noise * rng.normal(size=rows)
    log_s = np.linspace(-12, 2.5, 3001)
    prior = 0.5 * math.log(2 / math.pi) - 0.5 * np.exp(2 * log_s) + log_s + math.log(log_s[1] - log_s[0])
    covariance = x @ x.T + np.exp(2 * log_s)[:, None, None] * np.eye(rows)
    evidence, loo = mixed(prior, *normal_marginals(y, covariance))
    design, response = tensor(x), tensor(y)
    target = make(
        [*[normal_prior(0, 1)] * columns, half_normal_prior(1.0)],
        lambda t: normal_log_prob(response, t[:, :-1] @ design.T, t[:, -1:].exp()),
        rows,
    )
    return Exact(target, evidence, loo)


def factor(items: int = 3, persons: int = 8, noise: float = 0.5, seed: int = 0) -> Exact:
    """lam ~ N(0, 1) for each item, f ~ N(0, 1) for each person, y ~ N(lam f, noise): a grid over lam."""
    rng = np.random.default_rng(seed)
    y = np.outer(rng.normal(size=persons), rng.normal(size=items)) + noise * rng.normal(size=(persons, items))
    axis = np.linspace(-5, 5, 61)
    lam = np.array(list(product(axis, repeat=items)))
    prior = -0.5 * (lam**2).sum(1) - 0.5 * items * math.log(2 * math.pi) + items * math.log(axis[1] - axis[0])
    covariance = lam[:, :, None] * lam[:, None, :] + noise**2 * np.eye(items)
    inverse = np.linalg.inv(covariance)
    weighted = np.einsum("gij,pj->gpi", inverse, y)
    log_det = np.linalg.slogdet(covariance)[1]
    square = (weighted * y).sum((1, 2))
    total = -0.5 * (persons * items * math.log(2 * math.pi) + persons * log_det + square)
    precision = np.diagonal(inverse, axis1=1, axis2=2)[:, None]
    own = 0.5 * np.log(precision / (2 * math.pi)) - 0.5 * weighted**2 / precision
    evidence, loo = mixed(prior, total, own.reshape(len(lam), -1))
    response = tensor(y.ravel())
    target = make(
        [normal_prior(0, 1)] * (items + persons),
        lambda t: normal_log_prob(response, (t[:, items:, None] * t[:, None, :items]).flatten(1), noise),
        persons * items,
    )
    return Exact(target, evidence, loo)


def squares(groups: int = 6, each: int = 2, noise: float = 0.3, seed: int = 0) -> Exact:
    """m ~ N(0, 1) shared, a ~ N(0, 1) for each group, y ~ N(m + a[g]^2, noise): 2^groups modes."""
    rng = np.random.default_rng(seed)
    y = 0.3 + rng.uniform(1.2, 1.8, size=groups)[:, None] ** 2 + noise * rng.normal(size=(groups, each))
    m, a = np.linspace(-5, 5, 401), np.linspace(-5, 5, 801)
    prior_m = -0.5 * m**2 - 0.5 * math.log(2 * math.pi) + math.log(m[1] - m[0])
    prior_a = -0.5 * a**2 - 0.5 * math.log(2 * math.pi) + math.log(a[1] - a[0])
    constant = -0.5 * math.log(2 * math.pi) - math.log(noise)
    row = constant - 0.5 * ((y[..., None, None] - m[:, None] - a**2) / noise) ** 2
    group = logsumexp(row.sum(1) + prior_a, axis=-1)
    without = logsumexp(row.sum(1, keepdims=True) - row + prior_a, axis=-1)
    total = group.sum(0)
    own = (group[:, None] - without).reshape(-1, len(m)).T
    evidence, loo = mixed(prior_m, total, own)
    response, index = tensor(y.ravel()), torch.arange(groups).repeat_interleave(each)
    target = make(
        [normal_prior(0, 1)] * (groups + 1),
        lambda t: normal_log_prob(response, t[:, :1] + t[:, 1:].square()[:, index], noise),
        groups * each,
    )
    return Exact(target, evidence, loo)


def labels(components: int = 2, rows: int = 20, noise: float = 0.5, seed: int = 0) -> Exact:
    """Means ~ N(0, 3) of a mixture of equal shares and known noise: components! modes."""
    rng = np.random.default_rng(seed)
    centres = np.linspace(-3, 3, components)
    y = centres[rng.integers(components, size=rows)] + noise * rng.normal(size=rows)
    axis = np.linspace(-9, 9, 151)
    means = np.array(list(product(axis, repeat=components)))
    log_prior = (
        -0.5 * (means / 3) ** 2 - math.log(3) - 0.5 * math.log(2 * math.pi) + math.log(axis[1] - axis[0])
    )
    constant = -0.5 * math.log(2 * math.pi) - math.log(noise) - math.log(components)
    own = logsumexp(constant - 0.5 * ((y - means[..., None]) / noise) ** 2, axis=1)
    evidence, loo = mixed(log_prior.sum(1), own.sum(1), own)
    response = tensor(y)

    def likelihood(t: Tensor) -> Tensor:
        each = normal_log_prob(response[:, None], t[:, None], noise) - math.log(components)
        return each.logsumexp(-1).to(F)

    return Exact(make([normal_prior(0, 3)] * components, likelihood, rows), evidence, loo)

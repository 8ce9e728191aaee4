"""Counts: near-separation, sparse priors, hierarchies with an unknown for each row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, log_expit
from scipy.stats import beta, expon, gamma, halfnorm, lognorm, nbinom, norm, poisson
from stress_parts.reference import (
    Array,
    Case,
    Reference,
    Terms,
    axis,
    closed_form,
    grouped,
    model,
    over_grid,
    refined,
)
from stress_parts.ridge import columns


def separated(y: list[int], sd: float, step: float) -> Case:
    """A logistic line through outcomes that a threshold (almost) separates."""
    outcome = np.array(y)
    x = np.linspace(-2.0, 2.0, len(y))

    def terms(points: Array) -> Terms:
        logit = points[:, :1] + points[:, 1:] * x
        log_row = log_expit(np.where(outcome == 1, logit, -logit))
        return log_row.sum(1) + norm.logpdf(points, 0, sd).sum(1), log_row

    source = model(
        f'a = pm.Normal("a", 0, {sd:g})',
        f'b = pm.Normal("b", 0, {sd:g})',
        'pm.Bernoulli("obs", logit_p=a + b * x, observed=y)',
    )
    grid = [axis(-6 * sd, 6 * sd, step)] * 2
    return Case(source, {"x": x, "y": outcome}, lambda: over_grid(grid, terms))


def separated_plane() -> Case:
    """Two covariates that separate all rows."""
    random = np.random.default_rng(131)
    x = random.normal(size=(14, 2))
    y = (x @ np.array([1.0, 0.7]) > 0.1).astype(np.int64)

    def terms(points: Array) -> Terms:
        logit = points[:, :1] + points[:, 1:] @ x.T
        log_row = log_expit(np.where(y == 1, logit, -logit))
        return log_row.sum(1) + norm.logpdf(points, 0, 5).sum(1), log_row

    source = model(
        'a = pm.Normal("a", 0, 5)',
        'b = pm.Normal("b", 0, 5, shape=2)',
        'pm.Bernoulli("obs", logit_p=a + b[0] * x0 + b[1] * x1, observed=y)',
    )
    grid = [axis(-28.0, 28.0, 0.5)] * 3
    return Case(source, {**columns(x), "y": y}, lambda: over_grid(grid, terms))


def coin(ones: int, zeros: int, a: float) -> Case:
    """A coin whose prior is almost all at 0 and 1."""
    y = np.array([1] * ones + [0] * zeros)

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        k, n = int(y[kept].sum()), int(kept.sum())
        return float(betaln(a + k, a + n - k) - betaln(a, a))

    source = model(f'p = pm.Beta("p", {a:g}, {a:g})', 'pm.Bernoulli("obs", p, observed=y)')
    data = {"i": np.arange(len(y)), "y": y}
    return Case(source, data, lambda: closed_form(log_evidence, len(y)))


def sparse_classes() -> Case:
    """Four classes whose prior prefers few of them."""
    y = np.array([0] * 9 + [2] * 3)
    weight = np.full(4, 0.05)

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        after = weight + np.bincount(y[kept], minlength=4)
        start = gammaln(weight.sum()) - gammaln(weight).sum()
        return float(start + gammaln(after).sum() - gammaln(after.sum()))

    source = model('w = pm.Dirichlet("w", a=0.05 * np.ones(4))', 'pm.Categorical("obs", p=w, observed=y)')
    return Case(source, {"i": np.arange(12), "y": y}, lambda: closed_form(log_evidence, 12))


def tiny_precision() -> Case:
    """A precision whose prior has most of its mass next to 0, half of it beyond double precision."""
    y = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 0.9])

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        n, total = int(kept.sum()), float((y[kept] ** 2).sum())
        shape, rate = 0.001 + n / 2, 0.001 + total / 2
        start = 0.001 * math.log(0.001) - gammaln(0.001) - 0.5 * n * math.log(2 * math.pi)
        return float(start + gammaln(shape) - shape * math.log(rate))

    source = model(
        'tau = pm.Gamma("tau", 0.001, 0.001)',
        'pm.Normal("obs", 0, tau=tau, observed=y)',
    )
    return Case(source, {"i": np.arange(6), "y": y}, lambda: closed_form(log_evidence, 6))


def tiny_rate() -> Case:
    """A Poisson rate with the same prior and only zeros but one."""
    y = np.array([0, 0, 0, 1, 0, 0, 0, 0])

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        shape, rate = 0.001 + y[kept].sum(), 0.001 + kept.sum()
        start = 0.001 * math.log(0.001) - gammaln(0.001)
        return float(start + gammaln(shape) - shape * math.log(rate) - gammaln(y[kept] + 1).sum())

    source = model('rate = pm.Gamma("rate", 0.001, 0.001)', 'pm.Poisson("obs", rate, observed=y)')
    return Case(source, {"i": np.arange(8), "y": y}, lambda: closed_form(log_evidence, 8))


def tiny_rates() -> Case:
    """The same for a rate of each of five groups, two of them without a count."""
    y = np.array([0, 0, 3, 1, 0, 0, 12, 9, 0, 1])
    group = np.repeat(np.arange(5), 2)

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        count = np.bincount(group[kept], y[kept], 5)
        shape, rate = 0.001 + count, 0.001 + np.bincount(group[kept], minlength=5)
        start = 5 * (0.001 * math.log(0.001) - gammaln(0.001))
        return float(start + (gammaln(shape) - shape * np.log(rate)).sum() - gammaln(y[kept] + 1).sum())

    source = model('rate = pm.Gamma("rate", 0.001, 0.001, shape=5)', 'pm.Poisson("obs", rate[g], observed=y)')
    return Case(source, {"g": group, "y": y}, lambda: closed_form(log_evidence, 10))


def row_effects(kind: str) -> Case:
    """Poisson or binomial rows with a normal effect each."""
    random = np.random.default_rng(132)
    rows = 14
    effect = 0.9 * random.normal(size=rows)
    trials = random.integers(5, 30, size=rows)
    y = random.poisson(np.exp(1.0 + effect)) if kind == "Poisson" else random.binomial(trials, expit(effect))
    tabulated = gammaln(y + 1) if kind == "Poisson" else betaln(y + 1, trials - y + 1) + np.log(trials + 1)

    def log_likelihood(predictor: Array) -> Array:
        if kind == "Poisson":
            return y * predictor - np.exp(predictor) - tabulated
        return y * log_expit(predictor) + (trials - y) * log_expit(-predictor) - tabulated

    def at(nodes: int) -> Reference:
        z = np.linspace(-9.0, 9.0, nodes)
        weight = norm.logpdf(z) + math.log(z[1] - z[0])

        def terms(points: Array) -> Terms:
            mu, log_tau = points.T
            predictor = mu[:, None] + np.exp(log_tau)[:, None] * z
            log_density, log_row = grouped(weight, log_likelihood(predictor[..., None]), np.arange(rows))
            log_prior = norm.logpdf(mu, 0, 2) + halfnorm.logpdf(np.exp(log_tau)) + log_tau
            return log_density + log_prior, log_row

        return over_grid([axis(-3.0, 4.0, 0.08), axis(-14.0, 1.7, 0.15)], terms, chunk=128)

    response = (
        'pm.Poisson("obs", pm.math.exp(e[i]), observed=y)'
        if kind == "Poisson"
        else 'pm.Binomial("obs", n=trials, logit_p=e[i], observed=y)'
    )
    source = model(
        'mu = pm.Normal("mu", 0, 2)',
        'tau = pm.HalfNormal("tau", 1)',
        f'e = pm.Normal("e", mu, tau, shape={rows})',
        response,
    )
    return Case(source, {"i": np.arange(rows), "trials": trials, "y": y}, lambda: refined(at, 80))


def rates() -> Case:
    """Ten machines with a Gamma rate each."""
    exposure = np.array([94.0, 15.7, 62.9, 126.0, 5.2, 31.4, 1.0, 1.1, 2.1, 10.5])
    y = np.array([6, 1, 4, 17, 2, 20, 0, 3, 5, 25])

    def terms(points: Array) -> Terms:
        shape, rate = np.exp(points).T
        log_row = nbinom.logpmf(y, shape[:, None], rate[:, None] / (rate[:, None] + exposure))
        log_prior = expon.logpdf(shape) + gamma.logpdf(rate, 0.1) + points.sum(1)
        return log_row.sum(1) + log_prior, log_row

    source = model(
        'shape = pm.Exponential("shape", 1)',
        'rate = pm.Gamma("rate", 0.1, 1)',
        'theta = pm.Gamma("theta", shape, rate, shape=10)',
        'pm.Poisson("obs", theta[i] * exposure, observed=y)',
    )
    data = {"i": np.arange(10), "exposure": exposure, "y": y}
    return Case(source, data, lambda: over_grid([axis(-4.5, 3.5, 0.08), axis(-12.0, 4.0, 0.1)], terms))


def shares() -> Case:
    """Twelve shares with a Beta prior whose mean and size are unknown."""
    random = np.random.default_rng(134)
    trials = random.integers(4, 60, size=12)
    y = random.binomial(trials, random.beta(2.0, 6.0, 12))

    def terms(points: Array) -> Terms:
        mean, size = expit(points[:, :1]), np.exp(points[:, 1:])
        a, b = mean * size, (1 - mean) * size
        choose = -betaln(y + 1, trials - y + 1) - np.log(trials + 1)
        log_row = choose + betaln(a + y, b + trials - y) - betaln(a, b)
        log_prior = beta.logpdf(mean, 1, 1) + log_expit(points[:, :1]) + log_expit(-points[:, :1])
        log_prior = log_prior + gamma.logpdf(size, 2, scale=20) + points[:, 1:]
        return log_row.sum(1) + log_prior[:, 0], log_row

    source = model(
        'mean = pm.Beta("mean", 1, 1)',
        'size = pm.Gamma("size", 2, 0.05)',
        'p = pm.Beta("p", mean * size, (1 - mean) * size, shape=12)',
        'pm.Binomial("obs", n=trials, p=p[i], observed=y)',
    )
    grid = [axis(-5.0, 3.0, 0.06), axis(-3.5, 7.0, 0.1)]
    return Case(source, {"i": np.arange(12), "trials": trials, "y": y}, lambda: over_grid(grid, terms))


def overdispersed() -> Case:
    """Negative binomial counts."""
    random = np.random.default_rng(135)
    y = random.negative_binomial(0.8, 0.8 / (0.8 + 6.0), size=20)

    def terms(points: Array) -> Terms:
        mu, alpha = np.exp(points[:, :1]), np.exp(points[:, 1:])
        log_row = nbinom.logpmf(y, alpha, alpha / (alpha + mu))
        log_prior = lognorm.logpdf(mu, 2.0) + expon.logpdf(alpha) + points.sum(1, keepdims=True)
        return log_row.sum(1) + log_prior[:, 0], log_row

    source = model(
        'mu = pm.LogNormal("mu", 0, 2)',
        'alpha = pm.Exponential("alpha", 1)',
        'pm.NegativeBinomial("obs", mu=mu, alpha=alpha, observed=y)',
    )
    grid = [axis(-4.0, 9.0, 0.06), axis(-6.0, 3.5, 0.08)]
    return Case(source, {"i": np.arange(20), "y": y}, lambda: over_grid(grid, terms))


def zero_inflated() -> Case:
    """Poisson counts with zeros of two sorts."""
    y = np.array([0, 0, 0, 4, 0, 3, 0, 0, 6, 2, 0, 0, 5, 0, 3, 0])

    def terms(points: Array) -> Terms:
        logit, rate = points[:, :1], np.exp(points[:, 1:])
        counted = log_expit(logit) + poisson.logpmf(y, rate)
        log_row = np.where(y == 0, np.logaddexp(log_expit(-logit), counted), counted)
        log_prior = log_expit(logit) + log_expit(-logit) + gamma.logpdf(rate, 2, scale=2) + points[:, 1:]
        return log_row.sum(1) + log_prior[:, 0], log_row

    source = model(
        'psi = pm.Beta("psi", 1, 1)',
        'rate = pm.Gamma("rate", 2, 0.5)',
        'pm.ZeroInflatedPoisson("obs", psi=psi, mu=rate, observed=y)',
    )
    grid = [axis(-15.0, 18.0, 0.1), axis(-5.0, 4.0, 0.04)]
    return Case(source, {"i": np.arange(16), "y": y}, lambda: over_grid(grid, terms))


def ability() -> Case:
    """Twelve persons answer two questions each way."""
    random = np.random.default_rng(136)
    person, item = np.repeat(np.arange(12), 4), np.tile([0, 1, 0, 1], 12)
    y = random.binomial(1, expit(1.5 * random.normal(size=12)[person] - np.array([-0.5, 1.0])[item]))

    def at(nodes: int) -> Reference:
        z = np.linspace(-9.0, 9.0, nodes)
        weight = norm.logpdf(z) + math.log(z[1] - z[0])

        def terms(points: Array) -> Terms:
            logit = 1.5 * z[:, None] - points[:, None, item]
            log_density, log_row = grouped(weight, log_expit(np.where(y == 1, logit, -logit)), person)
            return log_density + norm.logpdf(points, 0, 2).sum(1), log_row

        return over_grid([axis(-6.0, 6.0, 0.25)] * 2, terms, chunk=128)

    source = model(
        'difficulty = pm.Normal("difficulty", 0, 2, shape=2)',
        'able = pm.Normal("able", 0, 1.5, shape=12)',
        'pm.Bernoulli("obs", logit_p=able[person] - difficulty[item], observed=y)',
    )
    return Case(source, {"person": person, "item": item, "y": y}, lambda: refined(at, 60))


CASES = {
    "separated": separated([0] * 6 + [1] * 6, 10.0, 0.4),
    "separated_almost": separated([0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1], 10.0, 0.4),
    "one_outcome": separated([0] * 10, 5.0, 0.25),
    "separated_plane": separated_plane(),
    "coin_all_ones": coin(8, 0, 0.01),
    "coin_mixed": coin(9, 1, 0.01),
    "sparse_classes": sparse_classes(),
    "tiny_precision": tiny_precision(),
    "tiny_rate": tiny_rate(),
    "tiny_rates": tiny_rates(),
    "row_effects_poisson": row_effects("Poisson"),
    "row_effects_binomial": row_effects("Binomial"),
    "rates": rates(),
    "shares": shares(),
    "overdispersed": overdispersed(),
    "zero_inflated": zero_inflated(),
    "ability": ability(),
}
"""Name to case."""

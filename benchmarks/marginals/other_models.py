"""Counts, shares and times: an effect for each group or step, integrated by quadrature given the others."""

from __future__ import annotations

import math

import numpy as np
from grids import LOG_WEIGHT, NODES, integrated, of_effects
from scipy.special import gammaln, log_expit
from scipy.stats import expon, gamma, halfnorm, norm
from stress_parts.reference import Array, Case, Reference, Terms, grouped, model

LEVELS = np.linspace(-4.0, 8.0, 481)
"""Of a level that walks."""


def binomial(n: Array, y: Array, eta: Array) -> Array:
    """Log-likelihood of counts `[rows]` at logits `[..., rows]`."""
    constant = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    return constant + y * log_expit(eta) + (n - y) * log_expit(-eta)


def poisson(y: Array, eta: Array) -> Array:
    """Log-likelihood of counts `[rows]` at logarithms of rates `[..., rows]`."""
    return y * eta - np.exp(eta) - gammaln(y + 1)


def reedfrogs() -> Case:
    """Forty-eight tanks with a survival of their own."""
    random = np.random.default_rng(5)
    n = np.repeat([10, 25, 35], 16)
    y = random.binomial(n, 1 / (1 + np.exp(-(1.3 + 1.6 * random.normal(size=48)))))
    tank = np.arange(48)

    terms = of_effects(np.ones((48, 1)), [1.5], lambda eta: binomial(n, y, eta), tank, expon.logpdf)
    source = model(
        'mu = pm.Normal("mu", 0, 1.5)',
        's = pm.Exponential("s", 1)',
        'a = pm.Normal("a", mu, s, shape=48)',
        'pm.Binomial("obs", n=n, p=pm.math.invlogit(a[tank]), observed=y)',
    )
    return Case(source, {"tank": tank, "n": n, "y": y}, lambda: integrated(terms, [1.0, 0.4]))


def schools_logit() -> Case:
    """Fifty schools of twelve pupils who pass or fail, with a covariate."""
    random = np.random.default_rng(6)
    school, x = np.repeat(np.arange(50), 12), random.normal(size=600)
    logit = 0.3 + 0.8 * random.normal(size=50)[school] + 0.6 * x
    y = random.binomial(1, 1 / (1 + np.exp(-logit)))

    terms = of_effects(
        np.column_stack([np.ones(600), x]),
        [1.5, 1.0],
        lambda eta: log_expit(np.where(y == 1, eta, -eta)),
        school,
    )
    source = model(
        'mu = pm.Normal("mu", 0, 1.5)',
        'b = pm.Normal("b", 0, 1)',
        'tau = pm.HalfNormal("tau", 1)',
        'z = pm.Normal("z", 0, 1, shape=50)',
        'pm.Bernoulli("obs", logit_p=mu + tau * z[school] + b * x, observed=y)',
    )
    data = {"school": school, "x": x, "y": y}
    return Case(source, data, lambda: integrated(terms, [0.3, 0.6, -0.2], reach=6.5, step=1.0, chunk=64))


def salm() -> Case:
    """Eighteen plates of colonies, overdispersed: an effect of each row."""
    random = np.random.default_rng(7)
    dose = np.repeat([0.0, 10.0, 33.0, 100.0, 333.0, 1000.0], 3)
    x = np.log(dose + 10) - np.log(dose + 10).mean()
    y = random.poisson(np.exp(3.2 + 0.25 * x + 0.3 * random.normal(size=18)))
    plate = np.arange(18)

    design = np.column_stack([np.ones(18), x])
    terms = of_effects(design, [5.0, 2.0], lambda eta: poisson(y, eta), plate)
    source = model(
        'a = pm.Normal("a", 0, 5)',
        'b = pm.Normal("b", 0, 2)',
        'tau = pm.HalfNormal("tau", 1)',
        'z = pm.Normal("z", 0, 1, shape=18)',
        'pm.Poisson("obs", pm.math.exp(a + b * x + tau * z[plate]), observed=y)',
    )
    return Case(
        source, {"plate": plate, "x": x, "y": y}, lambda: integrated(terms, [3.0, 0.2, -1.2], reach=16.0)
    )


def seeds() -> Case:
    """Twenty-one plates of seeds that germinate or not, two treatments and an effect of each plate."""
    random = np.random.default_rng(8)
    plate, n = np.arange(21), random.integers(10, 60, 21)
    first, second = np.repeat([0, 1], [11, 10]), np.tile([0, 1], 11)[:21]
    logit = -0.5 + 0.3 * first + 0.9 * second + 0.35 * random.normal(size=21)
    y = random.binomial(n, 1 / (1 + np.exp(-logit)))

    design = np.column_stack([np.ones(21), first, second])
    terms = of_effects(design, [2.0, 2.0, 2.0], lambda eta: binomial(n, y, eta), plate)
    source = model(
        'a = pm.Normal("a", 0, 2)',
        'b = pm.Normal("b", 0, 2)',
        'c = pm.Normal("c", 0, 2)',
        'tau = pm.HalfNormal("tau", 1)',
        'z = pm.Normal("z", 0, 1, shape=21)',
        "p = pm.math.invlogit(a + b * first + c * second + tau * z[plate])",
        'pm.Binomial("obs", n=n, p=p, observed=y)',
    )
    data = {"plate": plate, "n": n, "first": first, "second": second, "y": y}
    return Case(
        source, data, lambda: integrated(terms, [-0.5, 0.3, 0.9, -1.2], reach=6.5, step=1.0, chunk=512)
    )


def epil() -> Case:
    """Fifty-nine patients with four counts each."""
    random = np.random.default_rng(9)
    patient, treated = np.repeat(np.arange(59), 4), np.repeat(random.integers(0, 2, 59), 4)
    y = random.poisson(np.exp(1.6 - 0.3 * treated + 0.7 * random.normal(size=59)[patient]))

    design = np.column_stack([np.ones(236), treated])
    terms = of_effects(design, [3.0, 1.0], lambda eta: poisson(y, eta), patient)
    source = model(
        'a = pm.Normal("a", 0, 3)',
        'b = pm.Normal("b", 0, 1)',
        'tau = pm.HalfNormal("tau", 1)',
        'z = pm.Normal("z", 0, 1, shape=59)',
        'pm.Poisson("obs", pm.math.exp(a + b * treated + tau * z[patient]), observed=y)',
    )
    data = {"patient": patient, "treated": treated, "y": y}
    return Case(source, data, lambda: integrated(terms, [1.6, -0.3, -0.4], reach=7.0, step=1.0, chunk=128))


def frailty() -> Case:
    """Thirty-eight patients with two times each, some of them censored."""
    random = np.random.default_rng(10)
    patient = np.repeat(np.arange(38), 2)
    scale = np.exp(4.5 + 0.6 * random.normal(size=38))[patient]
    limit = np.exp(random.uniform(3.5, 6.5, 76)).round(1)
    time = np.minimum(scale * random.weibull(1.3, 76), limit)

    def terms(points: Array) -> Terms:
        sigma, r = np.exp(points[:, 1]), np.exp(points[:, 2])
        eta = (points[:, :1] + sigma[:, None] * NODES)[..., None]
        power = r[:, None, None]
        log_z = np.log(time) - eta
        survival = -np.exp(np.minimum(power * log_z, 30.0))
        density = np.log(power) - np.log(time) + power * log_z + survival
        total, row = grouped(LOG_WEIGHT, np.where(time < limit, density, survival), patient)
        prior = norm.logpdf(points[:, 0], 4, 2) + halfnorm.logpdf(sigma) + gamma.logpdf(r, 2, scale=0.5)
        return total + prior + points[:, 1] + points[:, 2], row

    source = model(
        'alpha = pm.Normal("alpha", 4, 2)',
        'sigma = pm.HalfNormal("sigma", 1)',
        'r = pm.Gamma("r", 2, 2)',
        'b = pm.Normal("b", 0, 1, shape=38)',
        "law = pm.Weibull.dist(alpha=r, beta=pm.math.exp(alpha + sigma * b[patient]))",
        'pm.Censored("obs", law, lower=None, upper=limit, observed=time)',
    )
    data = {"patient": patient, "limit": limit, "time": time}
    return Case(source, data, lambda: integrated(terms, [4.5, -0.6, 0.2]), response="time")


def poisson_level() -> Case:
    """Sixty counts whose log rate walks: exact by summing over a grid of levels, step after step."""
    random = np.random.default_rng(15)
    y = random.poisson(np.exp(1.0 + np.cumsum(0.25 * random.normal(size=60))))
    width = LEVELS[1] - LEVELS[0]
    log_rows = poisson(y[:, None], LEVELS)
    start = norm.pdf(LEVELS, 0, 2) * width

    def at(log_q: float) -> tuple[float, Array]:
        q = math.exp(log_q)
        move = norm.pdf(LEVELS[:, None], LEVELS, q) * width
        ahead, scales = [start], []
        for t in range(60):
            now = ahead[-1] * np.exp(log_rows[t])
            scales.append(now.sum())
            ahead.append(move @ (now / scales[-1]))
        back, own = np.ones_like(LEVELS), 0.0
        rows = np.empty(60)
        for t in reversed(range(60)):
            others = ahead[t] * back
            rows[t] = math.log((others * np.exp(log_rows[t])).sum() / others.sum())
            seen = back * np.exp(log_rows[t])
            back = move.T @ (seen / seen.max())
            own += math.log(scales[t])
        return own, rows

    def terms(points: Array) -> Terms:
        found = [at(float(point[0])) for point in points]
        prior = halfnorm.logpdf(np.exp(points[:, 0])) + points[:, 0]
        return np.array([each[0] for each in found]) + prior, np.stack([each[1] for each in found])

    source = model(
        'q = pm.HalfNormal("q", 1)',
        "start = pm.Normal.dist(0, 2)",
        'level = pm.GaussianRandomWalk("level", sigma=q, init_dist=start, shape=60)',
        'pm.Poisson("obs", pm.math.exp(level), observed=y)',
    )
    return Case(source, {"t": np.arange(60), "y": y}, lambda: integrated(terms, [-1.3], step=0.5))


def irt() -> Case:
    """Fifty persons and twenty items, one parameter each; no sum over so many is exact."""
    random = np.random.default_rng(16)
    person, item = np.repeat(np.arange(50), 20), np.tile(np.arange(20), 50)
    logit = random.normal(size=50)[person] - random.normal(size=20)[item]
    y = random.binomial(1, 1 / (1 + np.exp(-logit)))
    source = model(
        's = pm.HalfNormal("s", 1)',
        'z = pm.Normal("z", 0, 1, shape=50)',
        'b = pm.Normal("b", 0, 1.5, shape=20)',
        'pm.Bernoulli("obs", logit_p=s * z[person] - b[item], observed=y)',
    )
    unknown = Reference(math.nan, math.nan, math.nan)
    return Case(source, {"person": person, "item": item, "y": y}, lambda: unknown)


CASES = {
    "reedfrogs": reedfrogs(),
    "schools_logit_50": schools_logit(),
    "salm": salm(),
    "seeds": seeds(),
    "epil": epil(),
    "frailty": frailty(),
    "poisson_level": poisson_level(),
    "irt_1pl": irt(),
}

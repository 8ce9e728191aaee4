"""Honest programs for the audit, on tasks of two or three rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

COVARIATES = {"x": np.array([0.5, 2.0]), "group": np.array([0, 1])}
SERIES = {"x": np.array([0.0, 1.0, 2.0]), "group": np.array([0, 1, 1])}


class Honest(NamedTuple):
    """A program with the kind of response that it models.

    Attributes:
        source: Of `y`, given `x` and `group`.
        dtype: Of the response.
        rounding: Of the response, if it is rounded.
        rows: Of the data sets.
    """

    source: str
    dtype: str = "float64"
    rounding: float | None = None
    rows: int = 2


def _model(*lines: str) -> str:
    return "with pm.Model() as model:\n" + "\n".join(f"    {line}" for line in lines)


_LINE = ('a = pm.Normal("a", 0, 1)', 'b = pm.Normal("b", 0, 1)')
_SCALE = 's = pm.LogNormal("s", 0, 0.5)'

HONEST: dict[str, Honest] = {
    "constants only": Honest(_model('pm.Normal("y", x, 1, observed=y)')),
    "linear regression": Honest(_model(*_LINE, _SCALE, 'pm.Normal("y", a + b * x, s, observed=y)')),
    "Student t regression": Honest(
        _model(*_LINE, _SCALE, 'pm.StudentT("y", nu=4, mu=a + b * x, sigma=s, observed=y)')
    ),
    "Gamma GLM": Honest(
        _model(
            *_LINE,
            'k = pm.LogNormal("k", 1, 0.5)',
            'pm.Gamma("y", k, k / pm.math.exp(a + 0.5 * b * x), observed=y)',
        )
    ),
    "log-normal": Honest(_model(*_LINE, _SCALE, 'pm.LogNormal("y", a + b * x, s, observed=y)')),
    "Weibull": Honest(
        _model(
            'k = pm.LogNormal("k", 0.5, 0.3)',
            'b = pm.LogNormal("b", 0, 0.5)',
            'pm.Weibull("y", k, b, observed=y)',
        )
    ),
    "beta regression": Honest(
        _model(*_LINE, "m = pm.math.invlogit(a + b * x)", 'pm.Beta("y", 1 + 5 * m, 6 - 5 * m, observed=y)')
    ),
    "truncated normal": Honest(
        _model(*_LINE, _SCALE, 'pm.Truncated("y", pm.Normal.dist(a + b * x, s), lower=0, observed=y)')
    ),
    "censored normal": Honest(
        _model(
            *_LINE, _SCALE, 'pm.Censored("y", pm.Normal.dist(a + b * x, s), lower=0, upper=None, observed=y)'
        )
    ),
    "hurdle gamma": Honest(
        _model(
            'p = pm.Beta("p", 2, 2)',
            'm = pm.LogNormal("m", 0, 0.5)',
            'pm.HurdleGamma("y", psi=p, alpha=2, beta=2 / m, observed=y)',
        )
    ),
    "mixture": Honest(
        _model(
            'w = pm.Dirichlet("w", np.ones(2))',
            'm = pm.Normal("m", 0, 2, shape=2)',
            'pm.NormalMixture("y", w=w, mu=m, sigma=np.array([0.5, 1.5]), observed=y)',
        )
    ),
    "mixture by labels": Honest(
        _model(
            'm = pm.Normal("m", 0, 2, shape=2)',
            'z = pm.Bernoulli("z", 0.4, shape=y.shape[0])',
            'pm.Normal("y", m[z], 0.7, observed=y)',
        )
    ),
    "hierarchy": Honest(
        _model(
            'm = pm.Normal("m", 0, 1)',
            't = pm.HalfNormal("t", 1)',
            'g = pm.Normal("g", m, t, shape=2)',
            'pm.Normal("y", g[group], 0.8, observed=y)',
        ),
        rows=3,
    ),
    "random walk": Honest(
        _model(
            't = pm.LogNormal("t", -0.5, 0.5)',
            'w = pm.GaussianRandomWalk("w", sigma=t, init_dist=pm.Normal.dist(0, 1), shape=y.shape[0])',
            'pm.Normal("y", w, 0.8, observed=y)',
        ),
    ),
    "multivariate normal": Honest(
        _model(
            'r = pm.Uniform("r", -0.9, 0.9)',
            "c = pt.stack([pt.stack([1.0, r]), pt.stack([r, 1.0])])",
            'a = pm.Normal("a", 0, 1)',
            'pm.MvNormal("y", mu=a * pt.ones(2), cov=c, observed=y)',
        )
    ),
    "rounded regression": Honest(
        _model(*_LINE, _SCALE, 'pm.Normal("y", a + b * x, s, observed=y)'), rounding=0.5
    ),
    "normal regression of counts": Honest(
        _model(*_LINE, _SCALE, 'pm.Normal("y", a + b * x, s, observed=y)'), "int64", rounding=1.0
    ),
    "rounded, no noise floor": Honest(
        _model(*_LINE, 's = pm.HalfNormal("s", 0.5)', 'pm.Normal("y", a + b * x, s, observed=y)'),
        rounding=0.5,
    ),
    "rounded and censored": Honest(
        _model(*_LINE, 'pm.Censored("y", pm.Laplace.dist(a + b * x, 1), lower=0, upper=3, observed=y)'),
        rounding=0.25,
    ),
    "logistic regression": Honest(
        _model(*_LINE, 'pm.Bernoulli("y", logit_p=a + b * x, observed=y)'), "int64", rows=3
    ),
    "binomial": Honest(_model('p = pm.Beta("p", 1, 1)', 'pm.Binomial("y", 7, p, observed=y)'), "int64"),
    "beta-binomial": Honest(
        _model('k = pm.LogNormal("k", 0, 0.5)', 'pm.BetaBinomial("y", alpha=k, beta=2 * k, n=6, observed=y)'),
        "int64",
    ),
    "Poisson GLM": Honest(
        _model(
            'a = pm.Normal("a", 0.5, 0.5)',
            'b = pm.Normal("b", 0, 0.3)',
            'pm.Poisson("y", pm.math.exp(a + b * x), observed=y)',
        ),
        "int64",
    ),
    "negative binomial": Honest(
        _model(
            'm = pm.LogNormal("m", 1, 0.5)',
            'k = pm.LogNormal("k", 1, 0.5)',
            'pm.NegativeBinomial("y", mu=m, alpha=k, observed=y)',
        ),
        "int64",
    ),
    "zero-inflated Poisson": Honest(
        _model(
            'p = pm.Beta("p", 2, 2)',
            'm = pm.LogNormal("m", 1, 0.5)',
            'pm.ZeroInflatedPoisson("y", p, m, observed=y)',
        ),
        "int64",
    ),
    "truncated Poisson": Honest(
        _model('m = pm.LogNormal("m", 1, 0.5)', 'pm.Truncated("y", pm.Poisson.dist(m), lower=1, observed=y)'),
        "int64",
    ),
    "ordered logistic": Honest(
        _model(
            'c = pm.Normal("c", [-1, 0, 1], 1, shape=3, transform=pm.distributions.transforms.ordered)',
            'b = pm.Normal("b", 0, 1)',
            'pm.OrderedLogistic("y", eta=b * x, cutpoints=c, observed=y)',
        ),
        "int64",
    ),
    "change point": Honest(
        _model(
            'k = pm.DiscreteUniform("k", 0, 2)',
            'r = pm.LogNormal("r", 0, 0.5, shape=2)',
            'pm.Poisson("y", pm.math.switch(x < k, r[0], r[1]), observed=y)',
        ),
        "int64",
    ),
}
"""Programs whose evidence must be a probability over data sets."""

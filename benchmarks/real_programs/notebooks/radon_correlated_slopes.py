"""Data: radon. Response: log_radon."""
# ruff: noqa

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def build(data):
    idx = np.unique(data["county"], return_inverse=True)[1]
    with pm.Model() as model:
        chol, corr, stds = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        mu = pm.Normal("mu", 0, 2, shape=2)
        z = pm.Normal("z", 0, 1, shape=(12, 2))
        ab = pm.Deterministic("ab", mu + pt.dot(z, chol.T))
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", ab[idx, 0] + ab[idx, 1] * data["floor"], sigma, observed=data["log_radon"])
    return model

"""Data: fishing. Response: caught."""
# ruff: noqa

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def gen_model(observed_data):
    y = observed_data["caught"].values
    X = np.column_stack([np.ones(len(y)), observed_data["persons"], observed_data["camper"]])
    with pm.Model() as model:
        w = pm.Normal("w", 0, 1, shape=3)
        v = pm.Normal("v", 0, 1, shape=3)
        psi = pm.math.invlogit(pt.dot(X, w))
        alpha = pm.Exponential("alpha", 0.5)
        mu = pt.exp(pt.dot(X, v))
        pm.HurdleNegativeBinomial("y", psi=psi, mu=mu, alpha=alpha, observed=y)
    return model

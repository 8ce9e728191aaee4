"""Data: series. Response: value."""
# ruff: noqa

import numpy as np
import pymc as pm


def build(data):
    t = data["month"]
    angles = 2 * np.pi * np.outer(t, np.arange(1, 3)) / 12
    fourier = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    with pm.Model(coords={"term": ["sin1", "sin2", "cos1", "cos2"]}) as model:
        level = pm.Normal("level", 4.0, 2.0)
        trend = pm.Normal("trend", 0, 0.05)
        beta = pm.Laplace("beta", 0, 0.5, dims="term")
        sigma = pm.HalfNormal("sigma", 1)
        mu = level + trend * (t - t.mean()) + pm.math.dot(fourier, beta)
        pm.Normal("value", mu, sigma, observed=data["value"])
    return model

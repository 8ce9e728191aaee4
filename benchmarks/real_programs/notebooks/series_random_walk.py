"""Data: series. Response: value."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    drift = pm.Normal("drift", 0, 0.2)
    sigma = pm.Exponential("sigma", 2)
    init = pm.Normal.dist(4, 2)
    pm.GaussianRandomWalk("value", mu=drift, sigma=sigma, init_dist=init, observed=value)

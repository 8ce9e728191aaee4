"""Data: peregrines. Response: fledglings."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    sigma = pm.Exponential("sigma", 5.0)
    log_rate = pm.GaussianRandomWalk(
        "log_rate", mu=0.0, sigma=sigma, init_dist=pm.Normal.dist(3.0, 1.0), shape=len(year)
    )
    pm.Poisson("y", mu=pm.math.exp(log_rate), observed=fledglings)

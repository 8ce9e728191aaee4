"""Data: series. Response: value."""
# ruff: noqa

import pymc as pm

with pm.Model() as ar:
    rho = pm.Normal("rho", mu=[1.0, 0.5], sigma=[1.0, 0.3], shape=2)
    sigma = pm.HalfNormal("sigma", 1.0)
    init = pm.Normal.dist(4.0, 2.0)
    pm.AR("y", rho=rho, sigma=sigma, constant=True, init_dist=init, observed=value)

"""Data: eight_schools. Response: effect."""
# ruff: noqa

import pymc as pm

with pm.Model() as eight_schools:
    mu = pm.Normal("mu", mu=0, sigma=5)
    tau = pm.HalfCauchy("tau", beta=5)
    theta = pm.Normal("theta", mu=mu, sigma=tau, shape=8)
    obs = pm.Normal("obs", mu=theta, sigma=standard_error, observed=effect)

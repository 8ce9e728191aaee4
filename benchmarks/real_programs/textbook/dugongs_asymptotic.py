"""Data: dugongs. Response: length."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    alpha = pm.Normal("alpha", mu=2.5, sigma=1.0)
    beta = pm.HalfNormal("beta", sigma=1.5)
    gamma = pm.Uniform("gamma", lower=0.5, upper=1.0)
    sigma = pm.Exponential("sigma", lam=5.0)

    mu = pm.Deterministic("mu", alpha - beta * gamma**age)
    length_obs = pm.Normal("length_obs", mu=mu, sigma=sigma, observed=length)

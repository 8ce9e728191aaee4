"""Data: surgical. Response: deaths."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    alpha = pm.Exponential("alpha", 0.1)
    beta = pm.Exponential("beta", 0.01)
    pm.BetaBinomial("deaths_obs", n=operations, alpha=alpha, beta=beta, observed=deaths)

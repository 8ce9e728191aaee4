"""Data: birds. Response: seen."""
# ruff: noqa

import pymc as pm

with pm.Model() as n_mixture:
    lam = pm.Gamma("lam", 2, 0.2)
    detect = pm.Beta("detect", 2, 2)
    N = pm.Poisson("N", lam, shape=10)
    pm.Binomial("seen_obs", n=N[site], p=detect, observed=seen)

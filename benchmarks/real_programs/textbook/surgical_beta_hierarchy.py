"""Data: surgical. Response: deaths."""
# ruff: noqa

import pymc as pm

with pm.Model(coords={"hospital": hospital}) as model:
    phi = pm.Beta("phi", alpha=1, beta=9)
    kappa_log = pm.Exponential("kappa_log", lam=0.3)
    kappa = pm.Deterministic("kappa", pm.math.exp(kappa_log) + 1)
    theta = pm.Beta("theta", alpha=phi * kappa, beta=(1.0 - phi) * kappa, dims="hospital")
    y = pm.Binomial("y", n=operations, p=theta, dims="hospital", observed=deaths)

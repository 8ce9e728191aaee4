"""Data: radon. Response: log_radon."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    mu = pm.Normal("mu", 1, 1)
    sd = pm.HalfNormal("sd", 1)
    a = pm.Normal("a", 0, sd, shape=12)
    pm.Potential("sum_to_zero", pm.logp(pm.Normal.dist(0, 0.001 * 12), a.sum()))
    pm.Normal("y", mu + a[county], pm.HalfNormal("sigma", 1), observed=log_radon)

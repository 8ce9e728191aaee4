"""Data: beetles. Response: died."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    alpha_star = pm.Normal("alpha_star", mu=0, sigma=5)
    beta = pm.TruncatedNormal("beta", mu=20, sigma=20, lower=0)
    m1 = pm.HalfNormal("m1", 1)
    p = pm.math.invlogit(alpha_star + beta * (dose - dose.mean())) ** m1
    pm.Binomial("r", n=beetles, p=pm.math.clip(p, 1e-9, 1 - 1e-9), observed=died)

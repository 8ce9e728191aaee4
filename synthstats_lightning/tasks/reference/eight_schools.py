"""Rubin's eight schools: partial pooling, non-centred (Bayesian Data Analysis, section 5.5)."""

with pm.Model() as model:
    mu = pm.Normal("mu", 0, 5)
    tau = pm.HalfCauchy("tau", 5)
    z = pm.Normal("z", 0, 1, shape=8)
    pm.Normal("y", mu + tau * z[school], standard_error, observed=effect)

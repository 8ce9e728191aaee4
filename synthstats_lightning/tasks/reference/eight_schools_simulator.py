"""The simulated eight schools: partial pooling, non-centred."""

with pm.Model() as model:
    mean = pm.Normal("mean", 0, 10)
    spread = pm.HalfNormal("spread", 10)
    z = pm.Normal("z", 0, 1, shape=8)
    mu = pm.Deterministic("mu", mean)
    tau = pm.Deterministic("tau", spread)
    pm.Normal("y", mu + tau * z[school], standard_error, observed=effect)

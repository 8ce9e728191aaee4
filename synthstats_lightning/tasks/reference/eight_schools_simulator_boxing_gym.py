"""The eight schools of SynthStats, whose spread is at least 0.1."""

with pm.Model() as model:
    mean = pm.Normal("mean", 0, 10)
    spread = pm.HalfNormal("spread", 10)
    z = pm.Normal("z", 0, 1, shape=8)
    mu = pm.Deterministic("mu", mean)
    tau = pm.Deterministic("tau", spread)
    pm.Normal("y", mu + pt.maximum(tau, 0.1) * z[school], standard_error, observed=effect)

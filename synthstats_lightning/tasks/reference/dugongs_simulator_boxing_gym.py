"""The dugongs of BoxingGym as they are published; that a length is never negative is left out."""

with pm.Model() as model:
    alpha = pm.Normal("alpha", 2.0, 0.2)
    beta = pm.Normal("beta", 1.5, 0.5)
    shrink = pm.Normal("shrink", 0.4, 0.5)
    pm.Deterministic("asymptote", alpha)
    rate = pm.Deterministic("rate", pt.abs(shrink))
    pm.Normal("y", alpha - beta * rate**age, 0.25, observed=length)

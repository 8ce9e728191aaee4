"""The dugongs of BoxingGym: growth that approaches a limit, lengths above 0."""

with pm.Model() as model:
    alpha = pm.Normal("alpha", 2.0, 0.2)
    beta = pm.Normal("beta", 1.5, 0.5)
    shrink = pm.TruncatedNormal("shrink", 0.4, 0.5, lower=0.0, upper=1.0)
    pm.Deterministic("asymptote", alpha)
    pm.Deterministic("rate", shrink)
    pm.TruncatedNormal("y", alpha - beta * shrink**age, 0.25, lower=0.0, observed=length)

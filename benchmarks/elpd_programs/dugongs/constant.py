"""No dependence on age."""

with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.Normal("y", a, sigma, observed=length)

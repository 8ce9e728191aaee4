"""A line in age."""

with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    b = pm.Normal("b", 0.0, 1.0)
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.Normal("y", a + b * age, sigma, observed=length)

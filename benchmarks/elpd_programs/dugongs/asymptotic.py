"""Growth that approaches a limit (BUGS volume II)."""

with pm.Model() as model:
    alpha = pm.Normal("alpha", 2.5, 1.0)
    beta = pm.Normal("beta", 1.0, 1.0)
    gamma = pm.Uniform("gamma", 0.5, 1.0)
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.Normal("y", alpha - beta * gamma**age, sigma, observed=length)

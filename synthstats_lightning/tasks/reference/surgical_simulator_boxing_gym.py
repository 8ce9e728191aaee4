"""The hospitals of SynthStats: Poisson deaths with normal log risks."""

with pm.Model() as model:
    centre = pm.Uniform("centre", -6.0, -4.0)
    spread = pm.Uniform("spread", 0.3, 0.8)
    mu = pm.Deterministic("mu", centre)
    sigma = pm.Deterministic("sigma", spread)
    b = pm.Normal("b", mu, sigma, shape=12)
    pm.Poisson("y", operations * pt.exp(b[hospital]), observed=deaths)

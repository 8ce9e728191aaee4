"""The simulated hospitals: normal log odds."""

with pm.Model() as model:
    centre = pm.Uniform("centre", -3.5, -1.5)
    spread = pm.Uniform("spread", 0.2, 0.8)
    mu = pm.Deterministic("mu", centre)
    sigma = pm.Deterministic("sigma", spread)
    b = pm.Normal("b", mu, sigma, shape=12)
    pm.Binomial("y", operations, pm.math.invlogit(b[hospital]), observed=deaths)

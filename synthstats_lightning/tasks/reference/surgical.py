"""BUGS volume I, surgical: normal log odds of hospitals."""

with pm.Model() as model:
    mu = pm.Normal("mu", -2.5, 1.5)
    sigma = pm.HalfNormal("sigma", 1.0)
    b = pm.Normal("b", mu, sigma, shape=12)
    pm.Binomial("y", operations, pm.math.invlogit(b[hospital]), observed=deaths)

"""Data: peregrines. Response: reproductive_pairs."""
# ruff: noqa

import pymc as pm


def build(data):
    t = (data["year"] - data["year"].mean()) / data["year"].std()
    with pm.Model() as model:
        beta = pm.Normal("beta", mu=0, sigma=[1.5, 1.0, 1.0], shape=3)
        eta = beta[0] + beta[1] * t + beta[2] * t**2
        pm.Binomial("C", n=data["adult_pairs"], logit_p=eta, observed=data["reproductive_pairs"])
    return model

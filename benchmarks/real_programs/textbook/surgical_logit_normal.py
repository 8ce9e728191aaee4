"""Data: surgical. Response: deaths."""
# ruff: noqa

import pymc as pm


def model(data):
    n_hospitals = len(data["hospital"])
    with pm.Model() as m:
        mu = pm.Normal("mu", -2.5, 1.0)
        sigma = pm.Exponential("sigma", 1.0)
        b = pm.Normal("b", mu=0, sigma=1, shape=n_hospitals)
        p = pm.Deterministic("p", pm.math.invlogit(mu + sigma * b))
        pm.Binomial("r", n=data["operations"], p=p, observed=data["deaths"])
    return m

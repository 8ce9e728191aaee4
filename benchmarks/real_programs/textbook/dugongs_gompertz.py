"""Data: dugongs. Response: length."""
# ruff: noqa

import pymc as pm
import pytensor.tensor as pt


def model(data):
    t = data.age
    with pm.Model() as m:
        L_inf = pm.LogNormal("L_inf", mu=1.0, sigma=0.3)
        b = pm.HalfNormal("b", sigma=1.0)
        k = pm.HalfNormal("k", sigma=0.5)
        cv = pm.HalfNormal("cv", sigma=0.1)
        mu = L_inf * pt.exp(-b * pt.exp(-k * t))
        pm.Normal("length", mu=mu, sigma=cv * mu, observed=data.length)
    return m

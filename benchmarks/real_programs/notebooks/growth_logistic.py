"""Data: growth. Response: weight."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    capacity = pm.LogNormal("capacity", mu=4.0, sigma=0.5)
    midpoint = pm.Normal("midpoint", mu=45, sigma=20)
    scale = pm.HalfNormal("scale", sigma=20)
    sigma = pm.HalfNormal("sigma", sigma=0.3)
    curve = capacity * pm.math.sigmoid((day - midpoint) / scale)
    pm.LogNormal("weight_obs", mu=pm.math.log(curve), sigma=sigma, observed=weight)

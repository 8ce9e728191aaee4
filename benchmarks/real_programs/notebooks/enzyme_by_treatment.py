"""Data: enzyme. Response: rate."""
# ruff: noqa

import pymc as pm


def build(data):
    s, g = data["substrate"], data["treated"]
    with pm.Model(coords={"group": ["untreated", "treated"]}) as model:
        vmax = pm.Normal("vmax", mu=180, sigma=50, dims="group")
        km = pm.LogNormal("km", mu=-3, sigma=1, dims="group")
        sigma = pm.HalfNormal("sigma", 20)
        velocity = vmax[g] * s / (km[g] + s)
        pm.Normal("rate", mu=velocity, sigma=sigma, observed=data["rate"])
    return model

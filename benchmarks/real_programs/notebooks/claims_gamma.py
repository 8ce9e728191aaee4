"""Data: claims. Response: cost."""
# ruff: noqa

import pymc as pm


def build(data):
    age = (data["age"] - 45) / 15
    with pm.Model(coords={"region": ["N", "E", "S", "W"]}) as model:
        intercept = pm.Normal("intercept", 6, 1)
        b_age = pm.Normal("b_age", 0, 0.5)
        sd_region = pm.HalfNormal("sd_region", 0.5)
        region = pm.ZeroSumNormal("region_effect", sigma=sd_region, dims="region")
        mu = pm.math.exp(intercept + b_age * age + region[data["region"]])
        shape = pm.Gamma("shape", 2, 0.5)
        pm.Gamma("cost", alpha=shape, beta=shape / mu, observed=data["cost"])
    return model

"""Data: housing. Response: price."""
# ruff: noqa

import numpy as np
import pymc as pm

features = [f"f{k}" for k in range(1, 19)]
X = np.column_stack([data[name] for name in features])

with pm.Model(coords={"feature": features}) as model:
    intercept = pm.Normal("intercept", 10, 5)
    beta = pm.Normal("beta", mu=0, sigma=1, dims="feature")
    sigma = pm.HalfNormal("sigma", 5)
    pm.Normal("price_obs", intercept + X @ beta, sigma, observed=price)

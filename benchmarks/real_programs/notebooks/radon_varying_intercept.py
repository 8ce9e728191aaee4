"""Data: radon. Response: log_radon."""
# ruff: noqa

import numpy as np
import pandas as pd
import pymc as pm

county_idx, counties = pd.factorize(county)

with pm.Model(coords={"county": counties, "obs_id": np.arange(len(county_idx))}) as varying_intercept:
    floor_idx = pm.Data("floor_idx", floor, dims="obs_id")
    mu_a = pm.Normal("mu_a", mu=0.0, sigma=10.0)
    sigma_a = pm.Exponential("sigma_a", 1)
    z_a = pm.Normal("z_a", mu=0, sigma=1, dims="county")
    alpha = pm.Deterministic("alpha", mu_a + z_a * sigma_a, dims="county")
    beta = pm.Normal("beta", mu=0, sigma=10)
    sd_y = pm.Exponential("sd_y", 1)
    y_hat = alpha[county_idx] + beta * floor_idx
    pm.Normal("y_like", mu=y_hat, sigma=sd_y, observed=log_radon, dims="obs_id")

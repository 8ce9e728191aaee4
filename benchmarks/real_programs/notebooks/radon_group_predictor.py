"""Data: radon. Response: log_radon."""
# ruff: noqa

import numpy as np
import pymc as pm


def gen_model(observed_data):
    county = observed_data["county"].to_numpy()
    n_counties = len(np.unique(county))
    u = np.array([observed_data["uranium"][county == c].mean() for c in range(n_counties)])
    with pm.Model() as model:
        gamma = pm.Normal("gamma", 0, 2, shape=2)
        sigma_a = pm.HalfNormal("sigma_a", 1)
        a = pm.Normal("a", mu=gamma[0] + gamma[1] * u, sigma=sigma_a, shape=n_counties)
        b = pm.Normal("b", 0, 2)
        sigma = pm.HalfCauchy("sigma", 2)
        pm.Normal("y", a[county] + b * observed_data["floor"], sigma, observed=observed_data["log_radon"])
    return model, None

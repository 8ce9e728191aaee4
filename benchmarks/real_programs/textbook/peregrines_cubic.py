"""Data: peregrines. Response: fledglings."""
# ruff: noqa

import numpy as np
import pymc as pm


def gen_model(observed_data):
    year = observed_data["year"].values
    y = observed_data["fledglings"].values
    yr = (year - year.mean()) / year.std()
    with pm.Model() as model:
        alpha = pm.Normal("alpha", mu=4, sigma=1)
        beta1 = pm.Normal("beta1", mu=0, sigma=1)
        beta2 = pm.Normal("beta2", mu=0, sigma=1)
        beta3 = pm.Normal("beta3", mu=0, sigma=1)
        log_lambda = alpha + beta1 * yr + beta2 * np.power(yr, 2) + beta3 * np.power(yr, 3)
        pm.Poisson("C", mu=pm.math.exp(log_lambda), observed=y)
        pm.sample(500)
    return model

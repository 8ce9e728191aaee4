"""Data: dugongs. Response: length."""
# ruff: noqa

import numpy as np
import pymc as pm


def gen_model(observed_data):
    age = np.array(observed_data["age"])
    y = np.array(observed_data["length"])
    log_age = np.log(age)
    z = (log_age - log_age.mean()) / log_age.std()
    with pm.Model() as model:
        intercept = pm.Normal("intercept", mu=2.3, sigma=0.5, initval=2.0)
        slope = pm.Normal("slope", mu=0, sigma=0.5)
        sigma = pm.HalfNormal("sigma", sigma=0.3)
        nu = pm.Gamma("nu", alpha=2, beta=0.1)
        pm.StudentT("y_obs", nu=nu, mu=intercept + slope * z, sigma=sigma, observed=y)
        trace = pm.sample(1000, tune=1000, target_accept=0.9, random_seed=0)
        posterior_predictive = pm.sample_posterior_predictive(trace, random_seed=0)
    return model, posterior_predictive, trace

"""Data: eight_schools. Response: effect."""
# ruff: noqa

import pymc as pm


def gen_model(observed_data):
    y = observed_data["effect"].values
    se = observed_data["standard_error"].values
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        tau = pm.HalfCauchy("tau", 5)
        lam = pm.HalfStudentT("lam", nu=3, sigma=1, shape=len(y))
        theta = pm.Normal("theta_raw", 0, 1, shape=len(y)) * lam * tau + mu
        pm.Normal("y_obs", mu=theta, sigma=se, observed=y)
        idata = pm.sample()
    return model, idata

"""Data: outliers. Response: y."""
# ruff: noqa

import pymc as pm
import pytensor.tensor as pt

with pm.Model() as hogg:
    b0 = pm.Normal("b0", 0, 5)
    b1 = pm.Normal("b1", 0, 2)
    sigma = pm.HalfNormal("sigma", 1)
    sigma_out = pm.HalfNormal("sigma_out", 10)
    frac_outliers = pm.Uniform("frac_outliers", lower=0.0, upper=0.5)
    is_outlier = pm.Bernoulli("is_outlier", p=frac_outliers, shape=x.shape[0])
    spread = pt.switch(is_outlier, sigma + sigma_out, sigma)
    pm.Normal("obs", mu=b0 + b1 * x, sigma=spread, observed=y)

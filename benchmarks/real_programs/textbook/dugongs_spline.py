"""Data: dugongs. Response: length."""
# ruff: noqa

import numpy as np
import pymc as pm
import pytensor.tensor as pt

log_age = np.log(age)
knots = np.quantile(log_age, [0.2, 0.4, 0.6, 0.8])
basis = np.column_stack([np.maximum(log_age - k, 0.0) for k in knots])

with pm.Model(coords={"knot": np.arange(4), "row": np.arange(len(age))}) as spline:
    B = pm.Data("B", basis, dims=("row", "knot"))
    a = pm.Normal("a", 1.8, 0.5)
    b = pm.Normal("b", 0.3, 0.3)
    tau = pm.HalfNormal("tau", 0.3)
    w = pm.Normal("w", 0, tau, dims="knot")
    sigma = pm.HalfNormal("sigma", 0.2)
    mu = pm.Deterministic("mu", a + b * log_age + pt.dot(B, w), dims="row")
    pm.Normal("y", mu, sigma, observed=length, dims="row")

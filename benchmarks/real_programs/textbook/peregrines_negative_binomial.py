"""Data: peregrines. Response: fledglings."""
# ruff: noqa

import numpy as np
import pymc as pm

t = (year - 1964) / 10.0
offset = np.log(reproductive_pairs)

with pm.Model() as model:
    b0 = pm.Normal("b0", 0, 1)
    b1 = pm.Normal("b1", 0, 0.5)
    b2 = pm.Normal("b2", 0, 0.5)
    phi = pm.Exponential("phi", 0.05)
    mu = pm.math.exp(offset + b0 + b1 * t + b2 * t**2)
    pm.NegativeBinomial("y", mu=mu, alpha=phi, observed=fledglings)

"""Data: fishing. Response: caught."""
# ruff: noqa

import pymc as pm

with pm.Model() as zip_model:
    psi = pm.Beta("psi", 1, 1)
    b0 = pm.Normal("b0", 0, 1)
    b_persons = pm.Normal("b_persons", 0, 0.5)
    b_camper = pm.Normal("b_camper", 0, 0.5)
    mu = pm.math.exp(b0 + b_persons * persons + b_camper * camper)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=caught)

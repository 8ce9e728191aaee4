"""Data: eight_schools. Response: effect."""
# ruff: noqa

import numpy as np
import pymc as pm


def build(data):
    coords = {"school": ["A", "B", "C", "D", "E", "F", "G", "H"]}
    with pm.Model(coords=coords) as model:
        se = pm.Data("se", data["standard_error"], dims="school")
        mu = pm.Normal("mu", 0, 10)
        tau = pm.HalfNormal("tau", 10)
        z = pm.Normal("z", 0, 1, dims="school", initval=np.zeros(8))
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, se, observed=data["effect"], dims="school")
    return model

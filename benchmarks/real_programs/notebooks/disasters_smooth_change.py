"""Data: disasters. Response: count."""
# ruff: noqa

import pymc as pm
import pytensor.tensor as pt


def build(data):
    year = data["year"]
    with pm.Model() as model:
        tau = pm.Uniform("tau", year.min(), year.max())
        width = pm.HalfNormal("width", 5)
        rates = pm.Gamma("rates", alpha=2, beta=1, shape=2)
        weight = pm.math.sigmoid((year - tau) / (width + 0.1))
        lam = pt.set_subtensor(pt.zeros(len(year))[:], (1 - weight) * rates[0] + weight * rates[1])
        pm.Poisson("count", lam, observed=data["count"])
    return model

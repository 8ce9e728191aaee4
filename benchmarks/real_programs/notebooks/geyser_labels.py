"""Data: geyser. Response: waiting."""
# ruff: noqa

import numpy as np
import pymc as pm


def gen_model(observed_data):
    y = observed_data["waiting"].values
    with pm.Model() as model:
        p = pm.Beta("p", 2, 2)
        means = pm.Normal("means", mu=np.array([55.0, 80.0]), sigma=8, shape=2)
        sd = pm.HalfNormal("sd", 10)
        z = pm.Bernoulli("z", p=p, shape=len(y))
        pm.Normal("y", mu=means[z], sigma=sd, observed=y)
        trace = pm.sample(1000)
    return model, trace

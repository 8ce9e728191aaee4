"""Data: ratings. Response: rating."""
# ruff: noqa

import numpy as np
import pymc as pm

with pm.Model() as model:
    cutpoints = pm.Normal(
        "cutpoints",
        mu=0.0,
        sigma=2.0,
        shape=4,
        transform=pm.distributions.transforms.ordered,
        initval=np.linspace(-2, 2, 4),
    )
    beta = pm.Normal("beta", 0, 1)
    pm.OrderedLogistic("rating_obs", eta=beta * quality, cutpoints=cutpoints, observed=rating)

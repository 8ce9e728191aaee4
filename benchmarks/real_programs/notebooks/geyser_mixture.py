"""Data: geyser. Response: waiting, recorded to 1."""
# ruff: noqa

import numpy as np
import pymc as pm

with pm.Model(coords={"cluster": range(2)}) as model:
    mu = pm.Normal(
        "mu",
        mu=[55, 80],
        sigma=10,
        transform=pm.distributions.transforms.ordered,
        initval=np.array([50.0, 80.0]),
        dims="cluster",
    )
    sigma = pm.HalfNormal("sigma", sigma=10, dims="cluster")
    weights = pm.Dirichlet("w", np.ones(2), dims="cluster")
    pm.NormalMixture("x", w=weights, mu=mu, sigma=sigma, observed=waiting)

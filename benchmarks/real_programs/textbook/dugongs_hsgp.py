"""Data: dugongs. Response: length."""
# ruff: noqa

import numpy as np
import pymc as pm

x = np.log(age)
x = (x - x.mean()) / x.std()

with pm.Model() as model:
    ell = pm.LogNormal("ell", mu=0.0, sigma=0.5)
    eta = pm.Exponential("eta", lam=2.0)
    cov_func = eta**2 * pm.gp.cov.Matern52(1, ls=ell)
    gp = pm.gp.HSGP(m=[10], c=1.5, cov_func=cov_func)
    f = gp.prior("f", X=x[:, None])
    mean = pm.Normal("mean", 2.3, 0.5)
    sigma = pm.HalfNormal("sigma", 0.2)
    pm.Normal("obs", mean + f, sigma, observed=length)

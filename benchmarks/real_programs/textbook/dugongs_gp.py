"""Data: dugongs. Response: length."""
# ruff: noqa

import pymc as pm


def build(data):
    X = data["age"][:, None]
    with pm.Model() as model:
        ell = pm.InverseGamma("ell", alpha=5, beta=30)
        eta = pm.HalfNormal("eta", sigma=1)
        c = pm.Normal("c", mu=2.3, sigma=0.5)
        cov = eta**2 * pm.gp.cov.ExpQuad(1, ls=ell)
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(c), cov_func=cov)
        sigma = pm.HalfNormal("sigma", sigma=0.2)
        gp.marginal_likelihood("y", X=X, y=data["length"], sigma=sigma)
    return model

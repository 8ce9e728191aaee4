"""Data: peregrines. Response: fledglings."""
# ruff: noqa

import pymc as pm

with pm.Model() as model:
    switch_year = pm.DiscreteUniform("switch_year", lower=year.min(), upper=year.max())
    low = pm.Gamma("low", alpha=2, beta=0.05)
    rise = pm.Gamma("rise", alpha=2, beta=0.05)
    alpha = pm.HalfNormal("alpha", 20)
    mu = pm.math.switch(year < switch_year, low, low + rise)
    pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=fledglings)

"""Overdispersed counts with a cubic log mean."""

with pm.Model() as model:
    a = pm.Normal("a", 4, 2)
    b = pm.Normal("b", 0, 2, shape=3)
    alpha = pm.Exponential("alpha", 0.02)
    eta = a + b[0] * time + b[1] * time**2 + b[2] * time**3
    pm.NegativeBinomial("y", mu=pt.exp(eta), alpha=alpha, observed=adult_pairs)

"""Poisson counts of one mean."""

with pm.Model() as model:
    a = pm.Normal("a", 4, 2)
    pm.Poisson("y", pt.exp(a), observed=adult_pairs)

"""Poisson counts with a linear log mean."""

with pm.Model() as model:
    a = pm.Normal("a", 4, 2)
    b = pm.Normal("b", 0, 2)
    pm.Poisson("y", pt.exp(a + b * time), observed=adult_pairs)

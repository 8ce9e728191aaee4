"""One probability for all hospitals."""

with pm.Model() as model:
    p = pm.Beta("p", 1, 1)
    pm.Binomial("y", operations, p, observed=deaths)

"""A probability of its own for each hospital."""

with pm.Model() as model:
    p = pm.Beta("p", 1, 1, shape=12)
    pm.Binomial("y", operations, p[hospital], observed=deaths)

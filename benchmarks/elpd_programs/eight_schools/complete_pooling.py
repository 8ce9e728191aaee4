"""One effect for all schools."""

with pm.Model() as model:
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, standard_error, observed=effect)

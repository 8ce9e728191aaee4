"""An effect of its own for each school."""

with pm.Model() as model:
    theta = pm.Normal("theta", 0, 30, shape=8)
    pm.Normal("y", theta[school], standard_error, observed=effect)

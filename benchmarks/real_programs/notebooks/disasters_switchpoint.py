"""Data: disasters. Response: count."""
# ruff: noqa

import pymc as pm

with pm.Model() as disaster_model:
    switchpoint = pm.DiscreteUniform("switchpoint", lower=year.min(), upper=year.max())
    early_rate = pm.Exponential("early_rate", 1.0)
    late_rate = pm.Exponential("late_rate", 1.0)
    rate = pm.math.switch(switchpoint >= year, early_rate, late_rate)
    disasters = pm.Poisson("disasters", rate, observed=count)

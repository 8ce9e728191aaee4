"""Data: exam. Response: passed."""
# ruff: noqa

import pymc as pm


def model(data):
    hours = (data["hours"] - data["hours"].mean()) / data["hours"].std()
    grade = (data["grade"] - data["grade"].mean()) / data["grade"].std()
    with pm.Model() as m:
        a = pm.Normal("a", 0, 1.5)
        b = pm.Normal("b", 0, 1, shape=2)
        interaction = pm.Laplace("interaction", 0, 0.5)
        logit_p = a + b[0] * hours + b[1] * grade + interaction * hours * grade
        pm.Bernoulli("passed", logit_p=logit_p, observed=data["passed"])
    return m

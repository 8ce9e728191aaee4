"""Ten programs of different structure for the dugongs data, as people write them."""

from __future__ import annotations

WARM_UP = """
with pm.Model() as model:
    level = pm.Gamma("level", 2.0, 1.0)
    pm.Exponential("length", level, observed=length)
"""
"""Scored first, so that no measured program pays for starting the sandbox worker."""

PROGRAMS = {
    "constant": """
with pm.Model() as model:
    mu = pm.Normal("mu", 2.0, 1.0)
    sigma = pm.HalfNormal("sigma", 1.0)
    pm.Normal("y", mu, sigma, observed=length)
""",
    "line": """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    b = pm.Normal("b", 0.0, 0.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.Normal("y", a + b * age, sigma, observed=length)
""",
    "log_line": """
with pm.Model() as model:
    a = pm.Normal("a", 1.5, 1.0)
    b = pm.Normal("b", 0.0, 1.0)
    sigma = pm.Exponential("sigma", 5.0)
    pm.Normal("y", a + b * np.log(age), sigma, observed=length)
""",
    "asymptotic": """
with pm.Model() as model:
    alpha = pm.Normal("alpha", 2.5, 1.0)
    beta = pm.HalfNormal("beta", 2.0)
    rate = pm.HalfNormal("rate", 0.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.Normal("y", alpha - beta * pm.math.exp(-rate * age), sigma, observed=length)
""",
    "power_of_gamma": """
with pm.Model() as model:
    alpha = pm.Normal("alpha", 2.5, 1.0)
    beta = pm.Normal("beta", 1.0, 1.0)
    gamma = pm.Uniform("gamma", 0.5, 1.0)
    tau = pm.Gamma("tau", 2.0, 0.05)
    pm.Normal("y", alpha - beta * gamma ** age, 1 / pm.math.sqrt(tau), observed=length)
""",
    "saturation_lognormal": """
with pm.Model() as model:
    top = pm.LogNormal("top", 1.0, 0.5)
    half = pm.LogNormal("half", 0.0, 1.0)
    sigma = pm.HalfCauchy("sigma", 0.5)
    pm.LogNormal("y", pm.math.log(top * age / (half + age)), sigma, observed=length)
""",
    "student_quadratic": """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    b = pm.Normal("b", 0.0, 0.5)
    c = pm.Normal("c", 0.0, 0.05)
    sigma = pm.HalfNormal("sigma", 0.5)
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu, mu=a + b * age + c * age ** 2, sigma=sigma, observed=length)
""",
    "sqrt_heteroscedastic": """
with pm.Model() as model:
    a = pm.Normal("a", 1.5, 1.0)
    b = pm.Normal("b", 0.3, 0.5)
    s0 = pm.HalfNormal("s0", 0.3)
    s1 = pm.HalfNormal("s1", 0.05)
    pm.Normal("y", a + b * pm.math.sqrt(age), s0 + s1 * age, observed=length)
""",
    "logistic_growth": """
with pm.Model() as model:
    top = pm.Normal("top", 2.6, 0.5)
    depth = pm.HalfNormal("depth", 1.0)
    centre = pm.Normal("centre", 4.0, 4.0)
    scale = pm.LogNormal("scale", 1.0, 0.7)
    sigma = pm.InverseGamma("sigma", 3.0, 0.5)
    mu = top - depth * pm.math.sigmoid(-(age - centre) / scale)
    pm.Laplace("y", mu, sigma, observed=length)
""",
    "broken_stick": """
with pm.Model() as model:
    a = pm.Normal("a", 2.3, 0.5)
    knot = pm.Uniform("knot", 2.0, 25.0)
    b = pm.Normal("b", 0.0, 0.2, shape=2)
    sigma = pm.HalfNormal("sigma", 0.5)
    mu = a + b[0] * pm.math.minimum(age - knot, 0) + b[1] * pm.math.maximum(age - knot, 0)
    pm.Normal("y", mu, sigma, observed=length)
""",
}
"""Name to source."""

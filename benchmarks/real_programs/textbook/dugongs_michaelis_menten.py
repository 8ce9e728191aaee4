"""Data: dugongs. Response: length."""
# ruff: noqa

with pm.Model() as model:
    vmax = pm.TruncatedNormal("vmax", mu=2.7, sigma=0.5, lower=0.0)
    km = pm.Gamma("km", alpha=2.0, beta=1.0)
    base = pm.Uniform("base", 0.5, 2.0)
    tau = pm.Gamma("tau", alpha=2, beta=0.05)
    growth = base + (vmax - base) * age / (km + age)
    y = pm.Normal("y", mu=growth, tau=tau, observed=length)

"""The survival analysis of BoxingGym: a constant hazard that metastases multiply."""

with pm.Model() as model:
    baseline = pm.Gamma("baseline", 0.1, 0.1)
    log_ratio = pm.HalfNormal("log_ratio", 10)
    pm.Deterministic("beta", log_ratio)
    exposure = baseline * pt.exp(log_ratio * metastasised) * years
    pm.Bernoulli("y", -pt.expm1(-exposure), observed=died)

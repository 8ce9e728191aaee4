"""The survival analysis of BoxingGym as it is published, with a logistic link."""

with pm.Model() as model:
    baseline = pm.Gamma("baseline", 0.1, 0.1)
    log_ratio = pm.HalfNormal("log_ratio", 10)
    pm.Deterministic("beta", log_ratio)
    exposure = baseline * pt.exp(log_ratio * metastasised) * years
    pm.Bernoulli("y", logit_p=exposure, observed=died)

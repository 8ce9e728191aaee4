"""The death process of BoxingGym: each of 50 individuals is infected at a constant rate."""

with pm.Model() as model:
    rate = pm.TruncatedNormal("rate", 1.0, 1.0, lower=0.0, upper=2.0)
    theta = pm.Deterministic("theta", rate)
    pm.Binomial("y", 50, 1 - pt.exp(-theta * time), observed=infected)

"""The peregrines of BoxingGym: Poisson counts whose log mean is cubic in the standardised year."""

with pm.Model() as model:
    alpha = pm.Normal("alpha", 4.5, 0.1)
    beta1 = pm.Normal("beta1", 1.2, 0.1)
    beta2 = pm.Normal("beta2", 0.07, 0.01)
    beta3 = pm.Normal("beta3", -0.24, 0.05)
    pm.Deterministic("count_at_zero", pt.exp(alpha))
    log_mean = alpha + beta1 * year + beta2 * year**2 + beta3 * year**3
    pm.Poisson("y", pt.exp(log_mean), observed=pairs)

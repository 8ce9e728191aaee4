"""The hyperbolic discounting of BoxingGym: a probit choice between two discounted values."""

with pm.Model() as model:
    log_k = pm.Normal("log_k", -4.25, 0.5)
    alpha = pm.HalfNormal("alpha", 2.0)
    k = pm.Deterministic("k", pt.exp(log_k))
    gain = delayed_reward / (1 + k * days) - immediate_reward
    pm.Bernoulli("y", 0.01 + 0.98 * pm.math.invprobit(gain / alpha), observed=choice)

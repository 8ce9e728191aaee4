"""The predators and prey of BoxingGym, with log-normal noise."""

with pm.Model() as model:
    growth = pm.TruncatedNormal("growth", 0.1, 0.01, lower=0.0)
    beta = pm.TruncatedNormal("beta", 0.02, 0.01, lower=0.0)
    death = pm.TruncatedNormal("death", 0.4, 0.04, lower=0.0)
    delta = pm.TruncatedNormal("delta", 0.01, 0.001, lower=0.0)
    alpha = pm.Deterministic("alpha", growth)
    gamma = pm.Deterministic("gamma", death)
    # leapfrog in the logarithms, one step a unit of time, and for each row a last step of its own
    u, v = [np.log(40.0)], [np.log(9.0)]
    for _ in range(int(np.max(time))):
        half = v[-1] + 0.5 * (delta * pt.exp(u[-1]) - gamma)
        u.append(u[-1] + alpha - beta * pt.exp(half))
        v.append(half + 0.5 * (delta * pt.exp(u[-1]) - gamma))
    whole = np.floor(time).astype(int)
    rest = time - whole
    log_prey, log_predators = pt.stack(u)[whole], pt.stack(v)[whole]
    log_predators = log_predators + 0.5 * rest * (delta * pt.exp(log_prey) - gamma)
    log_prey = log_prey + rest * (alpha - beta * pt.exp(log_predators))
    log_predators = log_predators + 0.5 * rest * (delta * pt.exp(log_prey) - gamma)
    log_population = pt.where(species == 0, log_prey, log_predators)
    pm.LogNormal("y", log_population, 0.1, observed=population)

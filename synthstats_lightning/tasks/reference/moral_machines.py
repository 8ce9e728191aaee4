"""The moral machine of BoxingGym: a logistic regression on differences between groups."""

with pm.Model() as model:
    intercept = pm.Normal("intercept", 0.0, 0.3)
    group = pm.Normal("group", 0.4, 0.1)
    by_count = pm.Normal("by_count", 0.7, 0.1)
    by_gender = pm.Normal("by_gender", -0.3, 0.1)
    by_age = pm.Normal("by_age", 0.1, 0.1)
    by_status = pm.Normal("by_status", 0.1, 0.1)
    by_fitness = pm.Normal("by_fitness", 0.4, 0.1)
    by_species = pm.Normal("by_species", 0.6, 0.1)
    by_intervention = pm.Normal("by_intervention", -0.3, 0.1)
    pm.Deterministic("count_effect", by_count)
    pm.Deterministic("species_effect", by_species)
    log_odds = (
        intercept
        + group
        + by_count * count_difference
        + by_gender * gender_difference
        + by_age * age_difference
        + by_status * status_difference
        + by_fitness * fitness_difference
        + by_species * species_difference
        + by_intervention * intervention
    )
    pm.Bernoulli("y", logit_p=log_odds, observed=choice)

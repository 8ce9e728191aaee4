"""The location finding of BoxingGym: the log intensity of three hidden sources in the plane."""

with pm.Model() as model:
    source = pm.Normal("source", 0, 1, shape=(3, 2))
    pm.Deterministic("sources", source)
    distance = (source[:, 0][:, None] - x1) ** 2 + (source[:, 1][:, None] - x2) ** 2
    intensity = 0.1 + pt.sum(1 / (1e-4 + distance), axis=0)
    pm.Normal("y", pt.log(intensity), 0.5, observed=log_intensity)

"""The location finding of BoxingGym as it is published: noise on the intensity itself."""

with pm.Model() as model:
    source = pm.Normal("source", 0, 1, shape=(3, 2))
    pm.Deterministic("sources", source)
    distance = (source[:, 0][:, None] - x1) ** 2 + (source[:, 1][:, None] - x2) ** 2
    pm.Normal("y", 0.1 + pt.sum(1 / (1e-4 + distance), axis=0), 0.5, observed=intensity)

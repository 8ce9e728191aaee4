"""Kéry and Schaub (2012), chapter 3: Poisson counts whose log mean is cubic in the standardised year."""

with pm.Model() as model:
    a = pm.Normal("a", 4, 2)
    b = pm.Normal("b", 0, 2, shape=3)
    eta = a + b[0] * time + b[1] * time**2 + b[2] * time**3
    pm.Poisson("y", pt.exp(eta), observed=adult_pairs)

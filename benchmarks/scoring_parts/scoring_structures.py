"""A thousand programs of twenty structures for the dugongs data: the same models with other constants."""

from __future__ import annotations

import random
import re

from scoring_parts.scoring_programs import PROGRAMS

MORE = {
    "exponential_noise": """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    sigma = pm.Exponential("sigma", 3.0)
    pm.Normal("y", a, sigma, observed=length)
""",
    "log_response": """
with pm.Model() as model:
    a = pm.Normal("a", 0.6, 0.5)
    b = pm.Normal("b", 0.1, 0.2)
    sigma = pm.HalfNormal("sigma", 0.3)
    pm.LogNormal("y", a + b * np.log(age), sigma, observed=length)
""",
    "student_log_line": """
with pm.Model() as model:
    a = pm.Normal("a", 1.5, 1.0)
    b = pm.Normal("b", 0.3, 0.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    pm.StudentT("y", 4.0, mu=a + b * np.log(age), sigma=sigma, observed=length)
""",
    "gamma_line": """
with pm.Model() as model:
    a = pm.Normal("a", 0.5, 0.5)
    b = pm.Normal("b", 0.2, 0.2)
    shape = pm.Gamma("shape", 2.0, 0.02)
    mu = pm.math.exp(a + b * np.log(age))
    pm.Gamma("y", alpha=shape, beta=shape / mu, observed=length)
""",
    "cubic": """
with pm.Model() as model:
    a = pm.Normal("a", 2.3, 0.5)
    b = pm.Normal("b", 0.4, 0.5)
    c = pm.Normal("c", 0.0, 0.5)
    d = pm.Normal("d", 0.0, 0.3)
    sigma = pm.HalfNormal("sigma", 0.4)
    z = (age - 10.0) / 8.0
    pm.Normal("y", a + b * z + c * z ** 2 + d * z ** 3, sigma, observed=length)
""",
    "laplace_line": """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 1.0)
    b = pm.Normal("b", 0.0, 0.5)
    scale = pm.HalfCauchy("scale", 0.5)
    pm.Laplace("y", a + b * age, scale, observed=length)
""",
    "hill": """
with pm.Model() as model:
    top = pm.Normal("top", 2.7, 0.5)
    half = pm.HalfNormal("half", 3.0)
    power = pm.Gamma("power", 2.0, 2.0)
    sigma = pm.HalfNormal("sigma", 0.4)
    pm.Normal("y", top * age ** power / (half ** power + age ** power), sigma, observed=length)
""",
    "two_lines": """
with pm.Model() as model:
    a = pm.Normal("a", 2.0, 0.5, shape=2)
    b = pm.Normal("b", 0.05, 0.1, shape=2)
    sigma = pm.HalfNormal("sigma", 0.4)
    mu = pm.math.switch(age < 8.0, a[0] + b[0] * age, a[1] + b[1] * age)
    pm.Normal("y", mu, sigma, observed=length)
""",
    "gompertz": """
with pm.Model() as model:
    top = pm.LogNormal("top", 1.0, 0.3)
    shift = pm.HalfNormal("shift", 1.0)
    rate = pm.HalfNormal("rate", 0.4)
    sigma = pm.HalfNormal("sigma", 0.3)
    pm.Normal("y", top * pm.math.exp(-shift * pm.math.exp(-rate * age)), sigma, observed=length)
""",
    "skewed_log_line": """
with pm.Model() as model:
    a = pm.Normal("a", 1.5, 1.0)
    b = pm.Normal("b", 0.3, 0.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    alpha = pm.Normal("alpha", 0.0, 3.0)
    pm.SkewNormal("y", mu=a + b * np.log(age), sigma=sigma, alpha=alpha, observed=length)
""",
}
"""Ten structures beside those of `scoring_programs`."""

STRUCTURES = {**PROGRAMS, **MORE}
FACTORS = (0.5, 0.8, 1.0, 1.25, 1.5, 2.0)
"""What a prior's last constant is multiplied by: people and language models choose among few values."""
_LAST = re.compile(
    r"(pm\.(?:Normal|HalfNormal|HalfCauchy|LogNormal|Exponential|Gamma)\(\"\w+\",[^)\n]*?)"
    r"([\d.]+)(, shape=2)?\)"
)


def variant(source: str, generator: random.Random) -> str:
    """A program with its priors' last constants changed."""

    def changed(match: re.Match[str]) -> str:
        value = float(match[2]) * generator.choice(FACTORS)
        return f"{match[1]}{value:.3g}{match[3] or ''})"

    return _LAST.sub(changed, source)


def programs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Structure and source of so many programs, in random order; some are equal, as in a run."""
    generator = random.Random(seed)
    names = list(STRUCTURES)
    found = [(name, variant(STRUCTURES[name], generator)) for name in names * (count // len(names) + 1)]
    generator.shuffle(found)
    return found[:count]

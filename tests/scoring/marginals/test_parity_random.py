"""Random hierarchical models from the table of distributions, against PyMC's compiled logp and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from tests.support.benchmark_modules import benchmark_module

# name of the distribution, then kinds of its arguments; a latent may stand for any of them
REAL_LINE: dict[str, dict[str, str]] = {
    "Normal": {"mu": "real", "sigma": "positive"},
    "StudentT": {"nu": "large", "mu": "real", "sigma": "positive"},
    "Cauchy": {"alpha": "real", "beta": "positive"},
    "Laplace": {"mu": "real", "b": "positive"},
    "Logistic": {"mu": "real", "s": "positive"},
    "Gumbel": {"mu": "real", "beta": "positive"},
    "Moyal": {"mu": "real", "sigma": "positive"},
    "SkewNormal": {"mu": "real", "sigma": "positive", "alpha": "real"},
    "AsymmetricLaplace": {"b": "positive", "kappa": "positive", "mu": "real"},
    "ExGaussian": {"mu": "real", "sigma": "positive", "nu": "positive"},
    "SkewStudentT": {"a": "large", "b": "large", "mu": "real", "sigma": "positive"},
}
HALF_LINE: dict[str, dict[str, str]] = {
    "HalfNormal": {"sigma": "positive"},
    "LogNormal": {"mu": "real", "sigma": "positive"},
    "Exponential": {"scale": "positive"},
    "Gamma": {"alpha": "large", "beta": "positive"},
    "InverseGamma": {"alpha": "large", "beta": "positive"},
    "HalfCauchy": {"beta": "positive"},
    "HalfStudentT": {"nu": "large", "sigma": "positive"},
    "Weibull": {"alpha": "positive", "beta": "positive"},
    "Wald": {"mu": "positive", "lam": "positive"},
    "Rice": {"nu": "positive", "sigma": "positive"},
}
UNIT_LINE: dict[str, dict[str, str]] = {
    "Beta": {"alpha": "large", "beta": "large"},
    "Kumaraswamy": {"a": "positive", "b": "positive"},
    "Uniform": {"lower": "zero", "upper": "one"},
}
COUNTS: dict[str, dict[str, str]] = {
    "Poisson": {"mu": "positive"},
    "NegativeBinomial": {"mu": "positive", "alpha": "positive"},
    "DiscreteWeibull": {"q": "unit", "beta": "positive"},
    "BetaBinomial": {"n": "trials", "alpha": "positive", "beta": "positive"},
    "Binomial": {"n": "trials", "p": "unit"},
    "ZeroInflatedPoisson": {"psi": "unit", "mu": "positive"},
}


class RandomModel:
    """Adds random variables to the model in context, the same ones for the same seed.

    Args:
        seed: Of everything.
        covariate: Values by row.
    """

    def __init__(self, seed: int, covariate: np.ndarray) -> None:
        self.rng = np.random.default_rng(seed)
        self.covariate = covariate
        self.latents: dict[str, list[Any]] = {"real": [], "positive": [], "unit": []}

    def __call__(self, y: Any, family: dict[str, dict[str, str]]) -> None:
        for number in range(int(self.rng.integers(2, 6))):
            kind = str(self.rng.choice(["real", "positive", "unit"]))
            table = {"real": REAL_LINE, "positive": HALF_LINE, "unit": UNIT_LINE}[kind]
            shape = () if self.rng.random() < 0.7 else (3,)
            variable = self.draw(table, f"v{number}", shape=shape)
            self.latents[kind].append(variable[self.group()] if shape else variable)
        if self.rng.random() < 0.25:
            plain = {name: kinds for name, kinds in family.items() if not name.startswith("ZeroInflated")}
            parts = [self.draw(plain, None) for _ in range(2)]
            share = self.argument("unit", by_row=False)
            pm.Mixture("y", w=pt.stack([share, 1.0 - share]), comp_dists=parts, observed=y)
            return
        self.draw(family, "y", observed=y)

    def group(self) -> np.ndarray:
        return np.arange(len(self.covariate)) % 3

    def draw(self, table: dict[str, dict[str, str]], name: str | None, **settings: Any) -> Any:
        family = str(self.rng.choice(sorted(table)))
        by_row = name in ("y", None)
        arguments = {key: self.argument(kind, by_row) for key, kind in table[family].items()}
        constructor: Callable[..., Any] = getattr(pm, family)
        return constructor.dist(**arguments) if name is None else constructor(name, **arguments, **settings)

    def argument(self, kind: str, by_row: bool) -> Any:
        if kind in ("zero", "one", "trials"):
            return {"zero": 0.0, "one": 1.0, "trials": 14}[kind]
        base = "positive" if kind == "large" else kind
        usable = [v for v in self.latents[base] if by_row or v.ndim == 0]
        value: Any = {"real": 0.3, "positive": 0.9, "unit": 0.4}[base] * (0.8 + 0.4 * self.rng.random())
        if usable and self.rng.random() < 0.6:
            value = usable[int(self.rng.integers(len(usable)))]
        if base == "real" and by_row and self.rng.random() < 0.5:
            value = value + 0.4 * self.covariate
        if base == "positive" and by_row and self.rng.random() < 0.3:
            value = value * pt.exp(0.2 * self.covariate)
        return 1.5 + 2.0 * value if kind == "large" else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[pytest.mark.slow] if s >= 5 else []) for s in range(80)]
)
def test_random_models(seed: int) -> None:
    cases = benchmark_module("scoring_parts.parity_cases")
    reference = benchmark_module("scoring_parts.parity_reference")
    benchmark = benchmark_module("scoring_parity")
    kinds = [
        (cases.REAL, REAL_LINE),
        (cases.POSITIVE, HALF_LINE),
        (cases.UNIT, UNIT_LINE),
        (cases.COUNTS, COUNTS),
    ]
    response, family = kinds[seed % len(kinds)]
    case = cases.Case(lambda y: RandomModel(seed, cases.X)(y, family), response)
    errors = benchmark.check(reference.record(case), reference.COVARIATES)
    assert not isinstance(errors, str), errors
    assert max(errors) < 1e-8

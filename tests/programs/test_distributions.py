from __future__ import annotations

import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs import DISTRIBUTIONS, Distribution, Support
from synthstats_lightning.programs.distribution import Domain

RING = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
# How PyMC is called where it takes other parameters than the table has, or arrays, and what the parameters in
# the table's order must then be.
SPECIAL: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "Normal": ({"mu": 1.5, "tau": 4.0}, [1.5, 0.5]),
    "HalfNormal": ({"sigma": 2.5}, [0.0, 2.5]),
    "Exponential": ({"lam": 4.0}, [0.25]),
    "Gamma": ({"alpha": 3.0, "beta": 4.0}, [3.0, 0.25]),
    "Uniform": ({"lower": 3.0, "upper": 4.0}, [3.0, 4.0]),
    "NegativeBinomial": ({"mu": 3.0, "alpha": 5.0}, [5.0, 0.625]),
    "Binomial": ({"n": 7, "p": 0.25}, [7, 0.25]),
    "Interpolated": (
        {"x_points": np.array([0.0, 1.0, 3.0]), "pdf_points": np.array([0.0, 0.5, 0.25])},
        [[0.0, 1.0, 3.0], [0.0, 0.5, 0.25], [0.0, 0.25, 1.0]],
    ),
    "LogitNormal": ({"mu": 1.5, "tau": 4.0}, [1.5, 0.5]),
    "Rice": ({"nu": 3.0, "sigma": 2.0}, [1.5, 2.0]),
    "Triangular": ({"lower": 1.5, "c": 2.5, "upper": 3.5}, [1.5, 2.5, 3.5]),
    "Wald": ({"mu": 1.5, "lam": 2.5}, [1.5, 2.5, 0.0]),
    "BetaBinomial": ({"n": 7, "alpha": 1.5, "beta": 2.5}, [7, 1.5, 2.5]),
    "Categorical": ({"p": [0.2, 0.3, 0.5]}, [[0.2, 0.3, 0.5]]),
    "DiscreteUniform": ({"lower": 2, "upper": 5}, [2, 5]),
    "HyperGeometric": ({"N": 20, "k": 8, "n": 5}, [8, 12, 5]),
    "MvNormal": (
        {"mu": [0.5, 1.5], "tau": [[4.0, 0.0], [0.0, 2.0]]},
        [[0.5, 1.5], [[0.25, 0.0], [0.0, 0.5]]],
    ),
    "MvStudentT": (
        {"nu": 5.0, "mu": [0.5, 1.5], "scale": [[4.0, 1.0], [1.0, 2.0]]},
        [5.0, [0.5, 1.5], [[4.0, 1.0], [1.0, 2.0]]],
    ),
    "Dirichlet": ({"a": [1.0, 2.0, 3.0]}, [[1.0, 2.0, 3.0]]),
    "Multinomial": ({"n": 7, "p": [0.25, 0.75]}, [7, [0.25, 0.75]]),
    "DirichletMultinomial": ({"n": 7, "a": [1.5, 2.5]}, [7, [1.5, 2.5]]),
    "ICAR": ({"W": RING, "sigma": 1.5, "zero_sum_stdev": 0.25}, [RING, 1.5, 0.25]),
    "MatrixNormal": (
        {"mu": np.ones((2, 3)), "rowcov": 4.0 * np.eye(2), "colchol": 3.0 * np.eye(3)},
        [np.ones((2, 3)), 2.0 * np.eye(2), 3.0 * np.eye(3)],
    ),
}

SIZED: dict[str, dict[str, Any]] = {
    "ZeroSumNormal": {"sigma": 2.5, "shape": 3},
    "StickBreakingWeights": {"alpha": 2.5, "K": 3},
    "GARCH11": {"omega": 0.5, "alpha_1": 0.25, "beta_1": 0.5, "initial_vol": 1.5, "steps": 3},
    "LKJCorr": {"eta": 2.5, "n": 3},
    "CAR": {"mu": np.ones(3), "W": RING, "alpha": 0.5, "tau": 2.5},
}
"""Vectors of which PyMC's op has a parameter, such as the length, that the table has not."""
ELSEWHERE = frozenset({"LKJCorrCholesky", "ZeroSumMatrix", "Wishart"})
"""What another release of PyMC has in place of a distribution, and what PyMC has by another name."""

NUMBERS = {
    Domain.REAL: 0.5,
    Domain.POSITIVE: 2.5,
    Domain.NON_NEGATIVE: 3.5,
    Domain.UNIT: 0.25,
    Domain.OPEN_UNIT: 0.75,
}


def by_name(entry: Distribution) -> tuple[dict[str, Any], list[Any]]:
    """A call of PyMC by the table's own names, every number another one."""
    numbers = [NUMBERS[domain] + 0.125 * i for i, domain in enumerate(entry.domains)]
    return dict(zip(entry.parameters, numbers, strict=True)), numbers


CALLS = SPECIAL | {
    name: by_name(entry)
    for name, entry in DISTRIBUTIONS.items()
    if name not in SPECIAL and name not in SIZED and name not in ELSEWHERE
}

PYMC_6 = not version("pymc").startswith("5.")

TRANSFORMS = {
    Support.REAL: "NoneType",
    Support.POSITIVE: "LogTransform",
    Support.UNIT: "LogOddsTransform",
    Support.INTERVAL: "Interval",
    Support.ABOVE: "Interval",
    Support.CIRCLE: "CircularTransform",
    Support.SIMPLEX: "SimplexTransform",
    Support.ZERO_SUM: "ZeroSumTransform",
    Support.CORRELATION: "CholeskyCorrTransform" if PYMC_6 else "MultivariateIntervalTransform",
}


@pytest.fixture(scope="module")
def pm() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its future at import
        import pymc
    return pymc


@pytest.mark.parametrize("name", CALLS)
def test_parameters_in_the_native_order(pm: Any, name: str) -> None:
    arguments, expected = CALLS[name]
    entry = DISTRIBUTIONS[name]
    variable = getattr(pm, name).dist(**arguments)
    native = variable.owner.op.dist_params(variable.owner)
    for value, wanted in zip(native, expected, strict=True):
        np.testing.assert_allclose(value.eval(), wanted)
    assert len(entry.parameters) == len(native)
    assert entry.ranks == tuple(value.ndim for value in native)
    for parameter, value in entry.fixed.items():
        assert expected[entry.parameters.index(parameter)] == value
    for parameter, variable_ in zip(entry.parameters, native, strict=True):
        if parameter in entry.integer_parameters:
            assert np.dtype(variable_.dtype).kind == "i"
    assert variable.dtype == entry.dtype


@pytest.mark.parametrize(
    "name", [name for name, entry in DISTRIBUTIONS.items() if not entry.discrete and name not in ELSEWHERE]
)
def test_support_is_that_of_pymcs_transform(pm: Any, name: str) -> None:
    with pm.Model() as model:
        variable = getattr(pm, name)("x", **(SIZED[name] if name in SIZED else CALLS[name][0]))
    entry = DISTRIBUTIONS[name]
    # PyMC leaves a logit-normal as it is, and takes the log of a Wald variable whatever its shift
    special = {"LogitNormal": "NoneType", "Wald": "LogTransform"}
    wanted = special.get(name, TRANSFORMS[entry.support])
    assert type(model.rvs_to_transforms[variable]).__name__ == wanted
    for bound in entry.bounds:
        assert bound is None or bound in entry.parameters


@pytest.mark.parametrize(
    "name", [name for name, entry in DISTRIBUTIONS.items() if entry.discrete and not entry.event_rank]
)
def test_discrete_densities_sum_to_one_over_the_support(pm: Any, name: str) -> None:
    arguments, expected = CALLS[name]
    entry = DISTRIBUTIONS[name]
    values = list(range(201))
    if entry.support is Support.BINARY:
        values = [0, 1]
    elif entry.support is Support.CATEGORIES:
        values = list(range(len(expected[0])))
    elif entry.support is Support.COUNT_TO:
        values = list(range(int(expected[entry.parameters.index("n")]) + 1))
    elif entry.support is Support.INTEGER_RANGE:
        values = list(range(expected[0], expected[1] + 1))
    elif entry.support is Support.POSITIVE_COUNT:
        values = values[1:]
    logp = pm.logp(getattr(pm, name).dist(**arguments), values)
    assert sum(2.718281828459045**value for value in logp.eval(mode="FAST_COMPILE")) == pytest.approx(1.0)

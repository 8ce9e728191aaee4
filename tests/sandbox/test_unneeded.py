"""In this process: forked programs are built with the same patches, see the other tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.distributions import continuous
from pytensor.compile.sharedvalue import shared_constructor
from pytensor.graph.basic import equal_computations

from synthstats_lightning.sandbox import unneeded

ARGUMENTS = {
    "StudentT": {"nu": 4.0},
    "HalfStudentT": {"nu": 4.0},
    "SkewStudentT": {"a": 1.5, "b": 2.0},
    "TruncatedNormal": {"lower": 0.0},
}


@pytest.fixture
def installed() -> Iterator[None]:
    derive, generator = continuous.get_tau_sigma, shared_constructor.dispatch(np.random.Generator)
    unneeded.install()
    yield
    continuous.get_tau_sigma = derive
    shared_constructor.register(np.random.Generator)(generator)


def parameters(name: str, **scale: float) -> list[object]:
    """What a random variable is drawn from, but for its generator."""
    variable = getattr(pm, name).dist(**ARGUMENTS.get(name, {}), **scale)
    return list(variable.owner.inputs[1:])


@pytest.mark.parametrize("name", unneeded.IGNORE_PRECISION)
def test_the_precision_is_not_needed(
    name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    expected = parameters(name, sigma=0.7)

    def refuse(tau: object = None, sigma: object = None) -> None:
        raise AssertionError("derived")

    monkeypatch.setattr(continuous, "get_tau_sigma", refuse)
    request.getfixturevalue("installed")
    assert equal_computations(parameters(name, sigma=0.7), expected)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["Normal", "HalfNormal", "LogNormal"])
def test_a_given_precision_counts(name: str) -> None:
    scale = parameters(name, tau=4.0)[-1]
    assert scale.eval() == pytest.approx(0.5)
    with pytest.raises(ValueError, match="both tau and sigma"):
        parameters(name, tau=4.0, sigma=0.5)


@pytest.mark.usefixtures("installed")
def test_densities_still_have_precisions() -> None:
    variable = pm.SkewNormal.dist(mu=1.0, sigma=2.0, alpha=0.0)
    expected = pm.logp(pm.Normal.dist(1.0, 2.0), 0.5)
    assert pm.logp(variable, 0.5).eval() == pytest.approx(expected.eval())


@pytest.mark.usefixtures("installed")
def test_a_shared_generator_is_no_copy() -> None:
    generator = np.random.default_rng(1)
    assert pytensor.shared(generator).get_value(borrow=True) is generator

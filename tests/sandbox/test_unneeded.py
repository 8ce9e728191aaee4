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
from pytensor.tensor.random import op

from synthstats_lightning.sandbox.inside import unneeded

ARGUMENTS = {
    "StudentT": {"nu": 4.0},
    "HalfStudentT": {"nu": 4.0},
    "SkewStudentT": {"a": 1.5, "b": 2.0},
    "TruncatedNormal": {"lower": 0.0},
}


@pytest.fixture
def installed() -> Iterator[None]:
    derive, generator = continuous.get_tau_sigma, shared_constructor.dispatch(np.random.Generator)
    infer, probits = op.infer_static_shape, vars(pm.OrderedProbit)["compute_p"]
    unneeded.install()
    yield
    pm.OrderedProbit.compute_p = probits
    continuous.get_tau_sigma, op.infer_static_shape = derive, infer
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


def shapes() -> list[tuple[int | None, ...]]:
    """Static shapes of variables whose sizes are given in every way."""
    length = pytensor.tensor.lscalar("length")
    rows = pytensor.shared(np.zeros((3, 2)), shape=(3, 2))
    sizes = pytensor.tensor.constant(np.array([[4, 5], [6, 7]]))
    variables = [
        pm.Normal.dist(),
        pm.Normal.dist(size=3),
        pm.Normal.dist(shape=(2, 4)),
        pm.Normal.dist(np.zeros((2, 1)), size=(2, 3)),
        pm.Normal.dist(rows, 1.0),
        pm.Normal.dist(size=(rows.shape[0], 2)),
        pm.Normal.dist(size=(length, 2)),
        pm.Normal.dist(size=sizes[1]),
        pm.Normal.dist(size=(sizes[0, 1], sizes[1, 0])),
        pm.Normal.dist(size=sizes[0][1:]),
        pm.MvNormal.dist(np.zeros(2), np.eye(2), size=5),
        pm.Dirichlet.dist(np.ones((3, 2))),
    ]
    return [variable.type.shape for variable in variables]


def test_parts_of_constants_stay_as_they_are() -> None:
    sizes = pytensor.tensor.constant(np.arange(24).reshape(2, 3, 4))
    for part in (
        sizes[1],
        sizes[0, 1:2],
        sizes[:, 1],
        sizes[()],
        sizes[0, 1, 1:3],
        pytensor.tensor.constant(np.ones(3))[1],
    ):
        assert unneeded._length(part) is part
    assert unneeded._length(sizes[1, 2, -1]) == 23
    assert unneeded._length(5) == 5


def test_shapes_are_the_same(request: pytest.FixtureRequest) -> None:
    expected = shapes()
    request.getfixturevalue("installed")
    assert shapes() == expected
    assert (2, 4) in expected


@pytest.mark.usefixtures("installed")
def test_a_constant_length_needs_no_rewriting(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytensor.tensor.basic import infer_shape_db

    monkeypatch.setattr(infer_shape_db.default_query, "rewrite", None)
    assert pm.Normal.dist(shape=(27,)).type.shape == (27,)
    with pytest.raises(TypeError, match="not callable"):
        pm.Normal.dist(size=(pytensor.shared(np.zeros((3, 2)), shape=(3, 2)).shape[0], 2))


def test_ordered_probits_have_the_same_probabilities() -> None:
    eta, cut = np.array([-0.7, 0.2, 3.0]), np.array([-1.0, 0.4, 1.1])
    for sigma in (1, 2.5, np.array([0.3, 1.0, 2.0])):
        wanted = pm.OrderedProbit.dist(eta, cut, sigma=sigma).owner.inputs[-1].eval()
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(pm.OrderedProbit, "compute_p", pm.OrderedProbit.compute_p)
            unneeded._difference_probits()
            found = pm.OrderedProbit.dist(eta, cut, sigma=sigma).owner.inputs[-1]
            assert "erfcx" not in pytensor.dprint(found, file="str")
        # PyMC divides by a square root of two in single precision
        np.testing.assert_allclose(found.eval(), wanted, rtol=1e-6)

"""A latent is taken only where every row reads at most one of its elements."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
import pytest

from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings
from tests.scoring.marginals.groups.models import COUNTS, REAL, ROWS, SUCCESSES, G, X, density_of

NEXT = (G + 1) % 6


def latent() -> Any:
    return pm.Normal("a", 0, 1, shape=6)


PLANTED = {
    "sum_of_two": lambda a: a[G] + a[NEXT],
    "product": lambda a: a[G] * a[NEXT],
    "mean": lambda a: a[G] - a.mean(),
    "hidden_zero": lambda a: a[G] + 0.0 * a[0],
    "cumulative": lambda a: pt.cumsum(a)[G],
    "softmax": lambda a: pm.math.softmax(a)[G],
    "largest": lambda a: a[G] + a.max(),
    "dot": lambda a: pt.dot(pt.as_tensor_variable(X[:, None] ** [[0, 1, 2, 3, 4, 5]]), a),
    "switch": lambda a: pt.switch(a[0] > 0, a[G], a[NEXT]),
    "sorted": lambda a: pt.sort(a)[G],
    "stacked": lambda a: pt.stack([a, a[::-1]]).sum(0)[G],
    "norm": lambda a: a[G] / pt.sqrt((a**2).sum()),
}


@pytest.mark.parametrize("name", PLANTED)
def test_rows_that_read_two_elements_are_never_taken(name):
    def model(y: Any) -> None:
        pm.Normal("y", PLANTED[name](latent()), 1, observed=y)

    assert find_groupings(density_of(model, REAL).compiled) == []


def scale_reads_another(y: Any) -> None:
    a = latent()
    pm.Normal("y", a[G], pt.exp(a[NEXT]), observed=y)


def prior_reads_it(y: Any) -> None:
    a = latent()
    b = pm.Normal("b", a, 1)
    pm.Normal("y", b[G].sum() + a[G], 1, observed=y)


def one_draw(y: Any) -> None:
    a = pm.MvNormal("a", [0.0] * 6, 0.5 * pt.eye(6) + 0.5, shape=6)
    pm.Normal("y", a[G], 1, observed=y)


def simplex(y: Any) -> None:
    pm.Normal("y", pm.Dirichlet("a", [1.0] * 6)[G], 1, observed=y)


def walk(y: Any) -> None:
    pm.Normal("y", pm.GaussianRandomWalk("a", 0, 1, init_dist=pm.Normal.dist(), steps=5)[G], 1, observed=y)


@pytest.mark.parametrize("model", [scale_reads_another, prior_reads_it, one_draw, simplex, walk])
def test_latents_of_dependent_elements_are_never_taken(model):
    assert not [
        each for each in find_groupings(density_of(model, REAL).compiled) if each.parameter.name == "a"
    ]


TAKEN = {
    "two_readings": lambda a: a[G] + X * a[G] ** 2,
    "reshaped": lambda a: a.reshape((2, 3)).T.T.reshape((6,))[G],
    "switched": lambda a: pt.switch(X > 0, a[G], 0.0),
    "stacked": lambda a: pt.stack([a[i] for i in range(6)])[G],
    "joined": lambda a: pt.concatenate([a[:3], a[3:]])[G],
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_each_row_reads_once_is_taken(name):
    def model(y: Any) -> None:
        pm.Normal("y", TAKEN[name](latent()), 1, observed=y)

    (found,) = find_groupings(density_of(model, REAL).compiled)
    expected = [-1 if name == "switched" and x <= 0 else g for g, x in zip(G, X, strict=True)]
    if name != "switched":  # a branch that is not taken still counts as read
        assert found.element.tolist() == expected
    assert found.size == 6


def test_the_latent_of_most_elements_is_first():
    def model(y: Any) -> None:
        rows = pm.Gamma("rows", 2, 2, shape=ROWS)
        a = latent()
        pm.Poisson("y", rows * pt.exp(a[G]), observed=y)

    assert [each.parameter.name for each in find_groupings(density_of(model, COUNTS).compiled)] == [
        "rows",
        "a",
    ]


def test_bounds_that_depend_on_other_parameters_are_taken():
    def model(y: Any) -> None:
        top = pm.Uniform("top", 0.5, 1)
        p = pm.Uniform("p", 0, top, shape=6)
        pm.Binomial("y", 30, p[G], observed=y)

    (found,) = find_groupings(density_of(model, SUCCESSES).compiled)
    assert found.parameter.name == "p"

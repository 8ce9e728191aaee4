"""Which blocks are found, from the graph alone."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.laplace.integrator import integrate_laplace
from synthstats_lightning.scoring.marginals.laplace.predictor import find_predictor
from tests.scoring.marginals.test_density import Builder

ROWS, GROUPS = 12, 4
DATA = {"g": np.arange(ROWS) % GROUPS, "x": np.linspace(-1.0, 1.0, ROWS)}
Y = np.arange(ROWS, dtype=float)


def names(density: Density) -> set[str]:
    found = find_predictor(density.compiled)
    nodes = density.compiled.graph.nodes
    return set() if found is None else {nodes[i].attributes["name"] for i in found.block}


def effects(b: Builder, name: str = "effect", size: int = GROUPS) -> int:
    return b.random("Normal", name, 0.0, b.random("HalfNormal", f"{name}_scale", 0.0, 1.0), shape=(size,))


def of_group(b: Builder, name: str = "effect") -> int:
    return b.op("take", effects(b, name), b.covariate("g"), axis=0)


def counts(b: Builder, rate: int) -> Density:
    b.random("Poisson", "y", rate, shape=(ROWS,))
    return b.density(DATA, Y)


def test_fixed_and_crossed_effects_share_one_predictor() -> None:
    b = Builder()
    slope = b.op("mul", b.random("Normal", "slope", 0.0, 1.0), b.covariate("x"))
    log_rate = b.op("add", b.op("add", of_group(b), of_group(b, "other")), slope)
    density = counts(b, b.op("exp", log_rate))
    assert names(density) == {"effect", "other", "slope"}
    found = find_predictor(density.compiled)
    assert found is not None
    assert found.element.tolist() == list(range(ROWS))


def test_rows_may_read_what_was_made_of_groups() -> None:
    b = Builder()
    rate = b.op("take", b.op("exp", effects(b)), b.covariate("g"), axis=0)
    found = find_predictor(counts(b, rate).compiled)
    assert found is not None
    assert found.element.tolist() == DATA["g"].tolist()


def test_of_two_predictors_the_larger_keeps_its_sources() -> None:
    b = Builder()
    rate = b.op("add", b.op("exp", of_group(b)), b.op("exp", b.random("Normal", "level", 0.0, 1.0)))
    assert names(counts(b, rate)) == {"effect"}


def test_of_a_change_only_its_place_leaves_the_block() -> None:
    """All of these are as large: only without the place is everything else affine."""
    b = Builder()
    level, slope, change, place = (b.random("Normal", name, 0.0, 1.0) for name in ("a", "b", "c", "m"))
    after = b.op("maximum", b.op("sub", b.covariate("x"), place), 0.0)
    mean = b.op("add", level, b.op("mul", slope, b.covariate("x")), b.op("mul", change, after))
    density = counts(b, b.op("exp", mean))
    assert names(density) == {"a", "b", "c"}
    assert integrate_laplace(density) is not None


def test_small_blocks_are_taken_where_another_parameter_multiplies_them() -> None:
    def built(size: int, multiplied: bool, others: int = 0) -> Density:
        b = Builder()
        slope = b.random("Normal", "slope", 0.0, 1.0, shape=(size,))
        one = b.op("dot", b.constant(np.vander(DATA["x"], size).tolist()), slope)
        turn = b.op("sin", b.op("mul", b.random("HalfNormal", "turn", 0.0, 1.0), b.covariate("x")))
        if others:
            more = b.random("Logistic", "more", 0.0, 1.0, shape=(others,))
            turn = b.op("add", turn, b.op("dot", b.constant(np.vander(DATA["x"], others).tolist()), more))
        return counts(b, b.op("exp", b.op("mul", one, turn) if multiplied else b.op("add", one, turn)))

    assert integrate_laplace(built(3, True)) is not None
    assert integrate_laplace(built(3, False)) is None
    assert integrate_laplace(built(2, True)) is None
    # beside many others three fewer are no gain
    assert integrate_laplace(built(3, True, others=4)) is not None
    assert integrate_laplace(built(3, True, others=12)) is None


def test_what_scales_an_effect_is_not_in_its_block() -> None:
    b = Builder()
    log_scale = b.random("Normal", "log_scale", 0.0, 1.0)
    effect = b.random("Normal", "effect", 0.0, b.op("exp", log_scale), shape=(GROUPS,))
    assert names(counts(b, b.op("exp", b.op("take", effect, b.covariate("g"), axis=0)))) == {"effect"}


@pytest.mark.parametrize("mixing", ["cumsum", "sum"])
def test_rows_that_read_several_elements_of_a_bend_are_left_alone(mixing: str) -> None:
    b = Builder()
    bent = b.op("exp", of_group(b))
    rate = b.op(mixing, bent, axis=0 if mixing == "cumsum" else [0])
    rate = rate if mixing == "cumsum" else b.op("mul", b.op("exp", b.covariate("x")), rate)
    assert names(counts(b, rate)) == set()


def test_small_models_without_scales_are_left_to_the_estimators() -> None:
    b = Builder()
    beta = b.random("Normal", "beta", 0.0, 1.0, shape=(6,))
    design = b.constant(np.random.default_rng(0).normal(size=(ROWS, 6)).tolist())
    density = counts(b, b.op("exp", b.op("dot", design, beta)))
    assert names(density) == {"beta"}
    assert integrate_laplace(density) is None

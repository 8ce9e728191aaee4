"""Latents of groups by the groups that differ against the same by every group."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density import equal_groups
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings
from synthstats_lightning.scoring.marginals.groups.integrator import by_nodes
from synthstats_lightning.scoring.marginals.groups.repeated import RepeatedQuadrature, different_groups
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from tests.scoring.marginals.test_density import Builder

GROUPS, EACH = 40, 4
RNG = np.random.default_rng(6)
PERSON = np.repeat(np.arange(GROUPS), EACH)
ITEM = np.tile([0, 1, 1, 2], GROUPS)
AGE = RNG.integers(0, 2, GROUPS).astype(float)
THERE = np.ones(GROUPS * EACH, dtype=bool)
THERE[[3, 7, 11]] = False
"""Some people lack the last item."""
RIGHT = RNG.integers(0, 2, GROUPS * EACH).astype(float)
SHUFFLED = RNG.permutation(int(THERE.sum()))
ROWS = len(SHUFFLED)
EVERY = torch.ones(ROWS, dtype=torch.bool)
THETA = torch.tensor([[0.1, 0.3, -0.5, 0.0, 0.2], [-0.7, -0.2, 0.4, 1.0, -0.3]], dtype=torch.float64)


def exam(count: bool = False, mixed: bool = False) -> Density:
    """Answers by people and items in any order; the prior's mean of a person depends on age."""
    b = Builder()
    spread = b.random("HalfNormal", "spread", 0.0, 1.0)
    slope = b.random("Normal", "slope", 0.0, 1.0)
    hard = b.random("Normal", "hard", 0.0, 1.0, shape=(3,))
    mean = b.op("mul", slope, b.constant(AGE.tolist()))
    skill = b.random("Normal", "skill", mean, spread, shape=(GROUPS,))
    if mixed:
        skill = b.op("cumsum", skill, axis=0)
    own = b.op("take", b.op("mul", skill, b.lift(0.5)), b.covariate("p"), axis=0)
    linear = b.op("sub", own, b.op("take", hard, b.covariate("i"), axis=0))
    law, mean = ("Poisson", b.op("exp", linear)) if count else ("Bernoulli", b.op("sigmoid", linear))
    b.random(law, "y", mean, shape=(ROWS,))
    columns = {"p": PERSON[THERE][SHUFFLED], "i": ITEM[THERE][SHUFFLED]}
    return b.density(columns, RIGHT[THERE][SHUFFLED])


def of(density: Density) -> GroupIntegrated:
    (grouping,) = [each for each in find_groupings(density.compiled) if each.size == GROUPS]
    return by_nodes(density, grouping)


@pytest.fixture(params=[False, True], ids=["answers", "counts"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[GroupIntegrated, ...]:
    repeated = of(exam(request.param))
    monkeypatch.setattr(equal_groups, "FEWEST_GROUPS", GROUPS + 1)
    return repeated, of(exam(request.param))


def test_which_groups_are_equal() -> None:
    """People of one age with the same answers to the same items, whatever their rows' order."""
    density = exam()
    (grouping,) = [each for each in find_groupings(density.compiled) if each.size == GROUPS]
    found = different_groups(density.compiled, grouping)
    assert found is not None
    answers = [
        (AGE[p], *sorted(zip(ITEM[THERE & (p == PERSON)], RIGHT[THERE & (p == PERSON)], strict=True)))
        for p in range(GROUPS)
    ]
    assert found.grouping.size == len(set(answers)) < 0.6 * GROUPS
    kinds = found.equal.kind.tolist()
    assert len(set(zip(kinds, answers, strict=True))) == len(set(answers))
    assert found.equal.copies.sum() == sum(len(answers[i]) - 1 for i in found.equal.first_group.tolist())


def test_elements_that_depend_on_each_other_are_not_copies() -> None:
    density = exam(mixed=True)
    parameter = next(p for p in density.parameters if p.name == "skill")
    grouping = next(iter(find_groupings(exam().compiled)))._replace(parameter=parameter)
    assert different_groups(density.compiled, grouping) is None


def one_left_out() -> torch.Tensor:
    given = EVERY.clone()
    given[17] = False
    return given


@pytest.mark.parametrize(
    "given",
    [EVERY, one_left_out(), torch.arange(ROWS) > 3, torch.arange(ROWS) % 3 > 0],
    ids=["every", "without one", "without a few", "some"],
)
def test_integrals_are_those_of_every_group(both: tuple[GroupIntegrated, ...], given: torch.Tensor) -> None:
    repeated, plain = both
    assert isinstance(repeated.quadrature, RepeatedQuadrature)
    assert repeated.quadrature.rows < plain.quadrature.rows == ROWS
    found, wanted = (each.log_likelihood_given(THETA, given) for each in both)
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)
    found, wanted = (each.marginals(THETA, given) for each in both)
    torch.testing.assert_close(found.changed, wanted.changed, rtol=1e-6, atol=1e-6)


def test_gradients_draws_and_checks_are_the_same(both: tuple[GroupIntegrated, ...]) -> None:
    slopes, draws, checks = [], [], []
    for target in both:
        leaf = THETA.clone().requires_grad_(True)
        target.log_likelihood(leaf).sum().backward()
        slopes.append(leaf.grad)
        draws.append(target.complete(THETA, torch.Generator().manual_seed(3), EVERY))
        checked = target.checked_at(THETA)
        assert checked is not None
        checks.append(checked.check)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(draws[0], draws[1], rtol=1e-3, atol=1e-3)
    assert checks[0] == pytest.approx(checks[1], abs=1e-6)


def dispersed() -> Density:
    """Counts with an effect of each row, on two columns of few values: a row is its own group."""
    b = Builder()
    spread = b.random("HalfNormal", "spread", 0.0, 1.0)
    slope = b.random("Normal", "slope", 0.0, 1.0)
    own = b.random("Normal", "own", 0.0, spread, shape=(ROWS,))
    linear = b.op("add", b.op("mul", slope, b.covariate("x")), own)
    b.random("Poisson", "y", b.op("exp", linear), shape=(ROWS,))
    return b.density({"x": AGE[PERSON[THERE]][SHUFFLED]}, COUNTS)


COUNTS = RNG.poisson(2.0, ROWS).astype(float)


@pytest.fixture
def of_rows(monkeypatch: pytest.MonkeyPatch) -> tuple[GroupIntegrated, ...]:
    found = []
    for fewest in (equal_groups.FEWEST_GROUPS, ROWS + 1):
        monkeypatch.setattr(equal_groups, "FEWEST_GROUPS", fewest)
        density = dispersed()
        found.append(by_nodes(density, next(iter(find_groupings(density.compiled)))))
    return tuple(found)


@pytest.mark.parametrize(
    "given", [EVERY, one_left_out(), torch.arange(ROWS) % 3 > 0], ids=["every", "without one", "some"]
)
def test_rows_of_their_own_elements_are_groups(
    of_rows: tuple[GroupIntegrated, ...], given: torch.Tensor
) -> None:
    repeated, plain = of_rows
    kinds = len(set(zip(AGE[PERSON[THERE]][SHUFFLED], COUNTS, strict=True)))
    assert isinstance(repeated.quadrature, RepeatedQuadrature)
    assert repeated.quadrature.width == kinds < plain.quadrature.width == ROWS
    theta = THETA[:, :2]
    found, wanted = (each.log_likelihood_given(theta, given) for each in of_rows)
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)
    found, wanted = (each.marginals(theta, given) for each in of_rows)
    torch.testing.assert_close(found.changed, wanted.changed, rtol=1e-6, atol=1e-6)
    rows = torch.stack([each.log_likelihood(theta) for each in of_rows])
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-8, atol=1e-8)

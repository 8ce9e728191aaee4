"""Leave-one-out of many rows by their own elements and two orders of the others', against exact integrals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp

from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.groups.grouping import row_groups
from synthstats_lightning.scoring.marginals.laplace import far as orders
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.movers import all_with, movers_of, own_alone
from synthstats_lightning.scoring.marginals.laplace.products import Products, of_triangle
from synthstats_lightning.scoring.numerics.special import softplus
from tests.scoring.marginals.laplace.test_target import of
from tests.scoring.marginals.test_density import Builder

ROWS, GROUPS = 90, 3
RANDOM = np.random.default_rng(2)
GROUP = np.sort(RANDOM.integers(0, GROUPS, ROWS))
SLOPE = RANDOM.normal(size=ROWS).round(2)
VOTE = (RANDOM.random(ROWS) < expit(np.array([-1.2, 0.3, 1.0])[GROUP] + 0.4 * SLOPE)).astype(float)
STEP = 0.8


def votes() -> Density:
    """Votes by a slope that is known and an effect of each group, whose scale is left."""
    b = Builder()
    scale = b.random("HalfNormal", "scale", 0.0, 1.0)
    effect = b.random("Normal", "effect", -0.2, scale, shape=(GROUPS,))
    slope = b.op("mul", b.covariate("x"), 0.4)
    eta = b.op("add", b.op("take", effect, b.covariate("g"), axis=0), slope)
    b.random("Bernoulli", "y", b.op("sigmoid", eta), shape=(ROWS,))
    return b.density({"g": GROUP, "x": SLOPE}, VOTE)


def exact() -> np.ndarray:
    """Log density of each vote given the others, group by group on a grid."""
    found = np.empty(ROWS)
    x = np.linspace(-6.0, 6.0, 4_001)
    prior = -0.5 * ((x + 0.2) / STEP) ** 2
    for group in range(GROUPS):
        rows = np.flatnonzero(group == GROUP)
        eta = x[:, None] + 0.4 * SLOPE[rows]
        each = np.log(np.where(VOTE[rows] == 1, expit(eta), expit(-eta)))
        whole = prior + each.sum(1)
        found[rows] = logsumexp(whole) - logsumexp(whole[:, None] - each, 0)
    return found


def test_own_elements_and_two_orders_of_the_others_are_near_exact_integrals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orders, "MANY", 1)
    target, every = of(votes()), torch.ones(ROWS, dtype=torch.bool)
    theta = torch.tensor([[np.log(STEP)]], dtype=torch.float64)
    own = own_alone(target.likelihood.groups)
    assert own.most == 1
    assert own.apart
    assert not own.every
    found = target.marginals_by(theta, every, 2_048, own)
    density = (found.given[:, None] - found.changed)[0].numpy()
    np.testing.assert_allclose(density, exact(), atol=0.004)
    assert abs((density - exact()).sum()) < 0.03


def test_all_rows_together_need_no_order_of_the_others() -> None:
    target, every = of(votes()), torch.ones(ROWS, dtype=torch.bool)
    theta = torch.tensor([[np.log(STEP)]], dtype=torch.float64)
    found = target.marginals_by(theta, every, 2_048, all_with(every, target.likelihood.groups))
    density = (found.given[:, None] - found.changed)[0].numpy()
    np.testing.assert_allclose(density, exact(), atol=0.002)


def test_densities_of_rows_that_are_not_given_are_found_with_those_of_the_others() -> None:
    target, given = of(votes()), torch.arange(ROWS) % 5 > 0
    theta = torch.linspace(-0.5, 0.3, 6_000, dtype=torch.float64)[:, None]
    alone = of(votes()).added_densities(theta, given).exp().mean(0)
    target.log_likelihood_given(theta, given)
    together = target.added_densities(theta, given)
    assert target._last_added is not None
    assert together is target._last_added.found
    # by other draws
    torch.testing.assert_close(together.exp().mean(0), alone, rtol=0.005, atol=0.0)
    assert target.added_densities(theta[:7], given).shape == (7, ROWS)


def test_tables_of_movers_are_those_of_pairs_of_elements() -> None:
    element = torch.tensor([0, 2, 2, 1, -1, 0, 2])
    groups = row_groups(element, 3)
    every = torch.ones(7, dtype=torch.bool)
    for short, near in (
        (own_alone(groups), torch.eye(3, dtype=torch.bool)),
        (all_with(every, groups), torch.ones(3, 3, dtype=torch.bool)),
    ):
        wanted = movers_of(near, groups)
        for one, other in zip(short, wanted, strict=True):
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert own_alone(groups).rows.tolist() == [[0, 5, 7], [3, 7, 7], [1, 2, 6]]
    assert own_alone(groups).own.tolist() == [0, 0, 1, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("size", "entries", "scaled"), [*itertools.product([6, 40], [2, 6], [False, True]), (40, 1, False)]
)
def test_products_are_those_of_matrices(size: int, entries: int, scaled: bool) -> None:
    rows, random = 25, torch.Generator().manual_seed(size + entries)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    columns = torch.stack([torch.randperm(size, generator=random)[:entries] for _ in range(rows)])
    data, factor = normal(1, rows, entries), normal(3, size).exp() if scaled else torch.ones(1, size).double()
    origin = torch.zeros(1, rows, dtype=torch.float64)
    products = Products(Affine(columns, data, origin), size, of_triangle(size))
    design = Design(Affine(columns, data * factor[:, columns], origin), size).by(products)
    assert design.products is not None
    matrix = design.affine.matrix(size)
    x, value, root, weight = normal(3, 4, size), normal(3, 4, rows), normal(3, size, size), normal(3, rows)
    covariance = root @ root.mT
    first, second = torch.randint(0, rows, (2, 30), generator=random)
    whole = matrix @ covariance @ matrix.mT
    with torch.no_grad():
        torch.testing.assert_close(design.at(x), x @ matrix.mT)
        torch.testing.assert_close(design.back(value), value @ matrix)
        torch.testing.assert_close(design.signed_gram(weight), (matrix.mT * weight[:, None]) @ matrix)
        torch.testing.assert_close(design.variances(covariance), whole.diagonal(dim1=1, dim2=2))
        torch.testing.assert_close(design.covariances(covariance, first, second), whole[:, first, second])
        squares = (whole.square() @ weight[..., None])[..., 0]
        torch.testing.assert_close(design.weighted_squares(covariance, weight), squares)
    torch.testing.assert_close(design.signed_gram(weight), (matrix.mT * weight[:, None]) @ matrix)


def test_softplus_has_its_derivatives() -> None:
    x = torch.tensor([-800.0, -40.0, -1.0, 0.0, 0.7, 50.0, 800.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(softplus(x).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(bend.sum(), x)
    p = torch.from_numpy(expit(x.detach().numpy()))
    torch.testing.assert_close(slope.detach(), p)
    torch.testing.assert_close(bend.detach(), p * torch.from_numpy(expit(-x.detach().numpy())))
    torch.testing.assert_close(third, bend.detach() * (1 - 2 * p))

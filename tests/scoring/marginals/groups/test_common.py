"""Latents integrated out at nodes that all elements share, against other rules and plain sums."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.marginals.curved import curve_at
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.groups import common
from synthstats_lightning.scoring.marginals.groups.common_target import (
    CommonIntegrated,
    integrate_in_common_of_many,
)
from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings
from synthstats_lightning.scoring.marginals.groups.integrator import by_nodes
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.integration import integrate
from tests.sandbox.in_process import model_and_graph

PERSONS, ITEMS = 40, 4
RNG = np.random.default_rng(4)
PERSON, ITEM = np.repeat(np.arange(PERSONS), ITEMS), np.tile(np.arange(ITEMS), PERSONS)
ABILITY, EASE = RNG.normal(size=PERSONS), np.array([-1.0, 0.0, 0.6, 1.2])
DATA = {"person": PERSON, "item": ITEM, "male": (PERSON % 2), "coded": np.where(ITEM < 2, 0.5, -0.5)}
LINEAR = ABILITY[PERSON] + EASE[ITEM]
RIGHT = (RNG.logistic(size=len(ITEM)) < LINEAR).astype(np.int64)
GRADE = (LINEAR[:, None] + RNG.logistic(size=(len(ITEM), 1)) > np.array([-1.0, 1.0])).sum(1)
ORDERED = "transform=pm.distributions.transforms.ordered, initval=[[-1.0, 1.0]] * 4"
PROGRAMS = {
    "two parameters": """
    a = pm.LogNormal("a", 0, 0.5, shape=4)
    b = pm.Normal("b", 0, 1.5, shape=4)
    theta = pm.Normal("theta", 0, 1, shape=40)
    pm.Bernoulli("obs", logit_p=a[item] * (theta[person] - b[item]), observed=y)
""",
    "guessing": """
    a = pm.LogNormal("a", 0, 0.5, shape=4)
    b = pm.Normal("b", 0, 1.5, shape=4)
    c = pm.Beta("c", 2, 8)
    theta = pm.Normal("theta", 0, 1, shape=40)
    pm.Bernoulli("obs", p=c + (1 - c) * pm.math.sigmoid(a[item] * theta[person] - b[item]), observed=y)
""",
    "scaled": """
    mu = pm.Normal("mu", 0, 1)
    sigma = pm.HalfNormal("sigma", 2)
    b = pm.Normal("b", mu, 1, shape=4)
    z = pm.Normal("z", 0, 1, shape=40)
    pm.Bernoulli("obs", logit_p=(sigma * z)[person] + b[item], observed=y)
""",
    "priors that differ": """
    d = pm.Normal("d", 0, 1)
    b = pm.Normal("b", 0, 1.5, shape=4)
    theta = pm.Normal("theta", d * male[::4], 1 + 0.5 * male[::4], shape=40)
    pm.Bernoulli("obs", logit_p=theta[person] + b[item] + 0.3 * coded, observed=y)
""",
    "uses that differ": """
    d = pm.Normal("d", 0, 1)
    b = pm.Normal("b", 0, 1.5, shape=4)
    z = pm.Normal("z", 0, 1, shape=40)
    theta = d * male[::4] + z * (1 + male[::4])
    pm.Bernoulli("obs", logit_p=theta[person] + b[item], observed=y)
""",
}
GRADED = f"""
    a = pm.LogNormal("a", 0, 0.5, shape=4)
    kappa = pm.Normal("kappa", 0, 2, shape=(4, 2), {ORDERED})
    theta = pm.Normal("theta", 0, 1, shape=40)
    pm.OrderedLogistic("obs", eta=a[item] * theta[person], cutpoints=kappa[item], observed=y)
"""
PARTIAL = """
    delta = pm.Normal("delta", 0, 1.5, shape=(4, 2))
    theta = pm.Normal("theta", 0, 1, shape=40)
    steps = theta[person][:, None] - delta[item]
    logits = pt.concatenate([pt.zeros((160, 1)), pt.cumsum(steps, axis=1)], axis=1)
    pm.Categorical("obs", p=pm.math.softmax(logits, axis=1), observed=y)
"""
CASES = [(name, text, RIGHT) for name, text in PROGRAMS.items()]
CASES += [("graded", GRADED, GRADE), ("partial credit", PARTIAL, GRADE)]
EVERY = torch.ones(len(ITEM), dtype=torch.bool)


def density_of(body: str, response: NDArray[Any], data: dict[str, Any] = DATA) -> Density:
    columns = {name: str(column.dtype) for name, column in data.items()}
    schema = DataSchema(columns, "y", "int64", len(response))
    source = f"import pytensor.tensor as pt\nwith pm.Model() as model:{body}"
    _, document = model_and_graph(source, schema, data)
    return build_density(canonicalise(parse_graph(json.dumps(document), schema)), data, response)


def integrated(body: str, response: NDArray[Any], curved: bool = False) -> CommonIntegrated:
    found = integrate_in_common_of_many(density_of(body, response))
    assert found is not None
    if not curved:
        found.curve = None
    return found


def near(target: CommonIntegrated, count: int) -> torch.Tensor:
    """Draws that are no further out than posteriors are."""
    return 0.6 * target.others.sample_prior(count, torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("body", "response"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_it_is_the_rule_of_every_element_by_itself(body: str, response: NDArray[Any]) -> None:
    target = integrated(body, response)
    whole = target.density
    other = by_nodes(whole, find_groupings(whole.compiled)[0])
    theta = near(target, 5)
    some = torch.rand(len(ITEM), generator=torch.Generator().manual_seed(1)) < 0.7
    some[:ITEMS] = False  # nothing of one person is given
    for given in (EVERY, some):
        with torch.no_grad():
            found, wanted = target.marginals(theta, given), other.marginals(theta, given)
        torch.testing.assert_close(found.given, wanted.given, rtol=0, atol=1e-4)
        torch.testing.assert_close(found.changed, wanted.changed, rtol=0, atol=1e-4)
    torch.testing.assert_close(target.log_prior(theta), other.log_prior(theta))


def by_sums(theta: NDArray[Any]) -> tuple[float, NDArray[Any]]:
    """The density of the rows of the first program, and each person's mean ability, by plain sums."""
    log_a, b = theta[:4], theta[4:]
    z = np.linspace(-10, 10, 4001)
    logit = np.exp(log_a)[:, None] * (z - b[:, None])
    signs = (2 * RIGHT.reshape(PERSONS, ITEMS) - 1)[..., None]
    table = np.log(expit(signs * logit)).sum(1) - 0.5 * z**2 - 0.5 * np.log(2 * np.pi) + np.log(z[1] - z[0])
    total = logsumexp(table, axis=1)
    return float(total.sum()), (np.exp(table - total[:, None]) * z).sum(1)


def test_it_is_a_plain_sum() -> None:
    target = integrated(PROGRAMS["two parameters"], RIGHT)
    values = {True: [0.2, -0.3, 0.5, 0.9], False: [1.0, 0.1, -0.7, -1.4]}
    wanted, mean = by_sums(np.array(values[True] + values[False]))
    positive = [parameter.transform is Transform.POSITIVE for parameter in target.others.parameters]
    assert sorted(positive) == [False, True]
    theta = torch.tensor([values[positive[0]] + values[positive[1]]], dtype=torch.float64)
    with torch.no_grad():
        assert float(target.marginal_likelihood(theta)) == pytest.approx(wanted, abs=1e-5)
        draws = target.complete(theta.expand(3000, -1), torch.Generator().manual_seed(0), EVERY)
    parameter = target.grouping.parameter
    found = draws[:, parameter.start : parameter.stop].mean(0).numpy()
    np.testing.assert_allclose(found, mean, atol=0.08)


def test_gradients_are_those_of_differences() -> None:
    target = integrated(PROGRAMS["scaled"], RIGHT)
    theta = near(target, 3).requires_grad_(True)
    (found,) = torch.autograd.grad(target.marginal_likelihood(theta).sum(), theta)
    with torch.no_grad():
        for column in range(target.dimension):
            step = torch.zeros_like(theta)
            step[:, column] = 1e-5
            ahead, back = (target.marginal_likelihood(theta + sign * step) for sign in (1, -1))
            torch.testing.assert_close(found[:, column], (ahead - back) / 2e-5, rtol=1e-4, atol=1e-4)


def test_sums_and_products_of_matrices_agree_where_both_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    target = integrated(GRADED, GRADE)
    theta = near(target, 3)
    some = torch.arange(len(ITEM)) % 3 > 0
    for given in (EVERY, some):
        with torch.no_grad():
            found = target.marginals(theta, given)
            with monkeypatch.context() as patch:
                patch.setattr(common, "LOWEST", 1.0)
                wanted = target.marginals(theta, given)
        torch.testing.assert_close(found.changed, wanted.changed, rtol=0, atol=1e-9)


def test_what_no_rule_sees_has_no_mass() -> None:
    target = integrated(PROGRAMS["scaled"], RIGHT)
    theta = torch.zeros(2, target.dimension, dtype=torch.float64)
    place = next(p for p in target.others.parameters if p.transform is Transform.POSITIVE)
    theta[1, place.start] = 12.0  # a standard deviation of 160,000
    with torch.no_grad():
        found = target.marginal_likelihood(theta)
    assert bool(found[0].isfinite())
    assert float(found[1]) < float(found[0]) - 10


def test_coordinates_and_parameters_are_each_others() -> None:
    generator = torch.Generator().manual_seed(2)
    dim = 6
    turn = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    precision = turn @ turn.T + torch.eye(dim)

    def bent(theta: torch.Tensor) -> torch.Tensor:
        quadratic = 0.5 * ((theta @ precision) * theta).sum(1)
        return -quadratic + 0.2 * (theta[:, 0] ** 3) - 0.3 * theta[:, 1] ** 2 * theta[:, 2]

    curve = curve_at(bent, torch.zeros(dim, dtype=torch.float64), precision)
    assert curve is not None
    assert bool(curve.skew.abs().max() > 0)
    x = 3.0 * torch.randn(20, dim, generator=generator, dtype=torch.float64)
    theta, log_jacobian = curve.parameters(x)
    torch.testing.assert_close(curve.coordinates(theta), x, rtol=1e-9, atol=1e-9)
    for row in range(3):
        matrix = torch.autograd.functional.jacobian(lambda u: curve.parameters(u[None])[0][0], x[row])
        torch.testing.assert_close(torch.linalg.slogdet(matrix)[1], log_jacobian[row])


def test_a_straightened_target_is_the_same_model() -> None:
    straight, plain = (integrated(GRADED, GRADE, curved) for curved in (True, False))
    assert straight.curve is not None
    assert straight.straight
    assert not plain.straight
    x = torch.randn(4, straight.dimension, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theta, log_jacobian = straight.curve.parameters(x)
    with torch.no_grad():
        torch.testing.assert_close(straight.log_prior(x), plain.log_prior(theta) + log_jacobian)
        torch.testing.assert_close(straight.marginal_likelihood(x), plain.marginal_likelihood(theta))
        found, wanted = (
            target.complete(at, torch.Generator().manual_seed(1), EVERY)
            for target, at in ((straight, x), (plain, theta))
        )
    torch.testing.assert_close(found, wanted)
    draws = straight.sample_prior(6, torch.Generator().manual_seed(5))
    again = plain.sample_prior(6, torch.Generator().manual_seed(5))
    torch.testing.assert_close(straight.curve.parameters(draws)[0], again)


def test_rows_that_are_alike_have_the_same_density_given_the_others() -> None:
    target = integrated(PROGRAMS["two parameters"], RIGHT)
    with torch.no_grad():
        changed = target.marginals(near(target, 4)).changed
    kinds = target.alike
    assert len(kinds.unique()) < len(ITEM) / 2
    for kind in kinds.unique():
        mine = changed[:, kinds == kind]
        torch.testing.assert_close(mine, mine[:, :1].expand_as(mine))


def test_where_it_is_taken() -> None:
    assert isinstance(integrate(density_of(GRADED, GRADE)), CommonIntegrated)
    own = {**DATA, "x": np.round(RNG.normal(size=len(ITEM)), 3)}
    body = PROGRAMS["two parameters"].replace("- b[item]", "- b[item] + x")
    assert integrate_in_common_of_many(density_of(body, RIGHT, own)) is None
    heavy = PROGRAMS["two parameters"].replace(
        'Normal("theta", 0, 1', 'StudentT("theta", nu=4, mu=0, sigma=1'
    )
    assert integrate_in_common_of_many(density_of(heavy, RIGHT)) is None


def test_patterns_that_were_first_counted_without_gradients_serve_those_with_them() -> None:
    target = integrated(PROGRAMS["two parameters"], RIGHT)
    theta = near(target, 2)
    with torch.inference_mode():
        plain = target.marginal_likelihood(theta)
    leaf = theta.clone().requires_grad_()
    found = target.marginal_likelihood(leaf)
    found.sum().backward()
    assert torch.equal(found.detach(), plain.clone())
    assert leaf.grad is not None
    assert bool(leaf.grad.isfinite().all())


def test_elements_with_much_data_have_nodes_of_their_own() -> None:
    """Sites counted over and over are known to a small part of their prior's width: 260 common nodes each."""
    rng = np.random.default_rng(6)
    site = np.repeat(np.arange(60), 9)
    body = """
    mu = pm.Normal("mu", 0, 10)
    sigma = pm.Uniform("sigma", 0, 5)
    alpha = pm.Normal("alpha", mu, sigma, shape=60)
    pm.Poisson("obs", pm.math.exp(alpha[site]), observed=y)
"""
    taken = []
    for level in (-1.5, 2.5):
        count = rng.poisson(np.exp(rng.normal(level, 0.6, 60)[site]))
        taken.append(type(integrate(density_of(body, count, {"site": site}))))
    assert taken == [CommonIntegrated, GroupIntegrated]

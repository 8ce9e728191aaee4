"""Discrete parameters without a largest value: thinned counts have closed forms, others are sums by SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.labels import elimination
from synthstats_lightning.scoring.marginals.labels.counts import far_enough
from synthstats_lightning.scoring.marginals.labels.elimination import Level, changed, eliminate
from tests.scoring.marginals.test_labels import graph_of

SITE = np.repeat(np.arange(5), 2)
X = np.round(np.linspace(-1, 1, 5), 2)
SEEN = np.array([2, 4, 1, 0, 5, 3, 6, 4, 9, 7])
CATCH = np.array([12, 9, 14, 11, 10])
THETA = torch.tensor([[0.8, 0.3], [1.6, -1.0], [-0.4, 2.0]], dtype=torch.float64)


def density_of(build: Callable[[Any], None], y: NDArray[Any], columns: dict[str, Any]) -> Density:
    return build_density(graph_of(build, str(y.dtype), covariates=columns, rows=len(y)), columns, y)


def poisson_once(y: Any) -> None:
    """One visit of each site."""
    mu = pm.math.exp(pm.Normal("a", 1, 1) + 0.5 * X)
    pm.Binomial("y", n=pm.Poisson("N", mu, shape=5), p=pm.math.sigmoid(pm.Normal("b", 0, 1)), observed=y)


def negative_binomial_once(y: Any) -> None:
    mu, alpha = pm.math.exp(pm.Normal("a", 1, 1) + 0.5 * X), 1.5
    n = pm.NegativeBinomial("N", mu=mu, alpha=alpha, shape=5)
    pm.Binomial("y", n=n, p=pm.math.sigmoid(pm.Normal("b", 0, 1)), observed=y)


def thinned(build: Callable[[Any], None], y: NDArray[np.int64]) -> NDArray[np.float64]:
    a, b = THETA[:, :1].numpy(), THETA[:, 1:].numpy()
    mu = np.exp(a + 0.5 * X) / (1 + np.exp(-b))
    if build is poisson_once:
        return np.asarray(stats.poisson.logpmf(y, mu))
    return np.asarray(stats.nbinom.logpmf(y, 1.5, 1.5 / (1.5 + mu)))


@pytest.mark.parametrize("build", [poisson_once, negative_binomial_once])
def test_counts_of_which_some_are_seen_follow_the_thinned_law(build: Callable[[Any], None]) -> None:
    """Binomial shares of Poisson (negative binomial) counts are Poisson (negative binomial) again."""
    density = density_of(build, SEEN[::2], {"x": X})
    expected = thinned(build, SEEN[::2])
    np.testing.assert_allclose(density.log_likelihood(THETA), expected, atol=2e-4)
    wanted = THETA.clone().requires_grad_(True)
    found = density.log_likelihood(wanted)
    # with a gradient every state has values of its own
    np.testing.assert_allclose(found.detach(), density.log_likelihood(THETA), rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(found.sum(), wanted)
    step = torch.zeros_like(THETA)
    for column in range(2):
        step.zero_()[:, column] = 1e-5
        up, down = (density.log_likelihood(THETA + sign * step).sum(-1) for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, column], (up - down) / 2e-5, rtol=1e-4, atol=1e-5)


def test_sites_visited_twice_are_sums_over_their_numbers() -> None:
    def build(y: Any) -> None:
        n = pm.Poisson("N", pm.math.exp(pm.Normal("a", 1, 1) + 0.5 * X), shape=5)
        pm.Binomial("y", n=n[SITE], p=pm.math.sigmoid(pm.Normal("b", 0, 1)), observed=y)

    density = density_of(build, SEEN, {"site": SITE})
    numbers = np.arange(200)
    a, p = THETA[:, 0].numpy(), torch.sigmoid(THETA[:, 1]).numpy()
    prior = stats.poisson.logpmf(numbers, np.exp(a[:, None] + 0.5 * X)[..., None])
    rows = stats.binom.logpmf(SEEN[:, None], numbers, p[:, None, None])
    pairs = rows[:, ::2] + rows[:, 1::2]
    by_site = logsumexp(prior + pairs, axis=-1)
    found = density.marginals(THETA)
    np.testing.assert_allclose(found.given, by_site.sum(1), atol=2e-4)
    alone = np.stack([logsumexp(prior + rows[:, 1::2], axis=-1), logsumexp(prior + rows[:, ::2], axis=-1)], 2)
    changed = by_site.sum(1)[:, None] - by_site.repeat(2, 1) + alone.reshape(len(THETA), -1)
    np.testing.assert_allclose(found.changed, changed, atol=2e-4)


@pytest.mark.parametrize("law", ["geometric", "gamma-poisson"])
def test_a_population_has_its_score_in_closed_form(law: str) -> None:
    """Given their number, animals are seen with a probability whose Beta prior is conjugate."""

    def build(y: Any) -> None:
        n = pm.Geometric("N", 0.02) if law == "geometric" else pm.Poisson("N", pm.Gamma("rate", 2, 0.05))
        pm.Binomial("y", n=n, p=pm.Beta("p", 2, 2), observed=y)

    numbers = np.arange(5000)
    prior = stats.geom.logpmf(numbers, 0.02)
    if law != "geometric":
        prior = stats.nbinom.logpmf(numbers, 2, 0.05 / 1.05)

    def evidence(y: NDArray[np.int64]) -> float:
        enough = numbers >= y.max()
        n, total = numbers[enough], y.sum()
        ways = gammaln(n[:, None] + 1) - gammaln(y + 1) - gammaln(n[:, None] - y + 1)
        shares = betaln(2 + total, 2 + len(y) * n - total) - betaln(2, 2)
        return float(logsumexp(prior[enough] + ways.sum(1) + shares))

    score = score_graph(graph_of(build, "int64", covariates={"i": CATCH}, rows=5), {"i": CATCH}, CATCH)
    assert score.scored, score.message
    whole = evidence(CATCH)
    elpd = sum(whole - evidence(np.delete(CATCH, i)) for i in range(5))
    assert score.evidence == pytest.approx(whole, abs=4 * score.evidence_se + 0.005)
    assert score.elpd == pytest.approx(elpd, abs=0.1)


@pytest.mark.long
def test_a_population_that_could_be_of_any_size_is_refused() -> None:
    def build(y: Any) -> None:
        n = pm.Poisson("N", pm.Gamma("rate", 1, 0.0001))
        pm.Binomial("y", n=n, p=pm.Beta("p", 1, 1), observed=y)

    score = score_graph(graph_of(build, "int64", covariates={"i": CATCH}, rows=5), {"i": CATCH}, CATCH)
    assert score.failure is FailureCategory.UNSUPPORTED
    assert "(Poisson) without a largest value, summed to 1023: values above 511 have" in score.message


def test_it_is_summed_as_far_as_the_data_ask_for() -> None:
    def build(y: Any) -> None:
        pm.Binomial("y", n=pm.Poisson("N", pm.Gamma("rate", 2, 0.01)), p=0.5, observed=y)

    def states(y: list[int]) -> int:
        density = density_of(build, np.array(y), {"i": np.arange(len(y))})
        labels = density.compiled.labels
        assert labels is not None
        return labels.plan.sites[0].num_states

    assert states([2, 3, 4]) == 32
    assert states([40, 45, 38]) == 256
    assert states([200, 205, 190]) == 1024


@pytest.mark.long
def test_no_more_is_summed_than_can_be() -> None:
    """Forty sites, four rows each: 1,024 numbers of 200 elements are more than a particle may cost."""
    columns = {"site": np.repeat(np.arange(40), 4)}

    def build(y: Any) -> None:
        n = pm.Poisson("N", pm.Gamma("rate", 2, 0.01), shape=40)
        pm.Binomial("y", n=n[columns["site"]], p=0.5, observed=y)

    labels = density_of(build, np.full(160, 300) + np.arange(160) % 3, columns).compiled.labels
    assert labels is not None
    assert labels.plan.sites[0].num_states == 512


def test_models_without_such_parameters_are_made_once() -> None:
    def build(y: Any) -> None:
        pm.Normal("y", pm.Bernoulli("z", 0.5), 1, observed=y)

    made = []
    density = density_of(build, X, {"x": X})

    def make(largest: int) -> Density:
        made.append(largest)
        return density

    assert far_enough(make) is density
    assert len(made) == 1


def test_a_model_without_other_parameters_is_one_sum() -> None:
    def build(y: Any) -> None:
        pm.Poisson("y", 0.1 + pm.Poisson("N", 3.0), observed=y)

    numbers = np.arange(200)
    parts = stats.poisson.logpmf(numbers, 3) + stats.poisson.logpmf([[4], [6], [3]], 0.1 + numbers).sum(0)
    y = np.array([4, 6, 3])
    score = score_graph(graph_of(build, "int64", covariates={"i": y}, rows=3), {"i": y}, y)
    assert score.evidence == pytest.approx(logsumexp(parts), abs=1e-6)


def ordered(y: Any) -> None:
    eta = pm.Normal("a", 0, 1) + 2.0 * pm.Poisson("N", 1.5, shape=5)
    pm.OrderedLogistic("y", eta=eta, cutpoints=np.array([0.5, 2.0, 3.5]), observed=y)


def mixed(y: Any) -> None:
    rate = pm.math.exp(pm.Normal("a", 0, 1)) + pm.Poisson("N", 1.5, shape=5)
    parts = [pm.Poisson.dist(rate), pm.Poisson.dist(9.0)]
    pm.Mixture("y", w=np.array([0.7, 0.3]), comp_dists=parts, observed=y)


@pytest.mark.parametrize("build", [ordered, mixed])
def test_distributions_with_constant_vectors_are_the_same_with_and_without_a_gradient(
    build: Callable[[Any], None],
) -> None:
    density = density_of(build, np.array([0, 3, 1, 2, 0]), {"x": X})
    theta = THETA[:, :1]
    alone = density.log_likelihood(theta)
    wanted = density.log_likelihood(theta.clone().requires_grad_(True)).detach()
    np.testing.assert_allclose(alone, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("low", [-40.0, -5000.0, 5000.0])
@pytest.mark.parametrize("impossible", [0.0, 0.2, 1.0])
def test_one_factor_changed_is_what_a_new_elimination_gives(low: float, impossible: float) -> None:
    generator = torch.Generator().manual_seed(7)
    levels = [Level(torch.tensor([0, 0, 1, 1, 2, 2, 2]), 3, 3, False)]
    factors = low * torch.rand(4, 6, 7, generator=generator, dtype=torch.float64)
    factors[torch.rand(factors.shape, generator=generator) < impossible] = -torch.inf
    replaced = -3.0 * torch.rand(4, 6, 7, generator=generator, dtype=torch.float64)
    found = changed(levels, factors, replaced)
    for element in range(7):
        other = factors.clone()
        other[..., element] = replaced[..., element]
        expected = eliminate(levels, other).clusters.sum(-1)
        np.testing.assert_allclose(found[:, element], expected, rtol=1e-9)


def test_what_tells_impossible_factors_apart_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(8)
    level = Level(torch.tensor([0, 0, 1, 1, 1]), 2, 2, False)
    factors = -900.0 * torch.rand(3, 8, 5, generator=generator, dtype=torch.float64)
    factors[torch.rand(factors.shape, generator=generator) < 0.3] = -torch.inf
    quick = changed([level], factors, torch.zeros_like(factors))
    monkeypatch.setattr(elimination, "WIDEST", 0.0)
    np.testing.assert_allclose(quick, changed([level], factors, torch.zeros_like(factors)), rtol=1e-12)

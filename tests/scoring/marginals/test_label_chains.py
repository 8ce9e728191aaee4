"""Chains of discrete parameters: against PyMC's logp in every joint state, and NumPy's forward algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import pointwise
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.labels import chain
from synthstats_lightning.scoring.marginals.labels.chain import StepByStep, find_chain
from tests.scoring.marginals import test_labels
from tests.scoring.marginals.test_labels import G, X, compare, graph_of, markov


def absorbing(y: Any) -> None:
    """Animals that are alive at first and never come back; the third chain is one of its own."""
    alive = [pm.Bernoulli("z0", 1.0, shape=2)]
    for k in range(1, 3):
        alive.append(pm.Bernoulli(f"z{k}", alive[-1] * pm.Beta(f"phi{k}", 2, 2), shape=2))
    level = pm.Normal("level", 0, 1)
    pm.Normal(
        "y",
        level * pt.stack(alive)[np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])],
        1,
        observed=y,
    )


def switching(y: Any) -> None:
    """A continuous latent of each state, a row that reads two states, and one that reads none."""
    stay = pm.Beta("stay", 2, 2)
    p = stay * np.eye(3) + (1 - stay) / 3
    z = [pm.Categorical("z0", np.ones(3) / 3)]
    for k in range(1, 3):
        z.append(pm.Categorical(f"z{k}", p[z[-1]]))
    effect = [pm.Normal(f"e{k}", 2.0 * z[k], 1.0) for k in range(3)]
    moved = [z[0], z[1] - z[0], z[1], z[2] * z[1], z[2], 0]
    pm.Normal(
        "y",
        pt.stack([e * (G[k] + m) for k, (e, m) in enumerate(zip(effect * 2, moved, strict=True))]),
        1,
        observed=y,
    )


def two_chains(y: Any) -> None:
    """Two chains of two, written in turns, and a label by itself."""
    p = pm.Beta("p", 2, 2, shape=2)
    a, b = pm.Bernoulli("a0", 0.3), pm.Bernoulli("b0", 0.6)
    alone = pm.Bernoulli("alone", 0.2)
    c, d = pm.Bernoulli("a1", p[a]), pm.Bernoulli("b1", p[b])
    pm.Normal("y", pt.stack([a, b, c, d, alone, 2 * d]) * X, 1, observed=y)


CHAINS: dict[str, Callable[[Any], None]] = {
    "a short chain": markov,
    "states that are never left": absorbing,
    "switching effects": switching,
    "two chains": two_chains,
}


@pytest.mark.parametrize("widest", [chain.WIDEST, 0.0])
@pytest.mark.parametrize("name", CHAINS)
def test_chain_is_the_sum_over_all_states(name: str, widest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "WIDEST", widest)
    monkeypatch.setitem(test_labels.CASES, name, (CHAINS[name], True))
    labels = test_labels.density_of(name).compiled.labels
    assert labels is not None
    assert isinstance(labels.plan.elimination, StepByStep)
    compare(name)
    test_labels.test_gradients_are_finite_and_right(name)


# --- longer than any enumeration -------------------------------------------------------------------------

ROWS = 60
RNG = np.random.default_rng(8)
START, MOVES = np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.25, 0.75]])
STATES = [0]
for _ in range(ROWS - 1):
    STATES.append(int(RNG.random() < MOVES[STATES[-1], 1]))
LEVELS = np.array([-1.0, 2.0])
VALUES = np.round(RNG.normal(LEVELS[STATES], 0.8), 2)


def hidden(y: Any) -> None:
    """States named by a loop; the level of the second is above that of the first."""
    gap = pm.HalfNormal("gap", 3)
    z = [pm.Categorical("z_0", p=START)]
    for t in range(1, ROWS):
        z.append(pm.Categorical(f"z_{t}", p=pt.as_tensor(MOVES)[z[-1]]))
    pm.Normal("y", pt.stack([-1.0, -1.0 + gap])[pt.stack(z)], 0.8, observed=y)


def forward(gap: float, y: NDArray[np.float64], given: NDArray[np.bool_]) -> float:
    """Log-likelihood of some rows."""
    rows = stats.norm.logpdf(y[:, None], np.array([-1.0, -1.0 + gap]), 0.8) * given[:, None]
    alpha = np.log(START) + rows[0]
    for row in rows[1:]:
        alpha = logsumexp(alpha[:, None] + np.log(MOVES), axis=0) + row
    return float(logsumexp(alpha))


def long_density() -> Density:
    return build_density(graph_of(hidden, covariates={}, rows=ROWS), {}, VALUES)


def test_long_chain_is_a_forward_algorithm() -> None:
    density = long_density()
    theta = torch.tensor([[0.2], [1.1]], dtype=torch.float64)
    found = density.log_likelihood(theta)
    rows = pointwise(density, theta, found)
    every = np.ones(ROWS, dtype=bool)
    for s, gap in enumerate(np.exp(theta[:, 0].numpy())):
        total = forward(gap, VALUES, every)
        assert found[s].sum() == pytest.approx(total, abs=1e-9)
        for i in (0, 1, 31, ROWS - 1):
            assert rows.others[s, i] == pytest.approx(forward(gap, VALUES, np.arange(ROWS) != i), abs=1e-9)
    given = np.arange(ROWS) % 3 > 0
    some = density.marginals(theta, torch.from_numpy(given))
    assert some.given[1] == pytest.approx(forward(float(theta[1].exp()), VALUES, given), abs=1e-9)


def test_evidence_and_elpd_are_those_of_quadrature() -> None:
    score = score_graph(graph_of(hidden, covariates={}, rows=ROWS), {}, VALUES)
    gaps = np.linspace(1e-3, 8, 4_000)
    weight = stats.halfnorm.logpdf(gaps, scale=3) + np.log(gaps[1] - gaps[0])

    def integral(given: NDArray[np.bool_]) -> float:
        rows = stats.norm.logpdf(VALUES[:, None, None], np.stack([-1 + 0 * gaps, gaps - 1]), 0.8)
        rows = rows * given[:, None, None]
        alpha = np.log(START)[:, None] + rows[0]
        for row in rows[1:]:
            alpha = logsumexp(alpha[:, None] + np.log(MOVES)[..., None], axis=0) + row
        return float(logsumexp(logsumexp(alpha, axis=0) + weight))

    every = np.ones(ROWS, dtype=bool)
    evidence = integral(every)
    elpd = sum(evidence - integral(np.arange(ROWS) != i) for i in range(ROWS))
    assert score.evidence == pytest.approx(evidence, abs=0.03)
    assert score.elpd == pytest.approx(elpd, abs=0.1)


def test_drawn_states_are_those_of_the_posterior() -> None:
    density = long_density()
    gap, count = 3.0, 4_000
    theta = torch.full((count, 1), np.log(gap), dtype=torch.float64)
    every = torch.ones(ROWS, dtype=torch.bool)
    labels = density.compiled.labels
    assert labels is not None
    values, _, _ = density._start(theta)
    for slot, function, inputs in density.compiled.likelihood_steps:
        values[slot] = function(*[values[i] for i in inputs])
    drawn = labels.draw(values, count, every, torch.Generator().manual_seed(1))
    states = np.stack([drawn[site.node].reshape(count).numpy() for site in labels.plan.sites])
    both = (states[30] == 1) & (states[31] == 1)
    rows = stats.norm.logpdf(VALUES[:, None], np.array([-1.0, -1.0 + gap]), 0.8)

    def chance(at: dict[int, int]) -> float:
        """Probability of some states, by a forward algorithm in which no others are possible."""
        only = rows.copy()
        for t, state in at.items():
            only[t, 1 - state] = -np.inf
        alpha = np.log(START) + only[0]
        for row in only[1:]:
            alpha = logsumexp(alpha[:, None] + np.log(MOVES), axis=0) + row
        return float(np.exp(logsumexp(alpha) - forward(gap, VALUES, np.ones(ROWS, dtype=bool))))

    for t in range(0, ROWS, 7):
        assert (states[t] == 1).mean() == pytest.approx(chance({t: 1}), abs=0.04)
    assert both.mean() == pytest.approx(chance({30: 1, 31: 1}), abs=0.04)


def test_states_that_three_read_together_are_no_chain() -> None:
    def second_order(y: Any) -> None:
        p = pm.Beta("p", 2, 2, shape=3)
        z = [pm.Bernoulli("z_0", 0.5), pm.Bernoulli("z_1", 0.5)]
        for t in range(2, ROWS):
            z.append(pm.Bernoulli(f"z_{t}", p[z[-1] + z[-2]]))
        pm.Normal("y", pt.stack(z), 1, observed=y)

    with pytest.raises(ProgramFailure, match="joint states") as raised:
        build_density(graph_of(second_order, covariates={}, rows=ROWS), {}, VALUES)
    assert raised.value.category is FailureCategory.UNSUPPORTED


def test_a_ring_is_no_chain() -> None:
    labels = test_labels.density_of("a short chain").compiled.labels
    assert labels is not None
    assert len(labels.plan.sites) == 4
    ring = np.array([[0, -1, 0], [0, 0, -1], [-1, 0, 0]])
    assert find_chain(labels.plan.sites[:3], ring) is None
    assert find_chain(labels.plan.sites[:3], ring[:, :2]) is not None

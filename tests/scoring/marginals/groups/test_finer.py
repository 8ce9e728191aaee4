"""A rule that its check refuses is tried with more nodes, on a stochastic frontier (Aigner et al. 1977)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.density import equal_groups, equal_rows
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.groups import target as groups_target
from synthstats_lightning.scoring.marginals.groups.closed_form import ConjugateIntegrated
from synthstats_lightning.scoring.marginals.groups.grouping import find_groupings
from synthstats_lightning.scoring.marginals.groups.integrator import by_nodes
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.integration import integrate
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.groups.test_copied import SOME, survey
from tests.scoring.marginals.groups.test_copied import THETA as OF_SURVEY
from tests.scoring.marginals.groups.test_copied import of as of_survey
from tests.scoring.marginals.groups.test_repeated import THETA as OF_EXAM
from tests.scoring.marginals.groups.test_repeated import exam
from tests.scoring.marginals.groups.test_repeated import of as of_exam
from tests.scoring.marginals.test_density import Builder

ROWS = 30
RNG = np.random.default_rng(12)
X = RNG.normal(size=ROWS)
Y = 1.0 + 0.5 * X + 0.2 * RNG.normal(size=ROWS) - np.abs(0.4 * RNG.normal(size=ROWS))


def frontier() -> Density:
    b = Builder()
    level = b.random("Normal", "level", 0.0, 2.0)
    slope = b.random("Normal", "slope", 0.0, 1.0)
    short = b.random("HalfNormal", "short", 0.0, 1.0)
    noise = b.random("HalfNormal", "noise", 0.0, 1.0)
    u = b.random("HalfNormal", "u", 0.0, short, shape=(ROWS,))
    mean = b.op("add", level, b.op("mul", slope, b.covariate("x")))
    b.random("Normal", "y", b.op("sub", mean, u), noise, shape=(ROWS,))
    return b.density({"x": X}, Y)


def exact(theta: torch.Tensor) -> list[float]:
    """The response is skew normal given the others."""
    found = []
    for level, slope, log_short, log_noise in theta.tolist():
        short, noise = np.exp(log_short), np.exp(log_noise)
        whole, off = np.hypot(short, noise), Y - level - slope * X
        found.append(
            float(
                (
                    np.log(2.0)
                    + stats.norm.logpdf(off, 0.0, whole)
                    + stats.norm.logcdf(-off * short / (noise * whole))
                ).sum()
            )
        )
    return found


THETA = torch.tensor(
    [[1.0, 0.5, -0.9, -1.6], [0.9, 0.4, -0.5, -2.0], [0.7, 0.5, -3.0, -1.2]], dtype=torch.float64
)


def frontier_by_nodes() -> GroupIntegrated:
    """As models without a closed form are."""
    density = frontier()
    return by_nodes(density, find_groupings(density.compiled)[0])


def test_a_frontier_has_a_closed_form() -> None:
    target = integrate(frontier())
    assert isinstance(target, ConjugateIntegrated)  # not the exact integral over level and slope, leaving 32
    assert target.dimension == 4
    wanted = torch.tensor(exact(THETA), dtype=torch.float64)
    torch.testing.assert_close(target.marginal_likelihood(THETA), wanted, rtol=0, atol=1e-9)


def test_more_nodes_are_nearer_to_the_closed_form() -> None:
    target = frontier_by_nodes()
    wanted = torch.tensor(exact(THETA), dtype=torch.float64)
    finer = GroupIntegrated(target.density, target.others, target.quadrature.finer(2.0))
    usual, better = ((each.marginal_likelihood(THETA) - wanted).abs() for each in (target, finer))
    assert float(usual.max()) < 0.05
    assert float(better.max()) < min(1e-4, float(usual.max()))


def test_the_finer_rule_is_taken_and_checked_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    target = frontier_by_nodes()
    monkeypatch.setattr(groups_target, "TOLERANCE", 1e-4)
    found = target.checked_at(THETA)
    assert found is not None
    assert found.quadrature.fineness == 2.0
    assert not found.checked
    again = found.checked_at(THETA)
    assert again is not None
    assert again.checked
    assert again.quadrature.fineness == 2.0
    monkeypatch.setattr(groups_target, "TOLERANCE", 0.0)
    assert target.checked_at(THETA) is None


@pytest.mark.long
def test_a_posterior_is_estimated_anew_by_the_finer_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EngineSettings(importance_draws=800)

    def estimated() -> GroupIntegrated:
        generator = torch.Generator().manual_seed(5)
        found = estimate_posterior(frontier_by_nodes(), settings, generator, Deadline(60.0)).target
        assert isinstance(found, GroupIntegrated)
        assert found.checked
        return found

    assert estimated().quadrature.fineness == 1.0
    monkeypatch.setattr(
        GroupIntegrated, "_error", lambda self, _: 1.0 if self.quadrature.fineness < 2 else 0.0
    )
    assert estimated().quadrature.fineness == 2.0


def test_rules_of_copies_are_finer_in_all_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, repeated = (
        GroupIntegrated(each.density, each.others, each.quadrature.finer(2.0))
        for each in (of_survey(survey("Bernoulli")), of_exam(exam()))
    )
    monkeypatch.setattr(equal_rows, "FEWEST_ROWS", len(SOME) + 1)
    monkeypatch.setattr(equal_groups, "FEWEST_GROUPS", 1_000)
    for found, usual, theta in (
        (copied, of_survey(survey("Bernoulli")), OF_SURVEY),
        (repeated, of_exam(exam()), OF_EXAM),
    ):
        assert type(found.quadrature) is not type(usual.quadrature)
        plain = GroupIntegrated(usual.density, usual.others, usual.quadrature.finer(2.0))
        one, other = (each.marginal_likelihood(theta) for each in (found, plain))
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    some, other = (
        each.log_likelihood_given(OF_SURVEY, SOME) for each in (copied, of_survey(survey("Bernoulli")))
    )
    torch.testing.assert_close(some, other, rtol=1e-6, atol=1e-6)


def test_a_search_that_starts_on_a_steep_side_goes_on() -> None:
    """Far above the noise of a row, the logarithm of what it falls short by is convex below its mode."""
    target = frontier_by_nodes()
    middle = torch.tensor([1.07, 0.42, -0.84, -2.9], dtype=torch.float64)
    theta = middle + 0.05 * torch.randn(40, 4, generator=torch.Generator().manual_seed(2)).double()
    found = target.marginal_likelihood(theta)
    torch.testing.assert_close(found, torch.tensor(exact(theta), dtype=torch.float64), rtol=0.0, atol=0.01)

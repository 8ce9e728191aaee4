"""Leave-one-out of many rows: those that are alike once, and refits among influences of single precision."""

from __future__ import annotations

from inspect import unwrap
from types import SimpleNamespace

import pytest
import torch

from synthstats_lightning.scoring.density.target import Marginals, Pointwise
from synthstats_lightning.scoring.estimators.psis import Loo, importance_loo
from synthstats_lightning.scoring.prediction import loo, row_columns
from synthstats_lightning.scoring.prediction.reweighting import ManyRows, own_of
from synthstats_lightning.scoring.settings import EngineSettings

DRAWS, KINDS, ROWS, FIRST = 40, 5, 30, 4
GENERATOR = torch.Generator().manual_seed(0)
KIND = torch.randint(KINDS, (ROWS,), generator=GENERATOR)
TOTAL = torch.randn(DRAWS, generator=GENERATOR, dtype=torch.float64)
CHANGED = TOTAL[:, None] + torch.rand(DRAWS, KINDS, generator=GENERATOR, dtype=torch.float64)[:, KIND]
PARTICLES = SimpleNamespace(theta=torch.zeros(DRAWS, 1))
# some draws after the other, as they are added
PARTS = [Marginals(TOTAL[some], CHANGED[some]) for some in (slice(0, 25), slice(25, None))]


class Coupled:
    """Rows that depend on each other, of which some may be said to be alike."""

    coupled, num_observations, dimension = True, ROWS, 1

    def _unused(self, *arguments: object) -> None:
        raise NotImplementedError

    log_prior = log_likelihood = log_prior_and_likelihood = sample_prior = _unused

    def __init__(self, alike: torch.Tensor | None) -> None:
        self.alike = alike

    def marginals(self, theta: torch.Tensor) -> Marginals:
        return Marginals(TOTAL, CHANGED)


def of(target: Coupled) -> Loo:
    rows = unwrap(row_columns.row_columns)(target, PARTICLES, FIRST, PARTS)
    parts = (importance_loo(-each.own[:, 0], each.own, -each.own) for each in rows)
    return unwrap(row_columns.side_by_side)(parts, target, DRAWS, FIRST)


def test_rows_that_are_alike_are_looked_at_once_and_found_as_all_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_columns, "NUMBERS", ROWS * DRAWS)
    # numbers of kinds need be neither in order nor without gaps
    alike = unwrap(row_columns.alike_rows)(Coupled(7 * (KINDS - KIND)), FIRST)
    assert alike is not None
    assert len(alike.first) == len(KIND[FIRST:].unique())
    assert torch.equal(KIND[FIRST:], KIND[FIRST:][alike.first][alike.kind])
    columns = torch.cat(
        [each.others for each in unwrap(row_columns.row_columns)(Coupled(KIND), PARTICLES, FIRST, PARTS)], 1
    )
    kinds = unwrap(row_columns.alike_rows)(Coupled(KIND), FIRST)
    assert kinds is not None
    torch.testing.assert_close(columns[:, kinds.kind], CHANGED[:, FIRST:])
    found = of(Coupled(KIND))
    assert found.influence.shape == (DRAWS, ROWS - FIRST)
    for kind in range(KINDS):
        mine = found.pointwise[KIND[FIRST:] == kind]
        torch.testing.assert_close(mine, mine[:1].expand_as(mine))
    assert of(Coupled(None)).influence.dtype is found.influence.dtype is torch.float32


def test_refits_among_influences_of_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    influence = torch.ones(DRAWS, ROWS, dtype=torch.float32)
    zeros = torch.zeros(ROWS, dtype=torch.float64)
    whole = Loo(zeros, zeros, influence, zeros)
    one = torch.ones(1, dtype=torch.float64)
    folds = SimpleNamespace(
        density=-one, influence=torch.full((DRAWS, 1), 0.5, dtype=torch.float64), variance=one, bias=0 * one
    )
    monkeypatch.setattr(loo, "exact_loo", lambda *_: folds)
    target = SimpleNamespace(num_observations=10_000)
    particles = SimpleNamespace(theta=torch.zeros(DRAWS, 1), distinct=DRAWS)
    found = unwrap(loo._with_refits)(
        target, particles, None, whole, torch.tensor([3]), EngineSettings(), None, None, 0
    )
    assert found.refitted == 1
    assert found.loo.pointwise[3] == -1.0
    assert found.mcse**2 == pytest.approx(1.0 + DRAWS * (ROWS - 0.5) ** 2)


def test_rows_given_the_others_are_picked_from_what_is_known() -> None:
    some = torch.tensor([5, 1])
    whole = TOTAL[:, None] - CHANGED
    found = own_of(ManyRows(tuple(PARTS)), some)
    assert found is not None
    torch.testing.assert_close(found, whole[:, some])
    assert torch.equal(found, own_of(Pointwise(whole, CHANGED), some))
    assert own_of(None, some) is None

"""Scores of the whole model where those of a block's weighted draws fail."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.programs.failure import OUT_OF_TIME, FailureCategory, ProgramFailure
from synthstats_lightning.scoring.estimators.ladder import Posterior, estimate_posterior
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.prediction.diagnostics import Scored, score_elpd
from synthstats_lightning.scoring.prediction.nearby_folds import nearby_folds
from synthstats_lightning.scoring.prediction.whole_model import WithWholeModel
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.laplace.test_target import of, walk

SETTINGS = EngineSettings()


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    generator = torch.Generator().manual_seed(0)
    return estimate_posterior(of(walk()), SETTINGS, generator, Deadline(60.0))


def test_the_whole_model_has_the_same_elpd(posterior: Posterior) -> None:
    asked: list[type] = []

    def elpd(by: Posterior) -> Scored:
        asked.append(type(by.target))
        if not isinstance(by.target, Density):
            raise ProgramFailure(FailureCategory.SCORER_LIMIT, "a row cannot be left out")
        return score_elpd(by, 0, SETTINGS, torch.Generator().manual_seed(1), Deadline(60.0))

    generator = torch.Generator().manual_seed(0)
    predicting = WithWholeModel(posterior, SETTINGS, generator, Deadline(60.0))
    found = predicting.score(elpd)
    ours = score_elpd(posterior, 0, SETTINGS, torch.Generator().manual_seed(1), Deadline(60.0))
    assert found.value == pytest.approx(ours.value, abs=4 * (found.diagnostics.mcse + ours.diagnostics.mcse))
    predicting.score(elpd)
    assert [issubclass(each, Density) for each in asked] == [False, True, True]


@pytest.mark.parametrize(
    ("category", "message"),
    [(FailureCategory.NON_FINITE, "no density"), (FailureCategory.SCORER_LIMIT, f"{OUT_OF_TIME} of 10 s")],
)
def test_other_failures_stay(posterior: Posterior, category: FailureCategory, message: str) -> None:
    def fails(by: Posterior) -> Scored:
        raise ProgramFailure(category, message)

    predicting = WithWholeModel(posterior, SETTINGS, torch.Generator(), Deadline(60.0))
    with pytest.raises(ProgramFailure, match=message):
        predicting.score(fails)
    assert predicting.posterior is posterior


def test_an_evidence_that_differs_is_not_trusted(posterior: Posterior) -> None:
    wrong = posterior._replace(particles=posterior.particles._replace(log_evidence=-3.0))

    def fails(by: Posterior) -> Scored:
        raise ProgramFailure(FailureCategory.SCORER_LIMIT, "a row cannot be left out")

    predicting = WithWholeModel(wrong, SETTINGS, torch.Generator().manual_seed(0), Deadline(60.0))
    with pytest.raises(ProgramFailure, match="a row cannot be left out"):
        predicting.score(fails)


def test_impossible_draws_of_a_fold_do_not_count(posterior: Posterior, monkeypatch) -> None:
    """Where neither all rows nor the others have a density, the row's is none either, and no NaN."""
    target = posterior.target
    plain = type(target).log_likelihood_given

    def half(self, theta, given):
        return torch.where(theta[:, 0] > -1.0, plain(self, theta, given), -torch.inf)

    monkeypatch.setattr(type(target), "log_likelihood_given", half)
    generator = torch.Generator().manual_seed(0)
    rows = torch.tensor([2])
    assert posterior.search is not None
    (found,) = nearby_folds(
        target, posterior.particles, posterior.search, rows, SETTINGS, generator, Deadline(60.0)
    )
    assert found is not None
    assert (found.log_density == -torch.inf).any()
    assert not found.log_density.isnan().any()

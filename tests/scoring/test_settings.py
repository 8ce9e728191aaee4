from __future__ import annotations

import time

import pytest
import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.many_rows import pieces
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import Deadline, EngineSettings


@pytest.mark.parametrize(
    "settings",
    [
        {"starts": 1},
        {"islands": 1},
        {"importance_draws": 50},
        {"prior_fraction": 1.0},
        {"min_ess_fraction": 0.0},
        {"adaptation_rounds": -1},
        {"time_limit": float("nan")},
    ],
)
def test_impossible_settings_are_errors(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        EngineSettings(**settings)


def test_settings_are_hashable():
    assert hash(EngineSettings()) == hash(EngineSettings())


def test_deadline_names_the_stage():
    Deadline(5.0).check("annealing")
    with pytest.raises(ProgramFailure, match="annealing") as caught:
        Deadline(0.0).check("annealing")
    assert caught.value.category is FailureCategory.SCORER_LIMIT


def test_work_is_counted_for_good_and_the_clock_has_twice_the_time(monkeypatch):
    deadline = Deadline(5.0)
    deadline.spend(4.9, "annealing")
    with pytest.raises(
        ProgramFailure, match="annealing needs more work than the time limit of 5 s"
    ) as counted:
        deadline.spend(0.2, "annealing")
    began = time.thread_time()
    clocked = Deadline(5.0)
    monkeypatch.setattr(time, "thread_time", lambda: began + 9.0)
    clocked.check("leave-one-out")
    monkeypatch.setattr(time, "thread_time", lambda: began + 11.0)
    with pytest.raises(ProgramFailure, match="time limit of 5 s reached 2 times over during leave") as timed:
        clocked.check("leave-one-out")
    failures = [Score.failed(found.value.category, found.value.message) for found in (counted, timed)]
    assert [failure.settled for failure in failures] == [True, False]


def test_one_long_evaluation_ends_in_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: clock[0])
    theta = torch.arange(6.0)[:, None]
    assert torch.equal(torch.cat(list(pieces(theta, 4))), theta)
    assert [part.tolist() for part in pieces(torch.arange(3), 2)] == [[0, 1], [2]]
    deadline = Deadline(1.0)
    with deadline.running():
        parts = pieces(theta, 0)
        next(parts)
        clock[0] = 1.9
        next(parts)
        clock[0] = 2.1
        with pytest.raises(ProgramFailure, match="reached 2 times over during the evaluation of densities"):
            next(parts)
    # nothing runs any more
    assert len(list(pieces(theta, 0))) == 6

"""A transformed response is scored as the measured one, whatever the transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.pool.program_worker import task_message
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.process.worker import ScoringService
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings, LastScore
from synthstats_lightning.tasks import Task, task_prompt
from synthstats_lightning.tasks.response_transform import transform_into_reach
from tests.support.warm import warm_sandbox

RNG = np.random.default_rng(3)
DATA = {"x": RNG.normal(size=20), "y": np.exp(RNG.normal(0.4, 0.6, 20))}
NORMAL = 'with pm.Model() as model:\n    pm.Normal("y", {mu}, {sigma}, observed=y)\n'
LOG_NORMAL = 'with pm.Model() as model:\n    pm.LogNormal("y", {mu}, {sigma}, observed=y)\n'
ESTIMATED = (
    'with pm.Model() as model:\n    a = pm.Normal("a", 0, 2)\n    b = pm.Normal("b", 0, 1)\n'
    '    s = pm.HalfNormal("s", 1)\n    pm.{family}("y", a + b * x, s, observed=y)\n'
)


@pytest.fixture(scope="module")
def sandbox():
    return warm_sandbox()


def scored(
    sandbox: Sandbox, source: str, transform: str | None, last: LastScore | None = None, **more: Any
) -> Score:
    task = Task("t", "", DATA, "y", response_transform=transform, **more)
    message = task_message(task)
    service = ScoringService(EngineSettings(last_score=last))
    service.answer({"kind": "task", "task": message.to_json()})
    graph = sandbox.build(source, task.schema, task.covariates)
    request = {"kind": "score", "fingerprint": message.fingerprint, "graph": graph, "details": {}}
    return Score.from_dict(service.answer(request)["value"])


@pytest.mark.parametrize("parts", [{}, {"shown_rows": 3, "held_out": 4}, {"held_out": 2}])
def test_a_normal_of_the_log_is_a_log_normal(sandbox: Sandbox, parts: dict[str, int]) -> None:
    on_log = scored(sandbox, NORMAL.format(mu=0.3, sigma=0.7), "log", **parts)
    measured = scored(sandbox, LOG_NORMAL.format(mu=0.3, sigma=0.7), None, **parts)
    for name in ("evidence", "elpd", "elpd_se", "heldout_lpd", "heldout_lpd_se"):
        assert getattr(on_log, name) == pytest.approx(getattr(measured, name), abs=1e-9), name
    for name, diagnostics in measured.diagnostics.items():
        np.testing.assert_allclose(on_log.diagnostics[name].pointwise, diagnostics.pointwise, atol=1e-9)


@pytest.mark.parametrize("last", ["evidence", "elpd"])
def test_scores_that_are_not_computed_take_no_jacobian_from_those_that_are(
    sandbox: Sandbox, last: LastScore
) -> None:
    """As in a run, whose engine computes no more than its reward counts."""
    on_log = scored(sandbox, NORMAL.format(mu=0.3, sigma=0.7), "log", last)
    measured = scored(sandbox, LOG_NORMAL.format(mu=0.3, sigma=0.7), None, last)
    assert on_log.evidence == pytest.approx(measured.evidence, abs=1e-9)
    assert (on_log.elpd is None) == (last == "evidence")
    assert on_log.elpd == (None if measured.elpd is None else pytest.approx(measured.elpd, abs=1e-9))
    assert on_log.heldout_lpd is None


def test_estimated_scores_agree_within_their_errors(sandbox: Sandbox) -> None:
    on_log = scored(sandbox, ESTIMATED.format(family="Normal"), "log")
    measured = scored(sandbox, ESTIMATED.format(family="LogNormal"), None)
    assert on_log.evidence == pytest.approx(measured.evidence, abs=0.05)
    error = np.hypot(on_log.diagnostics["elpd"].mcse, measured.diagnostics["elpd"].mcse)
    assert error < 0.15
    assert on_log.elpd == pytest.approx(measured.elpd, abs=4 * error)
    assert on_log.elpd_se == pytest.approx(measured.elpd_se, abs=0.1)


def test_a_standardised_response(sandbox: Sandbox) -> None:
    task = Task("t", "", DATA, "y", response_transform="standardised")
    low, high = DATA["y"].min(), DATA["y"].max()
    centre, scale = (low + high) / 2, (high - low) / 4
    np.testing.assert_allclose(task.data["y"], (DATA["y"] - centre) / scale)
    assert task.columns["y"].low == pytest.approx(-2)
    assert task.columns["y"].high == pytest.approx(2)
    assert task_prompt(task).request.endswith("response y: continuous, -2 to 2 standardised")
    there = scored(sandbox, NORMAL.format(mu=0.2, sigma=0.9), "standardised")
    here = scored(sandbox, NORMAL.format(mu=centre + 0.2 * scale, sigma=0.9 * scale), None)
    assert there.evidence == pytest.approx(here.evidence, abs=1e-9)
    assert there.heldout_lpd == pytest.approx(here.heldout_lpd, abs=1e-9)
    np.testing.assert_allclose(task.transform.inverse(task.data["y"]), DATA["y"])


@pytest.mark.parametrize("size", [1.0, 3e6, 2e-9])
def test_a_scaled_response(sandbox: Sandbox, size: float) -> None:
    """Densities by hand, and the same evidence in whatever units the response was measured."""
    y = size * DATA["y"]
    task = Task("t", "", {**DATA, "y": y}, "y", response_transform="scaled")
    seen = task.data["y"]
    assert 10 <= seen.max() < 100
    np.testing.assert_allclose(task.transform.inverse(seen), y, rtol=1e-14)
    ratio = y / seen
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert np.log10(ratio[0]) == pytest.approx(round(np.log10(ratio[0])), abs=1e-12)
    message = task_message(task)
    service = ScoringService(EngineSettings())
    service.answer({"kind": "task", "task": message.to_json()})
    source = LOG_NORMAL.format(mu=2.9, sigma=0.8)
    graph = sandbox.build(source, task.schema, task.covariates)
    request = {"kind": "score", "fingerprint": message.fingerprint, "graph": graph, "details": {}}
    score = Score.from_dict(service.answer(request)["value"])
    by_hand = stats.lognorm.logpdf(y, 0.8, scale=np.exp(2.9) * ratio[0])
    assert score.evidence == pytest.approx(by_hand.sum(), abs=1e-8)
    np.testing.assert_allclose(score.diagnostics["elpd"].pointwise, by_hand, atol=1e-8)


@pytest.mark.parametrize(
    ("ends", "transform"),
    [
        ((0.0, 50.0), None),
        ((-3.0, 29_000.0), None),
        ((25_000.0, 190_000.0), "scaled"),
        ((-4e6, 10.0), "scaled"),
        ((0.0, 3e-9), "scaled"),
        ((101_320.0, 101_330.0), "standardised"),
        ((0.0, 0.0), None),
    ],
)
def test_what_brings_a_response_into_reach(ends: tuple[float, float], transform: str | None) -> None:
    assert transform_into_reach(*ends) == transform


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"response_transform": "sqrt"},
            "response_transform must be one of log, standardised, scaled, got 'sqrt'",
        ),
        ({"response_transform": "log", "rounding": 0.5}, "no constant width on the log scale"),
        ({"response_transform": "log", "response_kind": "count"}, "is for a continuous response"),
        ({"response_transform": "log", "data": {"y": np.array([0.0, 1.0, 2.5])}}, "values above 0, got 0"),
    ],
)
def test_wrong_transforms_are_refused(settings: dict[str, Any], message: str) -> None:
    data = {"y": np.array([1.0, 2.0, 5.0])}
    with pytest.raises(ValueError, match=message):
        Task(**{"name": "t", "description": "", "data": data, "response": "y", **settings})


def test_rounding_and_limits_are_on_the_scale_of_the_programs() -> None:
    data = {"y": np.array([1.0, 1.5, 4.0, 5.0])}
    task = Task("t", "", data, "y", rounding=0.5, limits={"upper": 5.0}, response_transform="standardised")
    assert task.rounding == pytest.approx(0.5)
    assert task.limits == {"upper": pytest.approx(2.0)}
    logged = Task("t", "", data, "y", limits={"upper": 5.0}, response_transform="log")
    assert logged.limits["upper"] == pytest.approx(np.log(5.0))
    assert len({task.fingerprint, logged.fingerprint, Task("t", "", data, "y").fingerprint}) == 3

"""Whether a block is found never changes a score: models written so that it is, and so that it is not.

The other spelling passes a block's parameters through `maximum(z, min(z) - 1)`, which is `z` and which no
detection sees through: it is no affine map, and each element depends on all.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthstats_lightning.programs import parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task
from tests.support.warm import warm_sandbox

ROWS, GROUPS = 24, 6
SETTINGS = EngineSettings(last_score="elpd", time_limit=60.0)

STRUCTURES = {
    "effects": ('z = pm.Normal("z", 0, 1, shape=6)', "a + s * {z}[g]"),
    "centred": ('z = pm.Normal("z", a, s, shape=6)', "{z}[g]"),
    "slopes": ('z = pm.Normal("z", 0, 1, shape=6)', "a + 0.5 * s * {z}[g] * x"),
    "walk": (
        'z = pm.GaussianRandomWalk("z", sigma=s, init_dist=pm.Normal.dist(0, 1), shape=6)',
        "a + {z}[g]",
    ),
    "autoregression": (
        'z = pm.AR("z", rho=[0.7], sigma=s, init_dist=pm.Normal.dist(0, 1), shape=6)',
        "a + {z}[g]",
    ),
    "weights": ('z = pm.Normal("z", 0, 0.5, shape=6)', "a + s * pt.dot(basis, {z})"),
    "process": (
        'z = pm.MvNormal("z", mu=np.zeros(6), cov=s**2 * kernel, shape=6)',
        "a + {z}[g]",
    ),
}
"""Of a linear predictor `eta`: the block's prior, and `eta` with the block as `{z}`."""

RESPONSES = {
    "normal": 'pm.Normal("obs", eta, t, observed=y)',
    "normal_known": 'pm.Normal("obs", eta, 0.7, observed=y)',
    "lognormal": 'pm.LogNormal("obs", eta, t, observed=y)',
    "student": 'pm.StudentT("obs", nu=5, mu=eta, sigma=t, observed=y)',
    "poisson": 'pm.Poisson("obs", pm.math.exp(eta), observed=y)',
    "bernoulli": 'pm.Bernoulli("obs", logit_p=eta, observed=y)',
    "binomial": 'pm.Binomial("obs", n=8, logit_p=eta, observed=y)',
}
NO_BLOCK = {("slopes", "poisson")}
"""Where no block is taken, so that there is nothing to compare."""
CASES = [(s, r) for s in STRUCTURES for r in RESPONSES if (s, r) not in NO_BLOCK]


def columns(response: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    g, x = np.repeat(np.arange(GROUPS), ROWS // GROUPS), random.normal(size=ROWS)
    eta = 0.4 + 0.6 * random.normal(size=GROUPS)[g] + 0.3 * x
    drawn = {
        "poisson": random.poisson(np.exp(eta)),
        "bernoulli": random.binomial(1, 1 / (1 + np.exp(-eta))),
        "binomial": random.binomial(8, 1 / (1 + np.exp(-eta))),
    }
    y = drawn.get(response, eta + 0.7 * random.normal(size=ROWS))
    if response == "lognormal":
        y = np.exp(y)
    return {"g": g, "x": x, "y": y}


def source(structure: str, response: str, hidden: bool) -> str:
    prior, eta = STRUCTURES[structure]
    z = "pt.maximum(z, pt.min(z) - 1.0)" if hidden else "z"
    lines = [
        "import numpy as np",
        "basis = np.cos(np.outer(x, np.arange(1, 7)))",
        "kernel = np.exp(-0.5 * np.subtract.outer(np.arange(6), np.arange(6)) ** 2) + 0.1 * np.eye(6)",
        "with pm.Model() as model:",
        # no member of a block in either spelling
        '    a = pm.Logistic("a", 0, 0.5)',
        '    s = pm.HalfNormal("s", 1)',
        *(
            ['    t = pm.HalfNormal("t", 1)']
            if ", t," in RESPONSES[response] or "=t" in RESPONSES[response]
            else []
        ),
        f"    {prior}",
        f"    eta = {eta.format(z=z)}",
        f"    {RESPONSES[response]}",
    ]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return warm_sandbox()


def scored(sandbox: Sandbox, structure: str, response: str, hidden: bool) -> Score:
    data = columns(response)
    task = Task("both_ways", "A data set.", data, "y")
    program = source(structure, response, hidden)
    graph = parse_graph(sandbox.build(program, task.schema, task.covariates), task.schema)
    return score_graph(graph, task.covariates, data["y"], settings=SETTINGS)


def agree(sandbox: Sandbox, structure: str, response: str) -> None:
    found, whole = (scored(sandbox, structure, response, hidden) for hidden in (False, True))
    assert found.scored, found.message
    assert whole.scored, whole.message
    assert found.integrated is not None
    assert whole.integrated is None
    joint = math.hypot(found.evidence_se, whole.evidence_se)
    assert found.evidence == pytest.approx(whole.evidence, abs=4 * joint + 0.01)
    joint = math.hypot(*(each.diagnostics["elpd"].mcse for each in (found, whole)))
    assert found.elpd == pytest.approx(whole.elpd, abs=4 * joint + 0.02)


def test_scores_are_the_same_with_and_without_detection(sandbox: Sandbox) -> None:
    agree(sandbox, "effects", "normal_known")


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "response"), CASES)
def test_all_scores_are_the_same_with_and_without_detection(
    structure: str, response: str, sandbox: Sandbox
) -> None:
    agree(sandbox, structure, response)


def test_a_rule_that_is_not_good_enough_is_left_for_another(sandbox):
    """Effects whose scales share one of theirs: cubature of three dimensions fails its check here."""
    y = np.array([3.89, 5.40, -2.59, -2.56, 0.51, 0.02, 0.45, 1.06, 1.85, -0.15, -0.81, -1.41, 0.27, -0.16])
    y = np.concatenate([y, [1.60, -1.29, -0.51, -0.89, 0.19, -0.19]])
    task = Task("horseshoe", "A data set.", {"g": np.repeat(np.arange(10), 2), "y": y}, "y")
    program = "\n    ".join(
        [
            "with pm.Model() as model:",
            'tau = pm.HalfCauchy("tau", 1)',
            'lam = pm.HalfCauchy("lam", 1, shape=10)',
            'z = pm.Normal("z", 0, 1, shape=10)',
            'pm.Normal("obs", (z * lam * tau)[g], 1, observed=y)',
        ]
    )
    graph = parse_graph(sandbox.build(program, task.schema, task.covariates), task.schema)
    score = score_graph(graph, task.covariates, y)
    # both kinds of scales by Gauss and Legendre: a half Cauchy is the tangent of a uniform angle
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angle, weight = (nodes + 1) * math.pi / 4, weights / 2
    total, squares = y.reshape(10, 2).sum(1), (y.reshape(10, 2) ** 2).sum(1)
    spread = (np.tan(angle)[:, None] * np.tan(angle)) ** 2  # of tau, of lambda
    inner = np.zeros(400)
    for each, square in zip(total, squares, strict=True):
        exponent = -0.5 * (square - spread * each**2 / (1 + 2 * spread))
        inner += np.log((np.exp(exponent) / np.sqrt(1 + 2 * spread) / (2 * math.pi)) @ weight)
    exact = math.log(np.exp(inner) @ weight)
    assert score.scored
    assert abs(score.evidence - exact) < max(0.1, 4 * score.diagnostics["evidence"].mcse)

"""Spikes of fixed width at values that a program knows, and honest programs that are as sharp."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.programs import DataSchema, parse_graph
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.sandbox.inside import program
from synthstats_lightning.sandbox.protocol import Job
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.resolution import SHARE_OF_GAP, widths
from synthstats_lightning.scoring.score import Score

# PyMC's, of a mixture whose components have different supports
pytestmark = pytest.mark.filterwarnings("ignore:No safe default transform")
Y = np.random.default_rng(0).normal(0.5, 1.0, 24)
TIED = np.where(np.isin(np.arange(24), (3, 9, 14)), 0.0, Y)
ROWS = np.arange(24)
MIXTURE = "pm.Mixture('y', w=[.1, .9], comp_dists=[{}, pm.Normal.dist(.5, 1)], observed=y)"


def scored(text: str, response: np.ndarray, **options: float) -> Score:
    schema = DataSchema({"row": "int64"}, "y", "float64", 24)
    lines = ["import pymc as pm", "with pm.Model() as model:", *(f"    {line}" for line in text.split("\n"))]
    document = program.run(
        Job("\n".join(lines), build=True, schema=schema, covariates={"row": ROWS}), 1 << 20
    )
    return score_graph(parse_graph(document, schema), {"row": ROWS}, response, **options)


@pytest.mark.parametrize(
    ("text", "response"),
    [
        (MIXTURE.format("pm.Normal.dist(0, 1e-9)"), TIED),
        (MIXTURE.format("pm.Normal.dist(0, 1e-50)"), TIED),
        (MIXTURE.format("pm.Uniform.dist(-1e-80, 1e-80)"), TIED),
        (MIXTURE.format(f"pm.Normal.dist({float(Y[4])!r}, 1e-50)"), Y),
        ("s = pm.math.switch(pm.math.eq(row, 3), 1e-90, 1.0)\npm.Normal('y', 0, s, observed=y)", TIED),
        (
            "w = pm.Beta('w', 1, 1)\n"
            + MIXTURE.format("pm.Normal.dist(0, 1e-9)").replace("[.1, .9]", "[w, 1 - w]"),
            TIED,
        ),
    ],
)
def test_spikes_at_known_values_are_refused(text: str, response: np.ndarray) -> None:
    score = scored(text, response)
    assert score.failure is FailureCategory.UNBOUNDED
    assert "set `rounding`" in str(score.message)


@pytest.mark.parametrize(
    ("text", "response"),
    [
        (MIXTURE.format("pm.Normal.dist(0, 0.1)"), TIED),
        ("m = pm.Normal('m', 0.5, 1, shape=24)\npm.Normal('y', m, 1e-9, observed=y)", Y),
        ("m = pm.Normal('m', 0.5, 1, shape=24)\npm.Normal('y', m, 1e-9, observed=y)", TIED),
        ("w = pm.Beta('w', 1, 1)\npm.HurdleLogNormal('y', psi=w, mu=0, sigma=1, observed=y)", np.abs(TIED)),
        ("pm.LogNormal('y', mu=0, sigma=30, observed=y)", np.exp(30 * Y)),
    ],
)
def test_honest_programs_are_scored(text: str, response: np.ndarray) -> None:
    assert scored(text, response).failure is None


def test_widths_are_those_of_doubles_and_shares_of_gaps() -> None:
    values = np.array([0.0, 2.0, 2.0, 2.5, -1e-20, 1e6])
    expected = [np.spacing(1e-20), 0.5 * SHARE_OF_GAP, 0.5 * SHARE_OF_GAP, np.spacing(2.5), np.spacing(1e-20)]
    np.testing.assert_allclose(widths(values), [*expected, np.spacing(1e6)])
    assert not widths(np.zeros(3)).any()

"""The stress test: its exact answers against SciPy's own integration, and a run on few cases."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from tests.support.benchmark_modules import benchmark_module

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def stress():
    return benchmark_module("scoring_stress")


def test_grid_against_adaptive_quadrature(stress):
    y = stress.CASES["conflict_cauchy_prior"].data["y"]

    def evidence(rows):
        def density(mu):
            return math.exp(norm.logpdf(rows, mu, 1).sum()) / (math.pi * (1 + mu**2))

        return math.log(quad(density, -40, 60, points=[0.0, 12.0], epsabs=0, epsrel=1e-10, limit=400)[0])

    total = evidence(y)
    elpd = sum(total - evidence(np.delete(y, row)) for row in range(len(y)))
    found = stress.CASES["conflict_cauchy_prior"].reference()
    assert found.evidence == pytest.approx(total, abs=1e-6)
    assert found.elpd == pytest.approx(elpd, abs=1e-6)
    assert found.error < 1e-3


def test_gaussian_rows_against_the_normal_without_each(stress):
    reference = benchmark_module("stress_parts.reference")
    random = np.random.default_rng(0)
    x, y = random.normal(size=(5, 3)), random.normal(size=5)
    log_density, log_row = reference.gaussian(y, [x @ x.T, np.eye(5)], np.array([[2.0, 0.7], [1.0, 0.1]]))
    covariance = 2.0 * x @ x.T + 0.7 * np.eye(5)
    whole = multivariate_normal.logpdf(y, np.zeros(5), covariance)
    assert log_density[0] == pytest.approx(whole)
    for row in range(5):
        kept = np.arange(5) != row
        others = multivariate_normal.logpdf(y[kept], np.zeros(4), covariance[np.ix_(kept, kept)])
        assert log_row[0, row] == pytest.approx(whole - others)
    # persons with a rank-one covariance are a special case
    log_person, each = reference.rank_one(y[None], x[:, :1].T, np.array([0.6]))
    special = reference.gaussian(y, [x[:, :1] @ x[:, :1].T, np.eye(5)], np.array([[1.0, 0.36]]))
    assert log_person[0] == pytest.approx(special[0])
    assert each[0] == pytest.approx(special[1])


ONCE_WRONG = (
    "ridge_square_large",  # annealing's islands shared one bias
    "collinear_12",
    "product_sharp",  # a banana in two quadrants
    "squares_10",  # 1024 modes
    "cauchy_groups_10",
    "coin_all_ones",  # half of the prior's mass beyond double precision
)


def test_cases_through_the_sandbox(stress, tmp_path, monkeypatch, capsys):
    path = tmp_path / "stress.json"
    cases = ("donut", "sparse_classes", "tied_pairs", *ONCE_WRONG)
    arguments = ["--cases", ",".join(cases), "--processes", "1", "--json", str(path)]
    monkeypatch.setattr(sys, "argv", ["scoring_stress.py", *arguments])
    assert stress.main() == 0
    found = json.loads(path.read_text())
    assert found["accepted"] == found["cases"] == len(cases)
    assert found["confidently_wrong"] == 0
    assert found["worst_error_nats"] < 0.3
    assert max(found["worst_z_evidence"], found["worst_z_elpd"]) < 4.0
    assert {row["case"] for row in found["rows"]} == set(cases)
    assert "tied_pairs" in capsys.readouterr().out


def test_wrong_score_is_called_so(stress):
    wrong = stress.compared(-29.0, 0.1, -30.0, 0.0)
    exact = stress.compared(-29.0, 0.0, -29.0, 0.0)
    row = {"status": "scored", "evidence": wrong, "elpd": exact}
    figures = stress.summarise([row, {"status": "scorer_limit"}])
    assert figures["confidently_wrong"] == 1
    assert (figures["cases"], figures["accepted"]) == (2, 1)
    assert figures["worst_z_evidence"] == figures["rms_z_evidence"] == pytest.approx(10.0)
    assert figures["worst_z_elpd"] == figures["rms_z_elpd"] == 0.0

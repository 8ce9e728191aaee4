"""The reference engine agrees with closed forms, refuses what it cannot vouch for, and is confined."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from synthstats_lightning.pool.reference.client import score_with_reference
from synthstats_lightning.pool.reference.settings import ReferenceSettings
from synthstats_lightning.pool.reference.worker import with_views
from synthstats_lightning.pool.scorer import score_program
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.programs.graph import View
from synthstats_lightning.sandbox.inside.namespace import module_for
from synthstats_lightning.tasks import Task
from tests.scoring.test_engine import COVARIATES, ROWS, SIGMA, Y, exact_loo, log_marginal

LINE = f"""
with pm.Model() as model:
    a = pm.Normal("a", 0, 2)
    b = pm.Normal("b", 0, 2)
    pm.Normal("obs", a + b * x, {SIGMA}, observed=y)
    trace = pm.sample(1000)
print(trace.posterior.mean())
"""
COLUMNS = {**COVARIATES, "y": Y}
SHORT = ReferenceSettings(draws=500, tune=300, chains=2, smc_draws=500)


@pytest.mark.slow
def test_nutpie_gives_elpd_and_no_evidence():
    score = score_with_reference(LINE, COLUMNS, "y", "nutpie", settings=SHORT)
    assert score.scored, score.message
    assert score.elpd == pytest.approx(exact_loo().sum(), abs=0.2)
    np.testing.assert_allclose(score.diagnostics["elpd"].pointwise, exact_loo(), atol=0.1)
    assert score.evidence is None
    assert score.estimator == "nuts-nutpie"
    assert score.num_parameters == 2
    assert 0 < score.diagnostics["elpd"].mcse < 0.2


@pytest.mark.slow
def test_pymc_gives_evidence_too():
    score = score_with_reference(LINE, COLUMNS, "y", "pymc", settings=SHORT)
    assert score.elpd == pytest.approx(exact_loo().sum(), abs=0.2)
    assert score.evidence == pytest.approx(log_marginal(np.arange(ROWS)), abs=1.0)
    assert score.diagnostics["evidence"].mcse == score.evidence_se


ESCAPE = """
import os
open(os.path.join(os.path.expanduser("~"), "trace_of_a_program"), "w")
"""


@pytest.mark.parametrize(
    ("source", "category", "said"),
    [
        ("pm.Potential('p', 0.0 * a)", FailureCategory.BAD_GRAPH, "Potential"),
        ("pm.Normal('second', 0, 1, observed=y)", FailureCategory.BAD_GRAPH, "observes 2"),
        (ESCAPE, FailureCategory.RAISED, "PermissionError"),
    ],
)
@pytest.mark.slow
def test_what_it_cannot_vouch_for_is_refused(source, category, said):
    body = "".join(f"    {line}\n" for line in source.strip().splitlines())
    program = LINE.replace("    trace = pm.sample(1000)\n", body).replace("print(trace.posterior.mean())", "")
    score = score_with_reference(program, COLUMNS, "y", "nutpie", settings=SHORT)
    assert score.failure is category
    assert said in score.message


def test_another_response_is_refused():
    program = LINE.replace("observed=y", "observed=y + 1")
    score = score_with_reference(program, COLUMNS, "y", "nutpie", settings=SHORT)
    assert score.failure is FailureCategory.BAD_GRAPH
    assert "does not observe the response" in score.message


def test_discrete_parameters_are_for_the_other_sampler():
    program = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n" + LINE.replace(
        "b = pm.Normal", "k = pm.Bernoulli('k', 0.5)\n    b = k + pm.Normal"
    )
    score = score_with_reference(program, COLUMNS, "y", "nutpie", settings=SHORT)
    assert score.failure is FailureCategory.UNSUPPORTED
    assert "(k): the reference engine pymc does" in score.message


def test_a_process_past_its_limit_is_ended():
    settings = ReferenceSettings(time_limit=0.2)
    score = score_with_reference(LINE, COLUMNS, "y", "nutpie", settings=settings)
    assert score.failure is FailureCategory.SCORER_LIMIT


def test_wrong_arguments_say_what_is_allowed():
    with pytest.raises(ValueError, match="columns: x, y"):
        score_with_reference(LINE, COLUMNS, "z", "nutpie")
    task = Task("line", "A line.", COLUMNS, "y", shown_rows=2)
    with pytest.raises(ValueError, match="shows 2"):
        score_program(LINE, task, reference="nutpie")


@pytest.mark.parametrize("wrong", [{"chains": 1}, {"draws": 0}, {"target_accept": 1.0}, {"max_r_hat": 1.0}])
def test_settings_are_checked(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ReferenceSettings(**wrong)


@pytest.mark.slow
def test_the_command_line_takes_a_reference(tmp_path, capsys):
    from synthstats_lightning.cli.main import main

    program = tmp_path / "program.py"
    program.write_text(
        "with pm.Model() as model:\n"
        "    a = pm.Normal('a', 2, 1)\n"
        "    s = pm.HalfNormal('s', 1)\n"
        "    pm.Normal('obs', a, s, observed=length)\n"
    )
    score = main(["score", str(program), "--task", "dugongs", "--reference", "nutpie"])
    assert score.estimator == "nuts-nutpie"
    assert "nuts-nutpie" in capsys.readouterr().out


def test_programs_have_names_and_views_as_in_the_sandbox():
    columns = {"g_code": np.array([0, 1, 0, 1]), "x": np.array([1.0, 2.0, 4.0, 5.0]), "y": np.arange(4.0)}
    views = {
        "g": View("g_code", levels=("a", "b")),
        "who": View("", constant=0.0, step=1, levels=("Ann", "Bob", "Cy", "Di")),
        "x_z": View("x", centre=3.0, scale=2.0),
    }
    found = with_views(columns, views={name: asdict(view) for name, view in views.items()})
    assert found["g"].tolist() == ["a", "b", "a", "b"]
    assert found["who"].unique().tolist() == ["Ann", "Bob", "Cy", "Di"]
    np.testing.assert_array_equal(found["x_z"], [-1.0, -0.5, 0.5, 1.0])
    program = (
        "assert data.groupby('g').x.mean()['b'] == 3.5 and x_z.min() == -1\n"
        "with pm.Model(coords={'who': who}) as model:\n"
        "    b = pm.Normal('b', 0, 1, shape=g.nunique())\n"
        "    pm.Normal('o', b[g_code] * x, 1, observed=y, dims='who')"
    )
    # not by `build_model`, after which nothing is drawn in its process
    module = module_for(found, 4)
    exec(program, module.__dict__)
    model = module.model
    np.testing.assert_array_equal(model.rvs_to_values[model["o"]].data, np.arange(4.0))

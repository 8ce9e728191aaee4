"""`score --audit`, for a program and for a run's best ones."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest

from synthstats_lightning.cli import audit, score
from synthstats_lightning.cli.audit import Audited, best_programs, exit_code
from synthstats_lightning.cli.main import main
from synthstats_lightning.pool.audit import few_rows
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.auditing.audit import Audit
from synthstats_lightning.tasks import Dugongs, Task
from tests.support.warm import warm_pool, warm_sandbox

LINE = """
with pm.Model() as model:
    a = pm.Normal("a", 2, 1)
    s = pm.HalfNormal("s", 0.5)
    pm.Normal("length", a, s, observed=length)
"""
WHOLE = """
lengths = np.array([1.80, 1.85, 1.87, 1.77] + [0.0] * 23)
with pm.Model() as model:
    a = pm.Normal("a", 2, 1)
    pm.Normal("length", a + 0.1 * lengths, 0.5, observed=length)
"""
POINT = """
with pm.Model() as model:
    pm.Gumbel("length", mu=1e6, beta=1e-300, observed=length)
"""
EXACT_POINT = """
with pm.Model() as model:
    pm.Normal("length", 2.0, 1e-300, observed=length)
"""
HOPEFUL_PRIOR = """
with pm.Model() as model:
    x = pm.SkewStudentT("x", a=1.5e19, b=1.5e19, mu=2.3, sigma=0.3)
    mu = pm.Normal("mu", 2.0, 1.0, shape=len(age))
    pm.Normal("length", mu + 0.0 * x, 1e-9, observed=length)
"""
BROKEN = "with pm.Model() as model:\n    pm.Flat('a')\n"


def record(source, evidence, canonical, task="dugongs", status="scored"):
    return json.dumps(
        {
            "task": task,
            "source": source,
            "status": status,
            "evidence": evidence,
            "canonical": canonical,
            "summary": canonical,
        }
    )


@pytest.fixture
def warm(monkeypatch):
    """What the command scores and audits with is what other tests have started."""
    monkeypatch.setattr(score, "score_program", lambda source, task, **_: warm_pool().score(source, task))
    monkeypatch.setattr(audit, "Sandbox", lambda limits, level: nullcontext(warm_sandbox()))


@pytest.fixture
def programs(tmp_path):
    path = tmp_path / "programs.jsonl"
    lines = [
        record(BROKEN, None, None, status="unsupported"),
        record(LINE, -1.0, "line"),
        record(LINE + "# again", -1.0, "line"),
        record(WHOLE, -9.0, "whole"),
        record(LINE, 99.0, "elsewhere", task="other"),
        record(LINE, -99.0, "worst"),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_best_programs_are_distinct_models_of_the_task(programs):
    found = best_programs(programs, Dugongs(), 2)
    assert [(label, evidence) for _, label, evidence in found] == [("line", -1.0), ("whole", -9.0)]
    assert len(best_programs(programs, Dugongs(), 10)) == 3
    with pytest.raises(ValueError, match="holds no scored program of task 'x'"):
        best_programs(programs, Task("x", "", {"y": np.array([1.0, 2.0])}, "y"), 1)
    programs.write_text("{}\n")
    with pytest.raises(ValueError, match="line 1 is no record of a program"):
        best_programs(programs, Dugongs(), 1)


def test_few_rows_differ():
    data = {"g": np.array([0, 0, 0, 1]), "x": np.array([1.0, 1.0, 2.0, 1.0]), "y": np.arange(4.0)}
    schema, covariates = few_rows(Task("t", "", data, "y"), 2)
    assert schema.num_rows == 2
    assert {name: values.tolist() for name, values in covariates.items()} == {"g": [0, 0], "x": [1, 2]}
    assert [values.tolist() for values in few_rows(Task("t", "", data, "y"), 4)[1].values()] == [
        data["g"].tolist(),
        data["x"].tolist(),
    ]


def test_audits_a_run(warm, programs, tmp_path, capsys):
    path = tmp_path / "audit.json"
    arguments = ["--programs", str(programs), "--task", "dugongs", "--audit", "--top", "2"]
    audited = main(["score", *arguments, "--audit_data_sets", "32", "--json", str(path)])
    assert [entry.verdict for entry in audited] == ["honest", "honest"]
    written = json.loads(path.read_text())
    assert written["task"] == "dugongs"
    line, whole = written["audits"]
    assert (line["rows"], line["graph_rows"]) == (2, 2)
    # a vector as long as the data: audited on the first rows of the whole task
    assert (whole["rows"], whole["graph_rows"]) == (2, 27)
    assert line["lower"] <= 1.0 <= line["upper"]
    shown = capsys.readouterr().out
    assert "2 of 27" in shown
    assert "honest" in shown


@pytest.mark.long
def test_scores_and_audits_one_program(warm, tmp_path, capsys):
    source, path = tmp_path / "program.py", tmp_path / "score.json"
    source.write_text(WHOLE)
    arguments = ["score", str(source), "--task", "dugongs", "--audit", "--audit_data_sets", "16"]
    files = ["--card", str(tmp_path / "cards" / "model.md"), "--dot", str(tmp_path / "model.dot")]
    found = main([*arguments, "--audit_rows", "1", "--json", str(path), *files])
    assert found.literal_copies == 4
    assert "copied literals" in capsys.readouterr().out
    written = json.loads(path.read_text())
    assert written["audit"]["verdict"] == "honest"
    assert written["literal_copies"] == 4
    card = (tmp_path / "cards" / "model.md").read_text()
    assert card.startswith("# Model of length\n\n    length ~ Normal(v0 + ")
    assert f"| log evidence | {found.evidence:.3f} ± " in card
    assert found.canonical in card
    assert 'label="length\\n~\\nNormal" shape=ellipse style=filled' in (tmp_path / "model.dot").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    "source",
    [
        POINT,
        pytest.param(EXACT_POINT, marks=pytest.mark.slow),
        pytest.param(HOPEFUL_PRIOR, marks=pytest.mark.slow),
    ],
)
def test_mass_beyond_double_precision_is_never_honest(source, tmp_path, capsys):
    """A total that overflows, or a prior that claims what it has not: found or refused."""
    program, path = tmp_path / "program.py", tmp_path / "score.json"
    program.write_text(source)
    arguments = ["--task", "dugongs", "--audit", "--audit_data_sets", "8", "--json", str(path)]
    with pytest.raises(SystemExit) as ended:
        main(["score", str(program), *arguments])
    assert ended.value.code == 1
    found = json.loads(path.read_text())["audit"]
    assert found["verdict"] in ("dishonest", "no audit")
    assert f"{found['verdict']}: " in capsys.readouterr().out


def test_undecided_has_a_code_of_its_own():
    known = {"level": 0.999, "method": "importance", "rows": 2, "graph_rows": 2, "data_sets": 8}
    found = {"total_mass": 1.0, "lower": 0.9, "upper": 1.1, "largest_evidence": 0.0, **known}
    honest = Audited("a", None, Audit(**found))
    undecided = Audited("b", None, Audit(**{**found, "upper": 3.6e22}))
    dishonest = Audited("c", None, Audit(**{**found, "lower": 1.05}))
    refused = Audited("d", None, ProgramFailure(FailureCategory.UNSUPPORTED, "no"))
    assert exit_code([honest]) == exit_code([]) == 0
    assert exit_code([honest, undecided]) == 3
    assert exit_code([undecided, dishonest]) == exit_code([refused]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either one program or --programs"),
        (["p.py", "--programs", "x.jsonl"], "give either one program or --programs"),
        (["--programs", "x.jsonl"], "--programs needs --audit"),
        (["--programs", "x.jsonl", "--audit"], "no programs at x.jsonl"),
        (["p.py", "--audit", "--audit_rows", "0"], "audit_rows must be at least 1, got 0"),
        (["p.py", "--audit", "--audit_data_sets", "2"], "audit_data_sets must be at least 8, got 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["score", "--task", "dugongs", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err

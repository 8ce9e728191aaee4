"""A distribution in two edits, as CONTRIBUTING.md shows them: an entry of the table, a class in a family.

No univariate distribution of PyMC with a closed form is left to add, so that one is taken out of a copy of
the package and put back by the two edits of the recipe.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import synthstats_lightning
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "CONTRIBUTING.md"
NAME = "Moyal"
ENTRY, DEFINITION = (
    text.split("\n", 1)[1]
    for text in blocks(PAGE, "python")
    if f'"{NAME}"' in text or f"class {NAME}" in text
)
PROGRAM = f"""
import pymc as pm
with pm.Model() as model:
    a = pm.Normal("a", 0.0, 1.0)
    b = pm.{NAME}("b", a, 0.5)
    pm.{NAME}("y", mu=a + b * x, sigma=0.7, observed=data["y"])
"""
X, Y = np.linspace(-1.0, 1.0, 6), np.array([0.3, 1.9, 0.2, 4.0, 2.2, -0.4])
SCORE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
import synthstats_lightning
from synthstats_lightning.programs import DataSchema, parse_graph
from synthstats_lightning.sandbox.inside import program
from synthstats_lightning.sandbox.protocol import Job
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import build_density

source, x, y, theta = json.load(sys.stdin)
x, y = {"x": np.array(x)}, np.array(y)
schema = DataSchema({"x": "float64"}, "y", "float64", len(y))
document = program.run(Job(source, build=True, schema=schema, covariates=x), 1 << 20)
graph = parse_graph(document, schema)
density = build_density(graph, x, y)
prior, rows = density.log_prior_and_likelihood(torch.tensor([theta], dtype=torch.float64))
score = score_graph(graph, x, y)
print(json.dumps({
    "package": synthstats_lightning.__file__,
    "names": [parameter.name for parameter in density.parameters],
    "log_prior": prior.tolist(),
    "rows": rows[0].tolist(),
    "evidence": [score.evidence, score.evidence_se],
}))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, without the parts that scoring a program does not need."""
    source = Path(synthstats_lightning.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "policy", "pretraining", "callbacks", "reports", "cli")
    return Path(shutil.copytree(source, tmp_path / source.name, ignore=ignored))


def remove(path: Path, found: type[ast.AST]) -> None:
    """Takes the entry, or the class, out of a file."""
    lines = path.read_text().splitlines(keepends=True)
    for node in ast.walk(ast.parse("".join(lines))):
        named = node.name if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            named = node.args[0].value
        if isinstance(node, found) and named == NAME:
            del lines[node.lineno - 1 : node.end_lineno]
            path.write_text("".join(lines))
            return
    raise AssertionError(f"{path.name} has no {NAME}")


def score(package: Path, theta: list[float]) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, "-c", SCORE],
        input=json.dumps([PROGRAM, X.tolist(), Y.tolist(), theta]),
        capture_output=True,
        text=True,
        check=False,
        cwd=package.parent,
        env={**os.environ, "PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return dict(json.loads(result.stdout))


def log_densities(a: Any, b: Any) -> tuple[Any, Any]:
    """SciPy's log prior and log-likelihood of every row."""
    prior = stats.norm.logpdf(a, 0.0, 1.0) + stats.moyal.logpdf(b, a, 0.5)
    return prior, stats.moyal.logpdf(Y, (a + b * X.reshape(-1, *(1,) * np.ndim(a))).T, 0.7).T


@pytest.mark.long
def test_two_edits_add_a_distribution(package: Path) -> None:
    table = package / "programs" / "distributions.py"
    family = package / "scoring" / "distributions" / "skewed.py"
    remove(table, ast.Call)
    remove(family, ast.ClassDef)
    rest = [path for path in package.rglob("*.py") if NAME in path.read_text()]
    assert rest == []  # nothing else knows the distribution

    table.write_text(table.read_text().replace("_ENTRIES = (\n", "_ENTRIES = (\n" + ENTRY))
    family.write_text(family.read_text() + "\n\n" + DEFINITION)

    found = score(package, [0.4, -0.3])
    assert Path(found["package"]).parent == package
    assert found["names"] == ["a", "b"]
    prior, rows = log_densities(0.4, -0.3)
    np.testing.assert_allclose(found["log_prior"], prior, rtol=1e-12)
    np.testing.assert_allclose(found["rows"], rows, rtol=1e-12)

    a, b = np.meshgrid(np.linspace(-4.0, 6.0, 500), np.linspace(-4.0, 12.0, 800), indexing="ij")
    prior, rows = log_densities(a.ravel(), b.ravel())
    joint = np.exp(prior + rows.sum(0))
    evidence, error = found["evidence"]
    assert evidence == pytest.approx(
        np.log(joint.sum() * (10.0 / 499) * (16.0 / 799)), abs=0.01 + 4.0 * error
    )

"""Likelihoods by the rows that differ against the plain evaluation of every row."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density import equal_rows
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 120
RNG = np.random.default_rng(5)
DATA = {
    "group": RNG.integers(0, 6, ROWS),
    "urban": RNG.integers(0, 2, ROWS),
    "dose": RNG.choice([0.5, 1.0, 4.0], ROWS),
}
X = RNG.normal(size=ROWS)
YES = RNG.integers(0, 2, ROWS)
LEVEL = 3 * YES
SCHEMA = DataSchema(
    {"group": "int64", "urban": "int64", "dose": "float64", "x": "float64"}, "y", "int64", ROWS
)
RATED = "pm.OrderedLogistic('obs', eta=e, cutpoints=np.array([-1.0, 0.0, 1.0]), observed=y)"
COUNTED = "pm.Bernoulli('obs', logit_p=e, observed=y)"
PREDICTORS = {
    "columns": "a + b * urban + c[0] * pm.math.log(dose)",
    "standardised": "a + b * (dose - dose.mean()) / dose.std()",
    "by group": "a + c[group] * urban",
    "slopes of groups": "a + pm.math.stack([c, 2 * c], axis=1)[group, 0] + w.T[group, 1] * dose",
    "a matrix": "pm.math.dot(np.column_stack([urban, dose, group == 2]), c[:3])",
    "of a matrix": "pm.math.dot(w[:, :2].T, w)[1][group] + pm.math.dot(c[:2], np.stack([dose, urban]))",
    "stacked": "pm.math.stack([a * urban, b * dose]).sum(axis=0)",
    "turned": "(a * np.stack([urban, dose], axis=1) + c[:2]).T[1]",
    "another shape": "(a * dose[:, None] + b * urban[:, None]).reshape((-1,)) + c[group]",
    "chosen": "pm.math.switch(dose > b, a, c[1]) + pm.math.maximum(a * urban, b)",
    "in order": "pt.cumsum(a * np.stack([urban, dose], axis=1) + b, axis=1)[:, 1]",
}
MIXED = {
    "a latent of each row": "a + z",
    "summed along rows": "pt.cumsum(a * dose)",
    "a neighbour": "a * pm.math.concatenate([dose[1:] * b, [0.0]])",
    "turned around": "(a * dose)[::-1]",
    "a sum over rows": "a * dose + (b * dose).sum()",
    "different in x": "a * x",
}
PROGRAM = """
import pytensor.tensor as pt
with pm.Model() as model:
    a = pm.Normal("a", 0.0, 1.0)
    b = pm.HalfNormal("b", 1.0)
    c = pm.Normal("c", a, b, shape=6)
    w = pm.Normal("w", 0.0, 1.0, shape=(2, 6))
    {latent}
    e = {predictor}
    unused = pm.Deterministic("unused", pm.math.sum(e * dose))
    {response}
"""


def built(
    predictor: str, response: str = COUNTED, latent: str = "pass"
) -> tuple[Density, np.ndarray, torch.Tensor]:
    """The density, its response, and draws from the prior."""
    y = LEVEL if response == RATED else YES
    data = DATA | {"x": X}
    program = PROGRAM.format(predictor=predictor, response=response, latent=latent)
    _, document = model_and_graph(program, SCHEMA, data)
    density = build_density(canonicalise(parse_graph(json.dumps(document), SCHEMA)), data, y)
    theta = density.sample_prior(5, torch.Generator().manual_seed(0))
    return density, y, theta


@pytest.mark.parametrize("response", [COUNTED, RATED], ids=["counted", "rated"])
@pytest.mark.parametrize("name", PREDICTORS)
def test_rows_have_their_own_densities(name: str, response: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And their gradients, whatever is between the columns and the response."""
    density, _, theta = built(PREDICTORS[name], response)
    assert density.different is not None
    assert density.different.number < 0.6 * ROWS
    forms = [c.response_term.distribution.name for c in (density.compiled, density.different.compiled)]
    assert forms[0] == forms[1] in ("BernoulliLogit", "CumulativeLogit")
    monkeypatch.setattr(equal_rows, "FEWEST_ROWS", ROWS + 1)
    plain, _, _ = built(PREDICTORS[name], response)
    assert plain.different is None
    found, wanted = (d.log_prior_and_likelihood(theta) for d in (density, plain))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    slopes = []
    for each in (density, plain):
        leaf = theta.clone().requires_grad_(True)
        each.log_likelihood(leaf).square().sum().backward()
        slopes.append(leaf.grad)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_mix_or_differ_are_all_evaluated(name: str) -> None:
    density, _, theta = built(MIXED[name], latent=f"z = pm.Normal('z', 0, 1, shape={ROWS})")
    assert density.different is None
    assert density.log_likelihood(theta).shape == (5, ROWS)


def test_which_rows_are_equal() -> None:
    """Those of the same columns and response, no more and no fewer."""
    density, y, _ = built(PREDICTORS["columns"])
    assert density.different is not None
    rows = list(zip(DATA["urban"].tolist(), DATA["dose"].tolist(), y.tolist(), strict=True))
    assert density.different.number == len(set(rows))
    label = density.different.row.tolist()
    assert len(set(zip(label, rows, strict=True))) == len(set(rows))
    some = torch.arange(ROWS) % 3 == 0
    copies = density.different.copies(some)
    assert copies.sum() == some.sum()
    assert copies[label[0]] == sum(rows[i] == rows[0] for i in range(0, ROWS, 3))


@pytest.mark.parametrize("levels", [(-0.5, 0.5), (0.0, 1.0), (-1.0, 1.0), (0.0, 2.0**-30)])
def test_contrasts_are_told_apart(levels):
    # numbers that differ in a bit or two
    table = np.array(np.meshgrid(*[levels] * 8)).reshape(8, -1).T
    rows = table[np.random.default_rng(0).permutation(np.repeat(np.arange(256), 3))]
    found = equal_rows.different([rows])
    assert found is not None
    assert len(found[0]) == 256
    np.testing.assert_array_equal(rows[found[0]][found[1]], rows)

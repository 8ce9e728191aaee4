"""Ratings from 1 on, observed less 1 as people write it, against those from 0 on and PyMC."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch

from synthstats_lightning.programs import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside import unneeded
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 12
DATA = {"x": np.random.default_rng(5).normal(size=ROWS)}
RATING = np.resize([1, 2, 3, 4], ROWS)
SCHEMA = DataSchema({"x": "float64"}, "y", "int64", ROWS)
PROGRAMS = {
    "CumulativeLogit": """
with pm.Model() as model:
    cut = pm.Normal("cut", [-1.0, 0.0, 1.0], 0.1, shape=3)
    b = pm.Normal("b", 0, 1)
    pm.OrderedLogistic("obs", eta=b * x, cutpoints=cut, observed=RATING)
""",
    "CumulativeProbit": """
with pm.Model() as model:
    cut = pm.Normal("cut", [-1.0, 0.0, 1.0], 0.1, shape=3)
    b = pm.Normal("b", 0, 1)
    pm.OrderedProbit("obs", eta=b * x, cutpoints=cut, sigma=1.5, observed=RATING)
""",
    "CategoricalLogit": """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=4)
    b = pm.Normal("b", 0, 1, shape=4)
    pm.Categorical("obs", logit_p=a + b * x[:, None], observed=RATING)
""",
    "Categorical": """
with pm.Model() as model:
    p = pm.Dirichlet("p", np.ones(4))
    pm.Categorical("obs", p, observed=RATING)
""",
}


def built(source: str, response: np.ndarray) -> Density:
    _, document = model_and_graph(source, SCHEMA, DATA)
    return build_density(parse_graph(json.dumps(document), SCHEMA), DATA, response)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("spelled", ["y - 1", "y.astype(int) - 1", "-1 + y"])
def test_ratings_less_one_are_the_ratings_from_zero(
    name: str, spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as workers of the sandbox spell an ordered probit
    monkeypatch.setattr(pm.OrderedProbit, "compute_p", pm.OrderedProbit.compute_p)
    unneeded._difference_probits()
    from_one = built(PROGRAMS[name].replace("RATING", spelled), RATING)
    from_zero = built(PROGRAMS[name].replace("RATING", "y"), RATING - 1)
    assert from_one.compiled.response_term.distribution.name.startswith(name)
    theta = torch.randn(9, from_one.dimension, generator=torch.Generator().manual_seed(1)).double()
    found, wanted = from_one.log_likelihood(theta), from_zero.log_likelihood(theta)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    draws = from_one.sample_response(theta.repeat(200, 1), torch.Generator().manual_seed(2))
    assert sorted(set(draws.flatten().tolist())) == [1.0, 2.0, 3.0, 4.0]

    scope: dict[str, Any] = {"pm": pm, "np": np, "y": RATING, **DATA}
    exec(PROGRAMS[name].replace("RATING", spelled), scope)
    model = scope["model"]
    logp = model.compile_logp(vars=model.observed_RVs)
    own = from_one.constrain(theta[:1])
    point = {}
    for free in model.free_RVs:
        transform, there = model.rvs_to_transforms[free], own[free.name][0].numpy()
        point[model.rvs_to_values[free].name] = (
            there if transform is None else transform.forward(there).eval()
        )
    assert float(found[0].sum()) == pytest.approx(float(logp(point)), abs=1e-9)


def test_a_rating_below_the_first_has_no_probability() -> None:
    low = np.where(np.arange(ROWS) == 3, 0, RATING)
    density = built(PROGRAMS["Categorical"].replace("RATING", "y - 1"), low)
    found = density.log_likelihood(torch.zeros(1, density.dimension, dtype=torch.float64))[0]
    assert found[3] == -np.inf
    assert found[[0, 1, 2, 4]].isfinite().all()


@pytest.mark.parametrize("spelled", ["y + 1", "y - 0.5", "y - 101", "y * 2"])
def test_what_counts_no_categories_is_refused(spelled: str) -> None:
    with pytest.raises(ProgramFailure) as caught:
        built(PROGRAMS["Categorical"].replace("RATING", spelled), RATING)
    assert caught.value.category == FailureCategory.UNSUPPORTED

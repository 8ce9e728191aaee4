"""Canonical forms of models with vectors and matrices: the same density, read and written without loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from synthstats_lightning.programs.canonical import canonical_form, canonicalise, structure_hash
from synthstats_lightning.programs.rendering.render import MAX_LENGTH, summarise
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.support.benchmark_modules import benchmark_module

MODULES = ("parity_cases_vectors", "parity_cases_multivariate")


def _models() -> list[Any]:
    tables = [benchmark_module(f"scoring_parts.{name}").CASES for name in MODULES]
    return [
        pytest.param(case, id=f"{name}-{number}")
        for table in tables
        for name, cases in table.items()
        for number, case in enumerate(cases)
    ]


@pytest.fixture(scope="module")
def reference() -> Any:
    return benchmark_module("scoring_parts.parity_reference")


def _at(density: Density, value: float) -> tuple[float, torch.Tensor]:
    """Log-prior and log-likelihood where all coordinates are equal, so that their order does not matter."""
    theta = torch.full((1, density.dimension), value, dtype=torch.float64)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    return float(log_prior), log_likelihood[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", _models())
def test_canonical_form_keeps_the_model(case: Any, reference: Any) -> None:
    schema = reference.schema_of(case)
    graph = parse_graph(reference.graph_document(case), schema)
    canonical = canonicalise(graph)
    again = parse_graph(canonical.to_json(), schema)
    assert canonical_form(again) == canonical_form(graph)
    assert structure_hash(again) == structure_hash(graph)
    density = build_density(graph, reference.COVARIATES, case.response)
    other = build_density(canonical, reference.COVARIATES, case.response)
    for value in (0.3, -0.2):
        prior, rows = _at(density, value)
        other_prior, other_rows = _at(other, value)
        assert other_prior == pytest.approx(prior, abs=1e-9)
        torch.testing.assert_close(other_rows, rows)
    line = summarise(graph)
    assert line.isprintable()
    assert len(line) <= MAX_LENGTH


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", _models())
def test_prior_draws_and_replicates_are_possible(case: Any, reference: Any) -> None:
    graph = parse_graph(reference.graph_document(case), reference.schema_of(case))
    density = build_density(graph, reference.COVARIATES, case.response)
    draws = density.sample_prior(40, torch.Generator().manual_seed(0))
    assert bool(density.log_prior(draws).isfinite().all())
    replicates = density.sample_response(draws, torch.Generator().manual_seed(1))
    again = build_density(graph, reference.COVARIATES, replicates[7].numpy())
    assert bool(again.log_likelihood(draws[7:8]).isfinite().all())

"""Every distribution against PyMC's compiled logp and its gradient, in float64.

The models are those of `benchmarks/scoring_parity.py`. One for each distribution runs by default; the others,
and those for which PyMC compiles loops, are slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.support.benchmark_modules import BENCHMARKS, benchmark_module

LOOPS = frozenset({"HurdlePoisson", "HurdleNegativeBinomial", "Censored", "Truncated"})
"""Distributions whose derivatives PyMC takes by loops, which compile for many seconds."""
VECTORS = frozenset({"MvNormal", "GaussianRandomWalk", "AR", "LKJCholeskyCov"})
"""Distributions whose first case is a response and whose second a latent, or that are packed in two ways."""


@pytest.fixture(scope="module")
def parity() -> tuple[Any, Any]:
    """The benchmark's modules: how models are recorded, and how records are compared."""
    return benchmark_module("scoring_parts.parity_reference"), benchmark_module("scoring_parity")


def _cases() -> list[Any]:
    modules = [
        benchmark_module(f"scoring_parts.{path.stem}")
        for path in sorted(BENCHMARKS.glob("scoring_parts/parity_cases*.py"))
    ]
    return [
        pytest.param(
            case,
            id=f"{name}-{number}",
            marks=[pytest.mark.slow] if number >= (2 if name in VECTORS else 1) or name in LOOPS else [],
        )
        for module in modules
        for name, cases in module.CASES.items()
        for number, case in enumerate(cases)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", _cases())
def test_equals_pymc(parity: Any, case: Any) -> None:
    reference, benchmark = parity
    errors = benchmark.check(reference.record(case), reference.COVARIATES)
    assert not isinstance(errors, str), errors
    assert max(errors) < 1e-8


def test_comparison_can_fail(parity: Any) -> None:
    """A record that is off by 1e-6 in one row, or in one slope, or NaN, is seen."""
    reference, benchmark = parity
    case = benchmark_module("scoring_parts.parity_cases").CASES["Moyal"][0]
    record = reference.record(case)
    assert max(benchmark.check(record, reference.COVARIATES)) < 1e-12
    for key, changed in (("rows", 1e-6), ("gradient", 1e-6), ("rows", np.nan)):
        altered = {**record, "points": [dict(point) for point in record["points"]]}
        values = [np.array(x) for x in altered["points"][1][key]]
        values[0] = values[0] + changed * 10
        altered["points"][1][key] = [x.tolist() for x in values]
        assert max(benchmark.check(altered, reference.COVARIATES)) > 1e-7


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "Truncated" else [])
        for name in ("Mixture", "NormalMixture", "Truncated", "HurdleGamma", "VonMises", "Wald")
    ],
)
def test_prior_draws_and_responses_are_possible(parity: Any, name: str) -> None:
    """Draws lie where the density is finite, and each model can replicate its response."""
    reference, _ = parity
    from synthstats_lightning.programs.validation import parse_graph
    from synthstats_lightning.scoring.marginals.density import build_density

    modules = [benchmark_module(f"scoring_parts.parity_cases{end}") for end in ("", "_composites")]
    for case in next(module.CASES[name] for module in modules if name in module.CASES):
        graph = parse_graph(reference.graph_document(case), reference.schema_of(case))
        density = build_density(graph, reference.COVARIATES, case.response)
        draws = density.sample_prior(60, torch.Generator().manual_seed(0))
        assert bool(torch.isfinite(density.log_prior(draws)).all())
        replicates = density.sample_response(draws, torch.Generator().manual_seed(1))
        again = build_density(graph, reference.COVARIATES, replicates[7].numpy())
        assert bool(torch.isfinite(again.log_likelihood(draws[7:8])).all())

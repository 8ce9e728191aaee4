"""Covariance matrices by their different entries against PyMC's own density and the plain evaluation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.density import pairs
from synthstats_lightning.scoring.marginals import compilation
from synthstats_lightning.scoring.marginals.density import Density, build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 11
RNG = np.random.default_rng(3)
DATA = {"x": np.sort(RNG.uniform(0, 3, ROWS)), "day": np.arange(float(ROWS)), "z": RNG.normal(size=ROWS)}
Y = RNG.normal(size=ROWS)
SCHEMA = DataSchema(dict.fromkeys(DATA, "float64"), "y", "float64", ROWS)
PROGRAM = """
with pm.Model() as model:
    l = pm.LogNormal("l", 0.0, 0.5)
    m = pm.LogNormal("m", 0.0, 0.5, shape=2)
    eta = pm.HalfNormal("eta", 1)
    noise = pm.LogNormal("noise", -1.0, 0.5)
    gp = pm.gp.Marginal(cov_func={kernel})
    gp.marginal_likelihood("obs", X={X}, y=y, sigma=noise)
"""
KERNELS = {
    "smooth": ("eta**2 * pm.gp.cov.ExpQuad(1, ls=l)", "x[:, None]"),
    "matern": ("eta**2 * pm.gp.cov.Matern32(1, ls=l) + pm.gp.cov.Constant(0.5)", "day[:, None]"),
    "rational": ("pm.gp.cov.RatQuad(1, alpha=eta, ls=l)", "x[:, None]"),
    "periodic": (
        "eta**2 * pm.gp.cov.Periodic(1, 3.0, ls=l) * pm.gp.cov.Matern52(1, ls=m[0])"
        " + pm.gp.cov.ExpQuad(1, ls=m[1])",
        "day[:, None]",
    ),
    "each column": ("eta**2 * pm.gp.cov.ExpQuad(2, ls=m)", "np.column_stack([x, z])"),
    "one scale": ("eta**2 * pm.gp.cov.Exponential(2, ls=l)", "np.column_stack([day, z])"),
    "not stationary": (
        "eta**2 * pm.gp.cov.Linear(1, c=l) + pm.gp.cov.ExpQuad(1, ls=m[0])",
        "x[:, None]",
    ),
    "a period to learn": ("eta**2 * pm.gp.cov.Periodic(1, l, ls=m[0])", "day[:, None]"),
}


def built(name: str) -> tuple[Any, ModelGraph, Density]:
    kernel, inputs = KERNELS[name]
    model, document = model_and_graph(PROGRAM.format(kernel=kernel, X=inputs), SCHEMA, DATA)
    graph = canonicalise(parse_graph(json.dumps(document), SCHEMA))
    return model, graph, build_density(graph, DATA, Y)


@pytest.mark.parametrize("name", KERNELS)
def test_the_density_is_that_of_every_entry(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, graph, density = built(name)
    theta = torch.randn(7, density.dimension, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theta.requires_grad_(True)
    found = density.log_likelihood(theta)
    (slope,) = torch.autograd.grad(found.sum(), theta)
    monkeypatch.setattr(compilation, "find_pairs", lambda *_: None)
    monkeypatch.setattr(compilation, "with_known_distances", lambda graph, constants: graph)
    monkeypatch.setattr(compilation, "with_known_diagonals", lambda graph, constants: graph)
    plain = build_density(graph, DATA, Y).log_likelihood(theta)
    (wanted,) = torch.autograd.grad(plain.sum(), theta)
    torch.testing.assert_close(found, plain, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(slope, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"not stationary"}))
def test_entries_are_as_many_as_differ(name: str) -> None:
    _, graph, _ = built(name)
    found: list[pairs.Pairs | None] = []

    def recorded(*arguments: Any) -> pairs.Pairs | None:
        found.append(pairs.find_pairs(*arguments))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "find_pairs", recorded)
        build_density(graph, DATA, Y)
    (pair,) = found
    assert pair is not None
    assert len(pair.entry) == ROWS**2
    different = ROWS if KERNELS[name][1] == "day[:, None]" else ROWS * (ROWS - 1) // 2 + 1
    most = 2 * ROWS - 1 if "period" in name else different  # the sine has a sign until it is squared
    assert different <= int(pair.entry.max()) + 1 <= most
    assert len(pair.roots) == 1


@pytest.mark.long
@pytest.mark.parametrize("name", KERNELS)
def test_the_density_is_pymcs(name: str) -> None:
    kernel, inputs = KERNELS[name]
    source = PROGRAM.format(kernel=kernel, X=inputs)
    _, document = model_and_graph(source, SCHEMA, DATA)
    density = build_density(parse_graph(json.dumps(document), SCHEMA), DATA, Y)
    theta = torch.randn(3, density.dimension, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_prior, rows = density.log_prior_and_likelihood(theta)
    scope: dict[str, Any] = {"pm": pm, "np": np, "y": Y, **DATA}
    exec(source, scope)
    model = scope["model"]
    logp = model.compile_logp()
    for particle, total in zip(theta, log_prior + rows.sum(1), strict=True):
        values = {p.name: particle[p.start : p.stop].numpy().reshape(p.shape) for p in density.parameters}
        point = {model.rvs_to_values[free].name: values[free.name] for free in model.free_RVs}
        assert float(total) == pytest.approx(float(logp(point)), abs=1e-6)


def test_entries_far_smaller_than_others_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, inputs = KERNELS["smooth"]
    far = {**DATA, "x": np.append(np.arange(ROWS - 1.0) / 4, 1e9)}
    _, document = model_and_graph(PROGRAM.format(kernel=kernel, X=inputs), SCHEMA, far)
    graph = canonicalise(parse_graph(json.dumps(document), SCHEMA))
    found = build_density(graph, far, Y)
    theta = torch.zeros(1, found.dimension, dtype=torch.float64)
    monkeypatch.setattr(compilation, "find_pairs", lambda *_: None)
    plain = build_density(graph, far, Y)
    torch.testing.assert_close(found.log_likelihood(theta), plain.log_likelihood(theta))


def test_a_named_matrix_is_there_as_a_whole() -> None:
    source = """
with pm.Model() as model:
    l = pm.LogNormal("l", 0.0, 0.5)
    apart = np.square(day[:, None] - day[None, :])
    near = pm.Deterministic("near", pm.math.exp(-0.5 * apart / l**2))
    cov = pm.Deterministic("cov", 2.0 * near + 0.5 * near**2)
    pm.MvNormal("obs", mu=np.zeros(11), cov=cov + 0.1 * np.eye(11), observed=y)
"""
    _, document = model_and_graph(source, SCHEMA, DATA)
    density = build_density(parse_graph(json.dumps(document), SCHEMA), DATA, Y)
    theta = torch.zeros(1, 1, dtype=torch.float64)
    near = np.exp(-0.5 * np.square(DATA["day"][:, None] - DATA["day"]))
    found = density.deterministics(theta)
    np.testing.assert_allclose(found["near"][0], near, rtol=1e-12)
    np.testing.assert_allclose(found["cov"][0], 2.0 * near + 0.5 * near**2, rtol=1e-12)


def test_a_broken_scale_has_density_zero_and_no_nan() -> None:
    *_, density = built("each column")
    theta = torch.full((1, density.dimension), -800.0, dtype=torch.float64)
    found = density.log_likelihood(theta)
    assert not found.isnan().any()

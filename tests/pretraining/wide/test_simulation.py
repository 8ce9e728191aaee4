"""Draws of the interpreter are those of PyMC, and what is accepted goes by response and request alone."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats

from synthstats_lightning.pretraining.wide import (
    WEIGHTS,
    Request,
    draw_covariates,
    draw_program,
    draw_request,
    simulate,
)
from synthstats_lightning.pretraining.wide.interpreter import draw_response
from synthstats_lightning.pretraining.wide.program import Program
from synthstats_lightning.pretraining.wide.samplers import SAMPLERS, Law, draw
from synthstats_lightning.pretraining.wide.simulation import MOST_CUT, goes_with
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.tasks import Column

ROWS = 24
COLUMNS = {
    "x": np.linspace(0.5, 3.0, ROWS),
    "t": np.arange(ROWS),
    "g": np.arange(ROWS) % 4,
    "n": 5 + np.arange(ROWS) % 7,
    "se": np.linspace(0.2, 1.0, ROWS),
    "top": np.linspace(1.0, 4.0, ROWS),
}
PROGRAMS = {
    "pooled": """
    tau = pm.HalfNormal("tau", 1)
    u = pm.Normal("u", 0, tau, shape=4)
    s = pm.Exponential("s", 2)
    pm.StudentT("y", nu=6, mu=1 + u[g], sigma=s, observed=size)""",
    "process": """
    ell = pm.LogNormal("ell", 0, 0.5)
    q = pm.gp.HSGP(m=[12], c=1.5, cov_func=2**2*pm.gp.cov.ExpQuad(1, ls=ell))
    smooth = q.prior("smooth", X=x[:, None])
    pm.Normal("y", smooth, 0.1, observed=size)""",
    "walks": """
    p = pm.Uniform("p", 0, 1)
    walk = pm.AR("walk", rho=[p], sigma=1, init_dist=pm.Normal.dist(0, 2), shape=24)
    walk2 = pm.GaussianRandomWalk("walk2", sigma=0.5, init_dist=pm.Normal.dist(0, 1), shape=24)
    pm.Normal("y", walk[t] + walk2[t], 0.5, observed=size)""",
    "counts": """
    b = pm.Normal("b", 0, 0.3)
    p = pm.Beta("p", 2, 5)
    phi = pm.Gamma("phi", 4, 1)
    pm.ZeroInflatedNegativeBinomial("y", psi=p, mu=pt.exp(1 + b*x), alpha=phi, observed=size)""",
    "totals": """
    a = pm.Normal("a", 0, 0.5)
    p = pt.sigmoid(a)
    pm.BetaBinomial("y", n=n, alpha=p*5, beta=(1 - p)*5, observed=size)""",
    "censored": """
    k = pm.LogNormal("k", 0.5, 0.3)
    pm.Censored("y", pm.Weibull.dist(k, pt.exp(0.3*x)), lower=None, upper=top, observed=size)""",
    "mixture": """
    p = pm.Beta("p", 2, 2)
    pm.Mixture("y", w=pt.stack([p, 1 - p]), comp_dists=[pm.Normal.dist(x, 0.5), pm.Normal.dist(3*x, 1)],
        observed=size)""",
    "ordered": """
    b = pm.Normal("b", 0, 1)
    pm.OrderedLogistic("y", eta=b*x, cutpoints=[-1.0, 0.5, 2.0], observed=size)""",
    "hurdle": """
    p = pm.Beta("p", 5, 2)
    pm.HurdleGamma("y", psi=p, alpha=3, beta=3/pt.exp(0.2*x), observed=size)""",
}


def ours(source: str, draws: int) -> np.ndarray:
    drawn = [draw_response(source, COLUMNS, "size", seed) for seed in range(draws)]
    return np.array([each for each in drawn if each is not None])


def pymcs(source: str, draws: int) -> np.ndarray:
    scope = {"pm": pm, "pt": pt, "np": np, "math": math, **COLUMNS, "size": np.ones(ROWS)}
    if "Ordered" in source or "Beta" in source or "Zero" in source:
        scope["size"] = np.ones(ROWS, dtype=int)
    exec(source, scope)
    with scope["model"]:
        found = pm.draw(scope["model"]["y"], draws=draws, random_seed=1, mode="FAST_COMPILE")
    return np.asarray(found, dtype=np.float64)


def test_draws_are_pymcs():
    check("totals", 400)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_are_pymcs_in_mean_and_spread(name):
    check(name, 4000)


def check(name: str, draws: int) -> None:
    """Mean, and spread, of a few rows: of the response, put through a function that keeps tails light."""
    source = "with pm.Model() as model:" + PROGRAMS[name]
    first, second = np.arcsinh(ours(source, draws)), np.arcsinh(pymcs(source, draws))
    assert len(first) == draws
    for of in (lambda values: values, lambda values: (values - second.mean(0)) ** 2):
        one, other = of(first), of(second)
        error = np.sqrt(one.var(0) / len(one) + other.var(0) / len(other)) + 1e-12
        z = (one.mean(0) - other.mean(0)) / error
        assert np.abs(z).max() < 4.5, z
    within = [np.corrcoef(values[:, 0], values[:, 4])[0, 1] for values in (first, second)]
    assert abs(within[0] - within[1]) < 5 * np.sqrt(2 / draws)


def test_what_the_table_of_samplers_lacks_is_drawn_by_the_engine():
    missing = [
        name for name, entry in DISTRIBUTIONS.items() if entry.location_and_scale and name not in SAMPLERS
    ]
    assert "Moyal" in missing
    law = Law("Moyal", (2.0, 0.5), {})
    drawn = draw(np.random.default_rng(0), law, (20_000,))
    assert np.median(drawn) == pytest.approx(scipy.stats.moyal(2.0, 0.5).median(), abs=0.03)
    with pytest.raises(ValueError, match="Weird has no sampler"):
        draw(np.random.default_rng(0), Law("Weird", (), {}), ())


def test_acceptance_reads_response_and_request_alone():
    real = Request((), Column("y", "continuous", 2.0, 4.0), 20)
    assert goes_with(real, np.linspace(1.1, 4.9, 20))
    assert not goes_with(real, np.linspace(0.9, 4.0, 20))
    assert not goes_with(real, np.linspace(2.0, 5.1, 20))
    assert not goes_with(real, np.full(20, 3.0))
    count = Request((), Column("y", "count", 0.0, 100.0), 20)
    assert goes_with(count, np.array([0, 15]))
    assert not goes_with(count, np.array([0, 8]))
    binary = Request((), Column("y", "binary", 0.0, 1.0), 20)
    assert goes_with(binary, np.array([0, 1]))
    assert not goes_with(binary, np.array([1, 1]))


def test_limits_are_told_where_the_response_was_cut_short_and_nowhere_else():
    rng, seen = Random(1), 0
    while seen < 20:
        request = draw_request(rng)
        if not request.events:
            continue
        covariates = draw_covariates(rng, request)
        name, limit = request.response.name, request.censoring["upper"]
        source = (
            "with pm.Model() as model:\n"
            f'    pm.Censored("y", pm.Uniform.dist({request.response.low}, {request.response.high}),'
            f" lower=None, upper={limit}, observed={name})"
        )
        program = Program(source, "constant", "Uniform", frozenset(), (), True)
        made = simulate(rng, request, program, covariates)
        if made is None:
            continue
        seen += 1
        told = made.data[limit] < 1e300
        assert 0 < told.mean() <= MOST_CUT
        assert (made.response[told] == covariates[limit][told]).all()
        assert (made.response[~told] < covariates[limit][~told]).all()
        assert made.task().censoring == request.censoring


def test_two_species_are_followed_to_the_last_row_of_a_time_that_is_not_whole():
    columns = (Column("hours", "continuous", 0.0, 7.6), Column("wolf", "binary", 0.0, 1.0))
    request = Request(columns, Column("number", "count", 2.0, 90.0), 30)
    weights = replace(WEIGHTS, simple=0.0, forms={"two_species": 1.0})
    rng = Random(1)
    programs = [draw_program(rng, request, weights) for _ in range(20)]
    assert {program.form for program in programs} == {"two_species"}
    assert any(simulate(rng, request, program) is not None for program in programs)

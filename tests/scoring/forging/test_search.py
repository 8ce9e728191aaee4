"""The search for excess mass finds what is not normalised, and little else."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from tests.support.benchmark_modules import benchmark_module

benchmark = benchmark_module("normalisation")
exact = benchmark_module("normalisation_parts.exact")
laws = benchmark_module("normalisation_parts.laws")
mass = benchmark_module("normalisation_parts.mass")
programs = benchmark_module("normalisation_parts.programs")
search = benchmark_module("normalisation_parts.search")

FAMILIES = {family.name: family for family in laws.families()}


def at(family, values):
    """A point by its numbers."""
    return dict(zip([each for each, _ in family.coordinates()], values, strict=True))


def test_every_distribution_is_searched():
    assert set(DISTRIBUTIONS) <= set(FAMILIES)
    assert all(search.roles(family) for family in FAMILIES.values())


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Normal", "response"),
        ("Gamma", "latent"),
        ("Poisson", "response"),
        ("Hurdle(Gamma)", "response"),
        ("Dirichlet", "latent"),
        ("Multinomial", "response"),
    ],
)
def test_honest_mass_is_one(name, role):
    family = FAMILIES[name]
    point = {coordinate: 0.1 for coordinate, _ in family.coordinates()}
    total = mass.total_of(family, point, role)
    assert total.log_mass <= 1e-6
    assert total.log_mass > (-1e-6 if total.outcome != "draws" else -0.5)


@pytest.mark.parametrize("name", ["Gamma", "InverseGamma", "LogNormal", "Weibull"])
@pytest.mark.parametrize("second", [-17.4, 17.4])
def test_no_mass_where_values_underflow_or_overflow(name, second):
    """A value that stood still while its logarithm goes on would carry any mass."""
    family = FAMILIES[name]
    point = at(family, (1.25, second))
    assert mass.total_of(family, point, "latent").log_mass <= 1e-6


def test_excess_is_measured():
    draws = np.random.default_rng(0).normal(3.0, 2.0, 500)
    log_normal = -0.5 * math.log(2 * math.pi) - math.log(2.0)

    def normal(x):
        with np.errstate(over="ignore"):
            return log_normal - 0.5 * ((x - 3.0) / 2.0) ** 2

    found = mass.line_mass(lambda x: normal(x) + 1e-3, draws)
    assert found.log_mass == pytest.approx(1e-3, abs=1e-8)
    # a tail that a clamp holds up, where no draw ever is
    held = mass.line_mass(lambda x: np.where(x < -1e9, -21.0, normal(x)), draws)
    assert held.log_mass > 100.0


def test_little_below_a_mode_and_little_above_it():
    family = FAMILIES["Truncated[upper](AsymmetricLaplace)"]
    values = (-9.704991, -25.348597, -5.089307, -15.691847)
    point = at(family, values)
    for role in mass.roles(family):
        assert mass.total_of(family, point, role).log_mass == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Truncated[upper](HalfNormal)", (1.663889, 15.657725)),
        ("Truncated[lower, upper](HalfNormal)", (-48.454997, 0.534534, 15.357363)),
        ("Truncated[upper](HalfNormal)", (1.254306, 12.819478)),
        ("Truncated[upper](HalfStudentT)", (1.2, 0.3, 12.0)),
    ],
)
def test_a_half_line_cut_off_near_its_end(name, values):
    family = FAMILIES[name]
    point = at(family, values)
    for role in mass.roles(family):
        total = mass.total_of(family, point, role)
        assert total.outcome == "quadrature"
        assert total.log_mass == pytest.approx(0.0, abs=1e-8)


def test_a_kink_of_a_latent_lies_where_its_transform_takes_it():
    """A panel and its halves may agree by chance next to one that nobody has told them of."""
    family = FAMILIES["Truncated[lower](AsymmetricLaplace)"]
    values = (-math.log10(4.093), math.log10(7.465), math.log10(31.95), math.log10(1.01488))
    point = at(family, values)
    assert mass.total_of(family, point, "latent").log_mass == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        # draws that underflow, or round to one number, are no point masses
        ("Hurdle(Gamma)", (17.0, -3.0, -3.0)),
        ("Censored[lower, upper](Laplace)", (-7.0, 25.0, -1.9, -22.0)),
        ("Censored[lower, upper](Exponential)", (16.0, 150.0, 0.0)),
        # grids of double precision are refused by the scorer
        ("Truncated[lower](Laplace)", (-8.0, -8.0, -19.0)),
        ("Truncated[lower, upper](Gumbel)", (-12.0, 0.08, 0.16, 0.54)),
    ],
)
def test_what_double_precision_does_to_draws_is_no_mass(name, point):
    family = FAMILIES[name]
    point = at(family, point)
    assert all(mass.total_of(family, point, role).log_mass <= 1e-6 for role in mass.roles(family))


@pytest.mark.parametrize(("bound", "lost"), [(30.0, False), (3e3, False), (1e8, True)])
def test_truncation_far_out_keeps_the_evidence_or_is_refused(bound, lost):
    """An exponential above a bound is the bound plus an exponential, which nothing here reads."""
    far = {"law": "Truncated", "components": ["Exponential"], "bounds": ["lower"], "inputs": [bound, "s"]}
    latents = {"m": ["Normal", 0.0, 2.0], "s": ["LogNormal", 2.0, 1.0], "z": far}
    mean = ["add", "m", ["mul", 0.0, "z"]]
    found = programs.outcome_of({"latents": latents, "response": ["Normal", mean, 1.0]}, programs.REAL)
    if lost:
        assert "too little probability" in found.failure
    else:
        covariance = np.eye(programs.ROWS) + 4.0
        exact = stats.multivariate_normal(np.zeros(programs.ROWS), covariance).logpdf(programs.REAL)
        assert found.evidence == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("width", [1.0, 1e-4])
def test_mass_of_vectors_by_draws(width):
    """Also where the proposal, which knows correlations of pairs, is far wider than the density."""
    generator = np.random.default_rng(1)

    class Sheet:
        def log_prior(self, theta):
            x = theta.numpy()
            away = (x[:, 3] - x[:, :3].sum(1)) / width
            whole = -0.5 * ((x[:, :3] ** 2).sum(1) + away**2) - math.log(width) - 2 * math.log(2 * math.pi)
            return torch.from_numpy(whole + 0.7)

    draws = generator.normal(size=(8192, 4))
    draws[:, 3] = draws[:, :3].sum(1) + width * draws[:, 3]
    found = mass.vector_mass(draws, Sheet().log_prior(torch.from_numpy(draws)).numpy(), Sheet())
    assert found <= 0.7
    if width == 1.0:
        assert found > 0.5


def test_exact_densities_find_what_a_forged_one_gains(monkeypatch):
    response, model = programs.HONEST[2]
    assert programs.outcome_of(model, response).gain < 0.0
    law = exact.LAWS["Gamma"]
    forged = {**exact.LAWS, "Gamma": lambda x, a, s: law(x, a, s) - 2.5}
    monkeypatch.setattr(exact, "LAWS", forged)
    assert programs.outcome_of(model, response).gain == pytest.approx(2.5, abs=0.01)


def test_a_mutant_with_a_discrete_latent_has_no_exact_density():
    latents = {"m": ["Normal", 0.0, 2.0], "k": ["Bernoulli", 0.3]}
    found = programs.outcome_of(
        {"latents": latents, "response": ["Normal", ["add", "m", "k"], 1.0]}, programs.REAL
    )
    assert math.isfinite(found.evidence)
    assert found.gain == -math.inf


def test_mutants_differ_and_the_honest_program_stays():
    honest = programs.HONEST[0][1]
    before = json.dumps(honest)
    stream = programs.mutants(honest, np.random.default_rng(0))
    found = {json.dumps(next(stream)) for _ in range(20)}
    assert len(found) > 10
    assert json.dumps(honest) == before


def test_figures(tmp_path, monkeypatch, capsys):
    path = tmp_path / "figures.json"
    arguments = ["--only", "Normal", "Poisson", "--cases", "1", "--hours", "1e-6", "--programs", "2"]
    monkeypatch.setattr(sys, "argv", ["normalisation.py", *arguments, "--json", str(path)])
    monkeypatch.setattr(benchmark, "HONEST", programs.HONEST[:2])
    assert benchmark.main() == 0
    figures = json.loads(path.read_text())
    assert figures["cases"] == 6
    assert figures["programs_searched"] == 2
    assert figures["programs_with_gain"] == 0
    assert figures["worst_total"] <= 1.0 + 1e-6
    assert "met" in capsys.readouterr().out


def student(nu, mu, sigma, excess=0.0):
    draws = mu + sigma * np.random.default_rng(0).standard_t(nu, 512)
    found = mass.line_mass(
        lambda x: stats.t.logpdf((x - mu) / sigma, nu) - math.log(sigma) + excess, draws[np.isfinite(draws)]
    )
    return found.outcome, found.log_mass


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_peak_between_two_doubles_is_no_mass_and_one_that_they_resolve_is():
    """A tail so heavy that its quartiles are wide does not make the peak any wider."""
    assert student(0.0002913, -3.718e61, 1.019e-100)[1] == -math.inf
    assert student(0.001537, 4.708e17, 7.974e-80)[1] == -math.inf
    outcome, log_mass = student(4.0, 0.3, 1e-9)
    assert outcome == "quadrature"
    assert -1e-3 < log_mass <= 1e-6
    assert student(4.0, 0.3, 1e-9, excess=0.01)[1] > 9e-3


@pytest.mark.parametrize(
    ("name", "role", "point"),
    [
        # jumps where no panel ends unless it is told
        ("VonMises", "response", (-487.0, 0.1444)),
        ("AsymmetricLaplace", "latent", (2.949e-05, 5.082e20, 4.693e-18)),
        ("ExGaussian", "latent", (-0.1793, 5.751e-32, 2.121)),
        # shares of nearly equal tails
        ("Truncated[lower](Triangular)", "response", (-121.359, -1.887874656271761e18, 104.979, 335.074)),
        ("Truncated[lower](Wald)", "response", (317.655, 0.54795, 1.36808e-28, 8.1592e-5)),
        ("Truncated[upper](ExGaussian)", "response", (-44.24, 0.5439, 0.7663, 6.197e9)),
    ],
)
def test_what_an_hour_s_search_found_has_no_excess(name, role, point, monkeypatch):
    family = FAMILIES[name]
    inputs = list(point)
    monkeypatch.setattr(laws.Family, "inputs", lambda self, given: inputs)
    found = mass.total_of(family, {}, role)
    assert found.outcome == "quadrature"
    assert -1e-6 < found.log_mass <= 1e-6


def test_a_probability_that_is_a_constant_is_taken_at_its_word():
    """One that is computed and rounds to 0 or 1 is not known: the scorer may have its logit."""
    response = np.array([0, 1])

    def judged(share, latents):
        model = {"latents": latents, "response": ["Bernoulli", share]}
        density = programs.build_density(programs.graph_of(model, response, {}), {}, response)
        theta = torch.full((1, len(latents)), 800.0, dtype=torch.float64)
        return exact.log_joint(density, model, response, theta)

    assert judged(1.0, {}) == -math.inf
    assert judged(["sigmoid", "a"], {"a": ["Normal", 0.0, 1.0]}) is None


@pytest.mark.parametrize(
    ("name", "point", "reason"),
    [
        (
            "Truncated[lower, upper](Laplace)",
            (-6.677e9, 29.44, -632.4, 0.2518),
            "leave out one that never binds",
        ),
        ("Truncated[upper](Laplace)", (1e8, 0.0, 0.3), "leave out one that never binds"),
        ("Truncated[lower](LogitNormal)", (-1.179e33, 27.7, 2.829), "leave out one that never binds"),
        ("Truncated[lower](Beta)", (-1.0, 1.0, 0.1), "too near one of its bounds"),
    ],
)
def test_latents_that_their_bounds_leave_few_digits_are_refused(name, point, reason, monkeypatch):
    family = FAMILIES[name]
    monkeypatch.setattr(laws.Family, "inputs", lambda self, given: list(point))
    found = mass.total_of(family, {}, "latent")
    assert found.outcome == "refused"
    assert reason in found.message


@pytest.mark.parametrize(
    ("name", "point"),
    [("Truncated[lower](LogitNormal)", (-1.0, 0.0, 10.0)), ("Truncated[lower](Beta)", (-1.0, 1.0, 0.3))],
)
def test_next_to_one_where_each_double_stands_for_many_coordinates_mass_is_lost_and_none_gained(
    name, point, monkeypatch
):
    family = FAMILIES[name]
    monkeypatch.setattr(laws.Family, "inputs", lambda self, given: list(point))
    assert -3e-3 < mass.total_of(family, {}, "latent").log_mass <= 1e-6

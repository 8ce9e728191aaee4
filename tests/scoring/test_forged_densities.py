"""Programs that a density with too few digits would have paid, and honest ones like them: text to score."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln

from synthstats_lightning.programs import DataSchema, parse_graph
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.sandbox.inside import program
from synthstats_lightning.sandbox.protocol import Job
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.score import Score
from tests.support.benchmark_modules import benchmark_module

Y = np.array([0.3, 0.5, -0.2, 0.9, 1.4, 1.1])
X = np.linspace(-1.0, 1.0, len(Y))
SCHEMA = DataSchema({"x": "float64"}, "y", "float64", len(Y))


def source(*lines: str) -> str:
    return "\n    ".join(("import pymc as pm\nimport numpy as np\nwith pm.Model() as model:", *lines))


def scored(*lines: str) -> Score:
    document = program.run(Job(source(*lines), build=True, schema=SCHEMA, covariates={"x": X}), 1 << 20)
    return score_graph(parse_graph(document, SCHEMA), {"x": X}, Y)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pm.Gumbel('y', mu=1e6, beta=1e-300, observed=y)", "Gumbel: beta = 1e-300 is not from"),
        ("pm.SkewStudentT('y', a=1.5e19, b=1.5e19, mu=0.4, sigma=0.3, observed=y)", "SkewStudentT: a = 1.5e"),
        ("pm.Gumbel('y', mu=1e6, beta=np.exp(-700.0 + 0.0 * x), observed=y)", "Gumbel: beta = 9.8"),
        ("pm.StudentT('y', nu=1e-30, mu=0, sigma=1, observed=y)", "StudentT: nu = 1e-30"),
        (
            "pm.Mixture('y', w=[0.5, 0.5], comp_dists=[pm.Normal.dist(0, 1), pm.Gumbel.dist(1e6, 1e-300)],"
            " observed=y)",
            "1.beta = 1e-300 is not from",
        ),
    ],
)
def test_constants_that_no_test_covers(line: str, message: str) -> None:
    score = scored(line)
    assert score.failure is FailureCategory.SCORER_LIMIT
    assert message in str(score.message)


@pytest.mark.parametrize(
    "prior",
    [
        "pm.Uniform('z', 1.6, 1.6)",
        "pm.Uniform('z', np.zeros(3), np.array([1.0, 2.0, -1.0]))",
        "pm.Normal('z', 0, -1)",
        "pm.Truncated('z', pm.Normal.dist(0, 1), lower=2, upper=1)",
    ],
)
def test_a_prior_without_a_value_is_said_to_be_one(prior: str) -> None:
    score = scored(f"z = {prior}", "pm.Normal('y', z.sum(), 1, observed=y)")
    assert score.failure is FailureCategory.NON_FINITE
    assert "leave it no value" in str(score.message)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("z = pm.Gamma('z', 1e16, 1.0)", "Gamma: alpha = 1e+16"),
        ("z = pm.SkewStudentT('z', 1.5e19, 1.5e19, mu=0, sigma=1)", "SkewStudentT: a = 1.5e+19"),
        ("z = pm.Normal('z', 1e16, 1.0)", "draws from its prior are equal"),
        ("z = pm.Truncated('z', pm.Normal.dist(0, 1), lower=1e10)", "a bound is too far from its values"),
        (
            "b = pm.Beta.dist(1, np.array([0.3] * 19 + [0.1]), shape=20);"
            " z = pm.Truncated('z', b, lower=-1.0, shape=20)[0]",
            "too near one of its bounds",
        ),
        ("s = pm.Gamma('s', .001, .001); z = pm.Normal('z', x[0], s)", "its scale is lost"),
        (
            "n = pm.Gamma('n', .001, .001); z = pm.StudentT('z', nu=n)",
            "StudentT: nu is not from",
        ),
    ],
)
def test_priors_without_their_normalisation(prior: str, message: str) -> None:
    """Beside 4 free means so tight that only the other prior could have paid for them."""
    means = "m = pm.Normal('m', 0.25, 1e-9, shape=6)"
    score = scored(means, prior, "pm.Normal('y', m + 0.0 * z, 1.0, observed=y)")
    assert score.failure is FailureCategory.SCORER_LIMIT
    assert message in str(score.message)


def test_a_scale_that_wanders_out_of_reach_earns_nothing() -> None:
    score = scored("b = pm.LogNormal('b', -690.0, 1.0)", "pm.Gumbel('y', 1e6, b, observed=y)")
    assert score.evidence is None


@pytest.mark.parametrize(
    ("line", "exact"),
    [
        (
            "pm.SkewStudentT('y', a=1e12, b=1e12, mu=0.3, sigma=0.7, observed=y)",
            stats.norm(0.3, 0.7).logpdf(Y).sum(),
        ),
        ("pm.StudentT('y', nu=1e12, mu=0.3, sigma=0.7, observed=y)", stats.norm(0.3, 0.7).logpdf(Y).sum()),
        (
            "pm.Gamma('y', alpha=1e10, beta=1e10 / (2.0 + x), observed=y)",
            None,
        ),
    ],
)
def test_large_shapes_are_their_limits(line: str, exact: float | None) -> None:
    score = scored(line)
    if exact is None:  # values that it excludes: never a gain
        assert score.evidence is None or score.evidence < -1e6
    else:
        assert score.evidence == pytest.approx(exact, abs=1e-9)


def log_integral(function, lower: float, upper: float) -> float:
    """Log of the integral of `exp(function(u))`."""
    top = max(function(u) for u in np.linspace(lower, upper, 400))
    total, _ = quad(lambda u: np.exp(function(u) - top), lower, upper, limit=1_000)
    return float(np.log(total) + top)


def log_gamma_prior(u: float) -> float:
    """Of the logarithm of a Gamma(.001, .001) variable."""
    return 0.001 * u + 0.001 * np.log(0.001) - gammaln(0.001) - 0.001 * np.exp(u)


def test_gamma_priors_of_precisions() -> None:
    score = scored(
        "tau = pm.Gamma('tau', .001, .001)", "pm.Normal('y', 0.5, 1 / pm.math.sqrt(tau), observed=y)"
    )
    a = b = 0.001
    squares = ((Y - 0.5) ** 2).sum()
    exact = -len(Y) / 2 * np.log(2 * np.pi) + a * np.log(b) - gammaln(a)
    exact += gammaln(a + len(Y) / 2) - (a + len(Y) / 2) * np.log(b + squares / 2)
    assert score.evidence == pytest.approx(exact, abs=2.0 * score.evidence_se + 1e-3)


def test_half_of_a_prior_below_double_precision() -> None:
    """An effect whose scale underflows is no effect: half of the prior says so."""
    score = scored(
        "s = pm.Gamma('s', .001, .001)", "b = pm.Normal('b', 0, s)", "pm.Normal('y', b, 1, observed=y)"
    )

    def joint(u: float) -> float:
        # rows share one normal effect
        share = np.exp(2.0 * u) / (1.0 + len(Y) * np.exp(2.0 * u))
        squares = (Y**2).sum() - share * Y.sum() ** 2
        determinant = np.log1p(len(Y) * np.exp(2.0 * u))
        return log_gamma_prior(u) - 0.5 * (squares + determinant + len(Y) * np.log(2.0 * np.pi))

    below = np.log(stats.gamma(0.001, scale=1000.0).cdf(np.exp(-30.0))) + stats.norm.logpdf(Y).sum()
    exact = np.logaddexp(below, log_integral(joint, -30.0, 12.0))
    assert score.evidence == pytest.approx(exact, abs=2.0 * score.evidence_se + 1e-3)


STEPS = np.diff(Y)


@pytest.mark.parametrize(
    ("line", "log_likelihood"),
    [
        (
            "pm.GaussianRandomWalk('y', mu=0, sigma=s, init_dist=pm.Normal.dist(0, 2), observed=y)",
            lambda s: stats.norm(0.0, 2.0).logpdf(Y[0]) + stats.norm(0.0, s).logpdf(STEPS).sum(),
        ),
        (
            "pm.AR('y', rho=[0.9], sigma=s, init_dist=pm.Normal.dist(0, 2), observed=y)",
            lambda s: stats.norm(0.0, 2.0).logpdf(Y[0]) + stats.norm(0.9 * Y[:-1], s).logpdf(Y[1:]).sum(),
        ),
    ],
)
def test_series_with_a_sampled_scale(line: str, log_likelihood) -> None:
    score = scored("s = pm.HalfNormal('s', 1.0)", line)
    exact = log_integral(
        lambda u: stats.halfnorm.logpdf(np.exp(u)) + u + log_likelihood(np.exp(u)), -5.0, 3.0
    )
    assert score.evidence == pytest.approx(exact, abs=2.0 * score.evidence_se + 1e-3)
    assert np.isfinite(score.elpd)


SERIES = {
    "walk": "pm.GaussianRandomWalk('y', mu={0}, sigma={1}, init_dist=pm.Normal.dist({2}, {3}), observed=y)",
    "AR": "pm.AR('y', rho=[{0}, 0.1], sigma={1}, init_dist=pm.Normal.dist({2}, {3}, size=2), observed=y)",
    "AR with a constant": (
        "pm.AR('y', rho=[{2}, {0}], sigma={1}, constant=True, init_dist=pm.Normal.dist(0, {3}, size=1),"
        " observed=y)"
    ),
    "GARCH": (
        "pm.GARCH11('y', omega={1}, alpha_1=pm.math.sigmoid({0}) / 2, beta_1=pm.math.sigmoid({2}) / 2,"
        " initial_vol={3}, observed=y)"
    ),
}
FREE, FIXED = ("a", "b", "c", "d"), ("0.2", "0.7", "-0.3", "1.5")


@pytest.mark.slow
@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("sampled", [(0,), (1,), (2,), (3,), (0, 1, 2, 3)])
def test_series_with_sampled_parameters_in_every_slot(name: str, sampled: tuple[int, ...]) -> None:
    """Equal to PyMC's logp for one particle, and for several what it is for each."""
    text = "\n".join(
        [
            "a, b, c, d = pm.Normal('a'), pm.HalfNormal('b'), pm.Normal('c'), pm.HalfNormal('d')",
            SERIES[name].format(*(FREE[i] if i in sampled else FIXED[i] for i in range(4))),
        ]
    )
    reference, parity = benchmark_module("scoring_parts.parity_reference"), benchmark_module("scoring_parity")
    cases = benchmark_module("scoring_parts.parity_cases")
    case = cases.Case(lambda y: exec(text, {"pm": pm, "y": y}), cases.REAL)
    record = reference.record(case)
    errors = parity.check(record, reference.COVARIATES)
    assert not isinstance(errors, str), errors
    assert errors.logp < 1e-8
    graph = parse_graph(record["graph"], reference.schema_of(case))
    density = build_density(graph, reference.COVARIATES, case.response)
    theta = torch.randn(3, density.dimension, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows, parts = density.log_likelihood(theta), density.marginals(theta)
    torch.testing.assert_close(parts.given, rows.sum(1), rtol=1e-8, atol=1e-8)
    for i in range(3):
        alone = density.log_likelihood(theta[i : i + 1])
        torch.testing.assert_close(alone[0], rows[i], rtol=1e-10, atol=1e-10)

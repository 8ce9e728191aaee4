from __future__ import annotations

import json
import types

import numpy as np
import pytest
import torch

from synthstats_lightning.programs import FailureCategory, ProgramFailure, parse_graph
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.estimators.unbounded import check_bounded
from tests.scoring import targets
from tests.scoring.targets import F, HandTarget, half_normal_prior, normal_log_prob, normal_prior, tensor

X = np.arange(9.0)
UNTIED = np.array([-2.13, -1.71, -2.44, -1.95, 2.31, 1.87, 2.62, 2.05, 1.58])


def inverse_gamma_prior():
    """Of exp(x), with shape and scale 1: it vanishes faster than any power."""
    return (
        lambda x: -x - (-x).exp(),
        lambda n, g: -(-torch.rand(n, generator=g, dtype=F).log()).log(),
    )


class Mixture(HandTarget):
    """Two components `N(a_k + b_k x, scale_k)` of equal shares; replicates draw a component for each row."""

    def __init__(self, y, scale_prior, *, slopes=False, common_scale=False, precision=False):
        self.common, self.slopes = common_scale, slopes
        self.sign = -0.5 if precision else 1.0
        self.x, self.y = tensor(X[: len(y)]), tensor(y)
        coefficients = 4 if slopes else 2
        priors = [normal_prior(0, 3)] * coefficients + [scale_prior] * (1 if common_scale else 2)
        super().__init__([p[0] for p in priors], [p[1] for p in priors], self.rows, len(y))

    @property
    def parameters(self):
        return [types.SimpleNamespace(start=i, stop=i + 1) for i in range(self.dimension)]

    def parts(self, t):
        means = t[:, :2, None].expand(-1, -1, len(self.y))
        if self.slopes:
            means = means + t[:, 2:4, None] * self.x
        scales = (self.sign * t[:, -1:] if self.common else self.sign * t[:, -2:]).exp()
        return means, scales.expand(-1, 2)[:, :, None]

    def rows(self, t):
        means, scales = self.parts(t)
        return (normal_log_prob(self.y, means, scales) - np.log(2)).logsumexp(1)

    def sample_response(self, theta, generator, given_response=True):
        means, scales = self.parts(theta)
        label = torch.randint(2, (len(theta), 1, len(self.y)), generator=generator)
        noise = torch.randn(len(theta), len(self.y), generator=generator, dtype=F)
        chosen = means.gather(1, label)[:, 0]
        return chosen + scales.expand(-1, -1, len(self.y)).gather(1, label)[:, 0] * noise


def check(model):
    check_bounded(model, model, model.y.numpy())


@pytest.mark.parametrize("prior", [half_normal_prior(1.0), targets.half_cauchy_prior(1.0)])
def test_a_component_of_its_own_scale_collapses_on_equal_values(prior):
    tied = np.concatenate([UNTIED[:7], [2.62, 2.62]])
    with pytest.raises(ProgramFailure, match=r"3 rows are fitted exactly.* set `rounding`") as failed:
        check(Mixture(tied, prior))
    assert failed.value.category is FailureCategory.UNBOUNDED
    check(Mixture(UNTIED, prior))
    check(Mixture(tied, prior, common_scale=True))


def test_a_prior_that_forbids_small_scales_bounds_the_evidence():
    tied = np.concatenate([UNTIED[:7], [2.62, 2.62]])
    check(Mixture(tied, inverse_gamma_prior()))
    check(Mixture(tied, normal_prior(0, 1)))


def test_precisions_collapse_at_the_other_end():
    tied = np.concatenate([UNTIED[:5], [2.62] * 4])
    heavy = targets.half_cauchy_prior(1.0)
    with pytest.raises(ProgramFailure, match="4 rows"):
        check(Mixture(tied, heavy, precision=True))
    # the exponential tail of a gamma prior forbids them
    gamma = (lambda x: -2.3 + 0.1 * x - 0.1 * x.exp(), heavy[1])
    check(Mixture(tied, gamma, precision=True))


def test_a_line_of_its_own_scale_collapses_on_rows_that_lie_on_it():
    y = UNTIED.copy()
    on_line = [1, 4, 5, 7]
    check(Mixture(y, half_normal_prior(1.0), slopes=True))
    y[on_line] = 0.5 + 0.25 * X[on_line]
    with pytest.raises(ProgramFailure, match="4 rows"):
        check(Mixture(y, half_normal_prior(1.0), slopes=True))


SCHEMA = DataSchema({"x": "float64"}, "y", "float64", 9)


def line():
    """y ~ Normal(a + b x, s) with a, b ~ Normal(0, 2) and s ~ HalfNormal(1)."""
    nodes = [
        *({"op": "constant", "value": value, "dtype": "float64"} for value in (0.0, 2.0, 1.0)),
        {"op": "covariate", "name": "x"},
        *(
            {"op": "random", "distribution": "Normal", "inputs": [0, 1], "name": name, "shape": []}
            for name in "ab"
        ),
        {"op": "random", "distribution": "HalfNormal", "inputs": [0, 2], "name": "s", "shape": []},
        {"op": "mul", "inputs": [5, 3]},
        {"op": "add", "inputs": [4, 7]},
        {"op": "random", "distribution": "Normal", "inputs": [8, 6], "name": "y", "shape": [9]},
    ]
    graph = {"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []}
    return parse_graph(json.dumps(graph), SCHEMA)


@pytest.mark.parametrize("y", [np.full(9, 1.5), 0.5 + 0.25 * X], ids=["equal", "on a line"])
def test_data_that_a_regression_fits_exactly_have_infinite_evidence(y):
    score = score_graph(line(), {"x": X}, y)
    assert score.failure is FailureCategory.UNBOUNDED
    assert "9 rows" in score.message
    assert score_graph(line(), {"x": X}, y, rounding=0.25).scored


def test_data_that_it_does_not_fit_exactly_have_not():
    assert score_graph(line(), {"x": X}, UNTIED).scored
    assert score_graph(line(), {"x": X}, 0.5 + 0.25 * X + 0.01 * UNTIED).scored


class Slopes(Mixture):
    """Two components `N(b_k x, scale_k)` of equal shares: no location is the same in rows of another x."""

    def __init__(self, x, y):
        HandTarget.__init__(self, *prior_lists(), self.rows, len(y))
        self.common, self.slopes, self.sign = False, False, 1.0
        self.x, self.y = tensor(x), tensor(y)

    def parts(self, t):
        means, scales = t[:, :2, None] * self.x, t[:, -2:].exp()
        return means, scales[:, :, None].expand(-1, -1, len(self.y))

    def sample_response(self, theta, generator, given_response=True):
        means, scales = self.parts(theta)
        label = torch.randint(2, (len(theta), 1, len(self.y)), generator=generator)
        noise = torch.randn(len(theta), len(self.y), generator=generator, dtype=F)
        return means.gather(1, label)[:, 0] + scales.gather(1, label)[:, 0] * noise


def prior_lists():
    priors = [normal_prior(0, 3)] * 2 + [half_normal_prior(1.0)] * 2
    return [p[0] for p in priors], [p[1] for p in priors]


def test_of_many_rows_those_that_go_together_are_looked_at_whatever_their_values():
    """A few equal rows among thousands whose values are more frequent, but of another x each."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1.0, 5.0, 2_200)
    y = rng.choice([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], len(x))  # of some 370 rows each, on no one line
    check(Slopes(x, y))
    alike = [5, 700, 1400]
    x[alike], y[alike] = 2.5, 3.37
    with pytest.raises(ProgramFailure, match="3 rows"):
        check(Slopes(x, y))


def test_a_component_collapses_on_many_rows_of_which_some_draws_do_not_show_it():
    """Hundreds of rows at 0: that each shows two draws of a component, and all at once, is no matter."""
    rng = np.random.default_rng(1)
    x = rng.uniform(1.0, 5.0, 2_200)
    with pytest.raises(ProgramFailure, match=r"\d{3} rows"):
        check(Slopes(x, rng.integers(-3, 4, len(x)).astype(float)))


class Bounded(HandTarget):
    """Rows around `1 / (1 + exp(-x_i))` whose replicates coincide at an end of the range far out."""

    def __init__(self, y):
        self.y = tensor(y)
        self.asked = 0
        prior, draw = normal_prior(0, 1)
        count = len(y)
        super().__init__([prior] * count, [draw] * count, self.rows, count)

    @property
    def parameters(self):
        return [types.SimpleNamespace(start=0, stop=self.dimension)]

    def rows(self, t):
        centre = t.sigmoid()
        return normal_log_prob(self.y, centre, centre * (1 - centre) + 1e-12)

    def sample_response(self, theta, generator, given_response=True):
        self.asked += len(theta)
        centre = theta.sigmoid()
        noise = torch.randn(len(theta), len(self.y), generator=generator, dtype=F)
        return centre + centre * (1 - centre) * noise


class Hurdle(Mixture):
    """Zero with probability 0.4, else log-normal around the first of the coefficients or a line of both."""

    def parts(self, t):
        location = t[:, :1] + (t[:, 2:3] * self.x if self.slopes else 0.0)
        return location.expand(-1, len(self.y)), t[:, -1:].exp().expand(-1, len(self.y))

    def rows(self, t):
        zero = self.y == 0
        logs = torch.where(zero, 1.0, self.y).log()
        above = normal_log_prob(logs, *self.parts(t)) - logs + np.log(0.6)
        return torch.where(zero, np.log(0.4), above)

    def sample_response(self, theta, generator, given_response=True):
        location, scale = self.parts(theta)
        draws = (location + scale * torch.randn(location.shape, generator=generator, dtype=F)).exp()
        return torch.where(torch.rand(location.shape, generator=generator, dtype=F) < 0.4, 0.0, draws)


def test_zeros_of_a_hurdle_are_no_rows_that_a_vanishing_scale_fits():
    prior = half_normal_prior(1.0)
    zeros = np.tile([1.0, 0.0, 0.0], 3)
    for slopes in (False, True):
        check(Hurdle(np.exp(UNTIED) * zeros, prior, slopes=slopes, common_scale=True))
        check(Hurdle(0.0 * UNTIED, prior, slopes=slopes, common_scale=True))
        fitted = np.exp(0.5 + (0.25 * X if slopes else 0.0 * X)) * (1 - zeros)
        with pytest.raises(ProgramFailure, match="6 rows"):
            check(Hurdle(fitted, prior, slopes=slopes, common_scale=True))


class Needle(Mixture):
    """One component at a number, with a scale that no draw of it shows: they all are that number."""

    def parts(self, t):
        means = torch.stack([torch.full_like(t[:, 0], 2.62), t[:, 1]], 1)
        return means[:, :, None].expand(-1, -1, len(self.y)), super().parts(t)[1]


def test_a_needle_is_no_value_of_positive_probability():
    tied = np.concatenate([UNTIED[:6], [2.62, 2.62, 2.62]])
    with pytest.raises(ProgramFailure, match="3 rows"):
        check(Needle(tied, half_normal_prior(1e-20)))
    check(Needle(UNTIED[:6], half_normal_prior(1e-20)))


class CutShort(HandTarget):
    """Log-normal times, of which every other one was cut short: draws beyond are its limit."""

    def __init__(self, y, location):
        self.y, self.cut = tensor(y), torch.arange(len(y)) % 2 == 1
        priors = [normal_prior(location, 10), half_normal_prior(0.01)]
        super().__init__([p[0] for p in priors], [p[1] for p in priors], self.rows, len(y))

    parameters = Mixture.parameters

    def rows(self, t):
        scale = t[:, 1:].exp()
        z = (self.y.log() - t[:, :1]) / scale
        seen = -0.5 * z.square() - scale.log() - self.y.log() - 0.5 * np.log(2 * np.pi)
        return torch.where(self.cut, torch.special.log_ndtr(-z), seen)

    def sample_response(self, theta, generator, given_response=True):
        noise = torch.randn(len(theta), len(self.y), generator=generator, dtype=F)
        drawn = (theta[:, :1] + theta[:, 1:].exp() * noise).exp()
        return torch.where(self.cut, torch.minimum(drawn, self.y), drawn)


def test_limits_that_no_prior_draw_reaches_are_no_rows_that_a_vanishing_scale_fits():
    """Probabilities of times beyond their limits rise from next to nothing, and are no densities."""
    check(CutShort(np.linspace(2.0, 30.0, 8), -40.0))
    check(CutShort(np.linspace(2.0, 30.0, 8), 0.0))


def test_ends_of_a_range_far_from_every_row_are_left_after_one_step():
    model = Bounded(np.linspace(0.2, 0.8, 9))
    check(model)
    # draws that show atoms, every coordinate both ways, and of each spike two draws at two points
    assert model.asked == 2 * 64 + 18 * 32 + 18 * 2 * 2


class Narrow(HandTarget):
    """Exponential times of mean `exp(a + b x)`: far out in `b` some are next to 0, and no scale vanishes."""

    parameters = Mixture.parameters

    def __init__(self, rows):
        self.x = torch.linspace(-2.0, 2.0, rows, dtype=F)
        self.y = torch.linspace(1.0, 30.0, rows, dtype=F)
        self.asked = 0
        priors = [normal_prior(0, 2), normal_prior(0, 2)]
        super().__init__([p[0] for p in priors], [p[1] for p in priors], self.rows, rows)

    def rows(self, t):
        log_mean = t[:, :1] + t[:, 1:] * self.x
        return -log_mean - self.y * (-log_mean).exp()

    def sample_response(self, theta, generator, given_response=True):
        self.asked += len(theta)
        noise = torch.rand(len(theta), len(self.y), generator=generator, dtype=F)
        return -(theta[:, :1] + theta[:, 1:] * self.x).exp() * noise.log()


def test_rows_that_are_narrow_themselves_are_no_component_of_a_mixture():
    model = Narrow(3000)
    check(model)
    # beside the draws of before two of each spike at two points: some rows have two of 8 draws that are close
    assert model.asked <= 2 * 64 + 4 * 8 + 4 * 2 * 2

"""Random walks of vectors, volatilities and their validation."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.distributions.composites import of_law
from synthstats_lightning.scoring.engine import score_target
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.test_density import Builder

COVARIANCE = [[1.0, 0.3], [0.3, 0.8]]
VECTOR_WALK = of_law(Law("RandomWalk", (Law("MvNormal"), Law("MvNormal"))))
HEAVY_WALK = of_law(Law("RandomWalk", (Law("MvNormal"), Law("MvStudentT"))))
WALK = [[0.1, -0.2], [[2.0, 0.0], [0.0, 1.0]], [[0.3, 0.1]], [COVARIANCE]]
HEAVY = [*WALK[:2], [6.0], *WALK[2:]]


def tensor(value: Any) -> torch.Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def test_a_walk_of_vectors_is_a_normal_vector() -> None:
    """Its covariance by algebra: cumulative sums of independent vectors."""
    value = np.array([[0.3, 1.1], [0.4, -0.6], [1.0, 0.2], [0.1, 0.1]])
    sums = np.kron(np.tril(np.ones((4, 4))), np.eye(2))
    blocks = np.zeros((8, 8))
    for i in range(4):
        blocks[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = WALK[1] if i == 0 else COVARIANCE
    mean = sums @ np.concatenate([WALK[0], np.tile([0.3, 0.1], 3)])
    wanted = stats.multivariate_normal(mean, sums @ blocks @ sums.T).logpdf(value.ravel())
    found = VECTOR_WALK.log_prob(tensor(value), *map(tensor, WALK))
    assert float(found) == pytest.approx(wanted, abs=1e-12)


def test_volatility_by_hand() -> None:
    value, omega, alpha, beta, first = [0.4, -1.0, 0.2], 0.3, 0.5, 0.2, 1.5
    wanted, scale = 0.0, first
    for entry in value:
        wanted += stats.norm(0.0, scale).logpdf(entry)
        scale = math.sqrt(omega + alpha * entry**2 + beta * scale**2)
    garch = DISTRIBUTIONS["GARCH11"]
    found = garch.log_prob(tensor(value), *map(tensor, (omega, alpha, beta, first)))
    assert float(found) == pytest.approx(wanted, abs=1e-12)
    for broken in ((-0.1, alpha, beta, first), (omega, -0.1, beta, first), (omega, alpha, beta, 0.0)):
        assert garch.log_prob(tensor(value), *map(tensor, broken)) == -math.inf


DRAWN: dict[str, tuple[Distribution, list[Any], tuple[int, ...]]] = {
    "walk of vectors": (VECTOR_WALK, WALK, (4, 2)),
    "heavy walk of vectors": (HEAVY_WALK, HEAVY, (3, 2)),
    "volatility": (DISTRIBUTIONS["GARCH11"], [0.3, 0.4, 0.3, 1.5], (5,)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_follow_the_density(name: str) -> None:
    """Weighted by the ratio of a stretched and shifted density, which is normalised too, they weigh one."""
    distribution, parameters, event = DRAWN[name]
    arguments = [tensor(p) for p in parameters]
    draws = distribution.sample(torch.Generator().manual_seed(5), (40_000, *event), *arguments)
    scale = 1.1
    log_ratio = distribution.log_prob(scale * draws + 0.05, *arguments) + math.prod(event) * math.log(scale)
    weights = (log_ratio - distribution.log_prob(draws, *arguments)).exp()
    error = float(weights.std()) / math.sqrt(len(weights))
    assert 1e-3 < error < 0.02
    assert float(weights.mean()) == pytest.approx(1.0, abs=4.0 * error)


def _document(shape: list[int], inputs: list[Any]) -> str:
    nodes: list[dict[str, Any]] = [{"op": "constant", "value": v, "dtype": "float64"} for v in inputs]
    nodes.append(
        {
            "op": "random",
            "distribution": "RandomWalk",
            "components": ["MvNormal", "MvNormal"],
            "name": "z",
            "shape": shape,
            "inputs": list(range(len(inputs))),
        }
    )
    walk = len(inputs)
    nodes.append({"op": "sum", "inputs": [walk], "axis": list(range(len(shape)))})
    nodes.append({"op": "constant", "value": 1.0, "dtype": "float64"})
    nodes.append(
        {
            "op": "random",
            "distribution": "Normal",
            "name": "y",
            "shape": [2],
            "inputs": [walk + 1, walk + 2],
        }
    )
    return json.dumps({"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []})


SCHEMA = DataSchema({}, "y", "float64", 2)


def test_walks_of_vectors_are_read() -> None:
    graph = parse_graph(_document([4, 2], WALK), SCHEMA)
    assert graph.shapes[4] == (4, 2)
    parse_graph(_document([3, 4, 2], WALK), SCHEMA)


@pytest.mark.parametrize(
    ("shape", "inputs"),
    [
        ([1, 2], WALK),
        ([4, 3], WALK),
        ([4], WALK),
        ([4, 2], [WALK[0], WALK[1], [[0.3, 0.1]] * 2, WALK[3]]),
        ([4, 2], [[0.1, 0.2, 0.3], *WALK[1:]]),
        ([4, 2], [WALK[0], [[1.0, 0.0]], *WALK[2:]]),
        ([4, 2], [WALK[0], WALK[1], [0.3, 0.1], WALK[3]]),
        ([4, 2], [*WALK[:3], [[[1.0]]]]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shape: list[int], inputs: list[Any]) -> None:
    with pytest.raises(ProgramFailure) as failure:
        parse_graph(_document(shape, inputs), SCHEMA)
    assert failure.value.category == FailureCategory.BAD_GRAPH


def _log_part(value: list[float], given: list[bool], parameters: tuple[float, ...]) -> float:
    """Log-density of some entries, the one that is missing integrated over by SciPy."""
    omega, alpha, beta, first = parameters

    def density(path: list[float]) -> float:
        result, variance = 1.0, first**2
        for entry in path:
            result *= math.exp(-0.5 * entry**2 / variance) / math.sqrt(2.0 * math.pi * variance)
            variance = omega + alpha * entry**2 + beta * variance
        return result

    last = max(i for i, flag in enumerate(given) if flag)
    if all(given[:last]):
        return math.log(density(value[: last + 1]))
    place = given.index(False)
    before, after = value[:place], value[place + 1 : last + 1]
    found, _ = integrate.quad(
        lambda x: density([*before, x, *after]), -40.0, 40.0, points=[-1.0, 0.0, 1.0], epsabs=0.0, limit=400
    )
    return math.log(found)


VOLATILE = (0.3, 0.6, 0.2, 1.5)


@pytest.mark.parametrize("given", [[1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
def test_parts_of_a_volatile_series_against_quadrature(given: list[int]) -> None:
    value = [0.4, -1.0, 0.02, 1.7, -0.3]
    mask = [bool(flag) for flag in given]
    subsets = DISTRIBUTIONS["GARCH11"].subsets
    assert subsets is not None
    found = subsets(tensor(value), torch.tensor(mask), *(tensor([p, 0.9 * p]) for p in VOLATILE))
    for i, parameters in enumerate((VOLATILE, tuple(0.9 * p for p in VOLATILE))):
        assert float(found.given[i]) == pytest.approx(_log_part(value, mask, parameters), abs=1e-8)
        for t in range(5):
            other = list(mask)
            other[t] = not other[t]
            if all(mask) or not mask[t]:
                wanted = _log_part(value, other, parameters)
                assert float(found.changed[i, t]) == pytest.approx(wanted, abs=1e-8)
            else:
                assert found.changed[i, t].isnan()


def test_a_long_volatile_series_without_each_entry() -> None:
    """What an entry changes is followed until it has died out: as where each is left out alone."""
    garch = DISTRIBUTIONS["GARCH11"]
    assert garch.subsets is not None
    assert garch.part is not None
    shape = [tensor(p) for p in ([0.1, 0.3, 0.02], [0.1, 0.5, 0.05], [0.6, 0.05, 0.9], [1.0, 0.4, 0.2])]
    value = garch.sample(torch.Generator().manual_seed(2), (90,), *(each[0] for each in shape))
    every = torch.ones(90, dtype=torch.bool)
    found = garch.subsets(value, every, *shape)
    torch.testing.assert_close(found.given, garch.part(value, every, *shape), rtol=0, atol=1e-9)
    for t in (0, 1, 30, 60, 88, 89):
        others = every.clone()
        others[t] = False
        torch.testing.assert_close(found.changed[:, t], garch.part(value, others, *shape), rtol=0, atol=1e-6)


def test_a_volatile_series_without_several_entries() -> None:
    """Two missing entries, by a product of trapezoids; the density of what is given integrates to one."""
    subsets = DISTRIBUTIONS["GARCH11"].subsets
    assert subsets is not None
    omega, alpha, beta, first = VOLATILE
    given = torch.tensor([True, False, False, True])
    value = [0.4, 0.0, 0.0, 1.7]
    z = np.linspace(-8.0, 8.0, 801)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    second = omega + alpha * value[0] ** 2 + beta * first**2
    third = omega + (alpha * z**2 + beta) * second
    fourth = omega + (alpha * z[None] ** 2 + beta) * third[:, None]
    wanted = stats.norm(0.0, first).logpdf(value[0])
    wanted += np.log(weight @ stats.norm.pdf(value[3], 0.0, np.sqrt(fourth)) @ weight)
    found = subsets(tensor(value), given, *map(tensor, VOLATILE))
    assert float(found.given) == pytest.approx(wanted, abs=0.01)
    last = torch.linspace(-60.0, 60.0, 1501, dtype=torch.float64)
    series = [torch.cat([tensor(value[:3]), x[None]]) for x in last]
    densities = torch.stack([subsets(path, given, *map(tensor, VOLATILE)).given[0].exp() for path in series])
    assert float(torch.trapezoid(densities, last)) == pytest.approx(
        stats.norm(0.0, first).pdf(value[0]), rel=1e-3
    )


def test_evidence_and_leave_one_out_of_a_volatile_response_against_quadrature() -> None:
    """One unknown parameter, integrated over on a grid."""
    y = DISTRIBUTIONS["GARCH11"].sample(torch.Generator().manual_seed(3), (15,), *map(tensor, VOLATILE))
    y = y.numpy()
    b = Builder()
    omega = b.random("LogNormal", "omega", -1.0, 0.8)
    b.random("GARCH11", "y", omega, 0.6, 0.2, 1.5, shape=(15,))
    score = score_target(b.density({}, y), seed=1, settings=EngineSettings(), deadline=Deadline(60.0))
    u = torch.linspace(-1.0 - 0.8 * 7, -1.0 + 0.8 * 7, 801, dtype=torch.float64)
    log_prior = torch.from_numpy(stats.norm(-1.0, 0.8).logpdf(u.numpy()) + math.log(float(u[1] - u[0])))
    subsets = DISTRIBUTIONS["GARCH11"].subsets
    assert subsets is not None
    parameters = [u.exp(), *(torch.full_like(u, p) for p in VOLATILE[1:])]
    found = subsets(torch.from_numpy(y), torch.ones(15, dtype=torch.bool), *parameters)
    evidence = float(torch.logsumexp(log_prior + found.given, 0))
    others = torch.logsumexp(log_prior[:, None] + found.changed, 0)
    assert score.evidence == pytest.approx(evidence, abs=0.03)
    assert score.elpd == pytest.approx(float((evidence - others).sum()), abs=0.05)


def test_a_volatile_series_that_is_too_long_is_refused() -> None:
    constant = {"op": "constant", "value": 0.5, "dtype": "float64"}
    response = {
        "op": "random",
        "distribution": "GARCH11",
        "name": "y",
        "shape": [121],
        "inputs": [0, 0, 0, 0],
    }
    document = {"format": 1, "nodes": [constant, response], "response": 1, "deterministics": []}
    with pytest.raises(ProgramFailure, match="121 values, more than 120") as failure:
        parse_graph(json.dumps(document), DataSchema({}, "y", "float64", 121))
    assert failure.value.category == FailureCategory.UNSUPPORTED

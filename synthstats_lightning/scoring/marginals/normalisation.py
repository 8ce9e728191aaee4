"""How much mass the densities of a model's random nodes claim, where its particles are.

A density that is not normalised is as good as knowledge of the data, wherever it stands: as the response's it
is evidence for nothing, as a prior's it takes back what the other priors paid for being wide. So at run time,
for what no test foresaw, each random node's density is integrated over its own value, given its parameters
at a particle: on a line by quadrature placed by exact draws, over whole numbers by sums, over vectors by
weighing exact draws with a density that is known to be normalised (Geweke 1999, "Using simulation methods for
Bayesian econometric models", section 4.3).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2
from torch import Tensor

from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.scoring.density.layout import Transform, constrain_alone, unconstrain
from synthstats_lightning.scoring.density.reparametrise import accurate_form
from synthstats_lightning.scoring.density.structural import core_view
from synthstats_lightning.scoring.distributions import Distribution
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.numerics import transforms
from synthstats_lightning.scoring.numerics.integration import (
    POINTS,
    adaptive_log_integral,
    finite_mass,
    log_integral,
    stretched,
)
from synthstats_lightning.scoring.numerics.transforms import MAX_EXPONENT

DRAWS = 64
"""Exact draws that say where a density on a line lies."""
SUSPICIOUS = 1e-3
"""Log mass above which quadrature is repeated by an adaptive rule."""
MOST_REPEATED = 4
"""Elements of a node whose quadrature is repeated: those of most mass."""
MOST_ROWS = 12
"""Rows of a response that are integrated over: those of highest density."""
DRAWS_PER_DIMENSION = 32
FEWEST_DRAWS = 512
MOST_DIMENSIONS = 100
"""Vectors of more are not checked."""
STANDARD_ERRORS = 6.0
SLACK_PER_DIMENSION = 0.05
"""Nats by which the mass of a vector may seem to exceed 1, for each dimension: a fitted density is no exact
one."""
MOST_CONSTANTS = 64
"""Numbers of a node whose parameters are constants, and of these, up to which its mass is kept."""
MOST_KNOWN = 4_096
"""Masses that are kept."""
LARGEST = 1e300
Floats = NDArray[np.float64]
FINER = 32
"""Points of the second sum over whole numbers, over those of the first."""
LADDER = 32, 200
"""Whole numbers on either side of an end of counts of which the first sum leaves out none, and how many there
are beyond them."""
FINER_LADDER = 128, 1600
"""The same of the second sum: one number in 2 %."""
LADDER_REACH = 15.5
"""Decimal exponent of the farthest of these numbers."""
_QUARTERS = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
_BOUNDED = {
    (True, True): Transform.DEPENDENT_INTERVAL,
    (True, False): Transform.ABOVE,
    (False, True): Transform.BELOW,
}
_SIMPLE = {
    Support.REAL: Transform.IDENTITY,
    Support.MIXED: Transform.IDENTITY,
    Support.POSITIVE: Transform.POSITIVE,
    Support.UNIT: Transform.UNIT,
}


class Mass(NamedTuple):
    """What a random node's density claims in all.

    Attributes:
        name: Name of the node.
        law: What it follows.
        excess: Log of its mass as far as it is certain to be above 1, in nats; 0 or less if it is not.
    """

    name: str
    law: str
    excess: float


class _Node(NamedTuple):
    """A random node at one particle.

    Attributes:
        name: How the program calls it.
        distribution: What it follows.
        shape: Its shape in the padded layout, without the particle axis.
        parameters: Values of its distribution's parameters, `[1, *shape]` or constant.
        latent: Whether its coordinates are the estimators', clamps included.
        constant: Whether no parameter of it depends on a random node, and they are few.
    """

    name: str
    distribution: Distribution
    shape: tuple[int, ...]
    parameters: list[Tensor]
    latent: bool
    constant: bool = False


def log_masses(
    compiled: Compiled, values: Sequence[Tensor | None], generator: torch.Generator
) -> Iterator[Mass]:
    """The mass of each random node's density given its parameters at one particle.

    Args:
        compiled: The model with its data.
        values: Values of all its nodes at the particle, discrete ones too.
        generator: Source of the exact draws.
    """
    for node in _nodes(compiled, values):
        excess = _of_constants(node) if node.constant else _excess(node, generator)
        yield Mass(node.name, node.distribution.name, excess)


def _excess(node: _Node, generator: torch.Generator) -> float:
    if node.distribution.event_rank:
        return _of_vector(node, generator)
    return (_of_count if node.distribution.discrete else _of_number)(node, generator)


_known: dict[tuple[object, ...], tuple[list[object], float]] = {}


def _of_constants(node: _Node) -> float:
    """The same for constant parameters, which many programs share: found once, whichever comes first.

    Draws are seeded by the distribution and its parameters alone.
    """
    parameters = [(tuple(each.shape), each.numpy().tobytes()) for each in node.parameters]
    # its functions are held on to, so that no others have their ids
    functions = [getattr(node.distribution, field.name) for field in fields(node.distribution)]
    key = (*map(id, functions), node.shape, node.latent, *parameters)
    if key not in _known:
        told = repr((node.distribution.name, node.shape, node.latent, parameters))
        seed = int.from_bytes(hashlib.sha256(told.encode()).digest()[:7], "big")
        excess = _excess(node, torch.Generator().manual_seed(seed))
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = functions, excess
    return _known[key][1]


def log_mass(distribution: Distribution, *parameters: Tensor, generator: torch.Generator) -> float:
    """Log of the mass that one distribution of numbers claims, in nats; see `log_masses`.

    Args:
        distribution: One of numbers, whole or not.
        parameters: Its parameters, each of its core's shape.
        generator: Source of the exact draws.
    """
    node = _Node("", distribution, (), [parameter[None] for parameter in parameters], True)
    return (_of_count if distribution.discrete else _of_number)(node, generator)


def _nodes(compiled: Compiled, values: Sequence[Tensor | None]) -> Iterator[_Node]:
    graph, rank = compiled.graph, compiled.rank
    for index, node in enumerate(graph.nodes):
        if node.op != "random" or index == graph.response:
            continue
        distribution, inputs = accurate_form(graph, index, compiled.constants)
        parameters = []
        for place, core in zip(inputs, distribution.ranks, strict=True):
            value = compiled.constants[place] if values[place] is None else values[place]
            if value is None:
                break
            if compiled.constants[place] is None and core:
                value = value.reshape(-1, *core_view(compiled.shapes[place], core, rank))
            parameters.append(value.to(torch.float64))
        else:
            shape = core_view(compiled.shapes[index], distribution.event_rank, rank)
            constant = all(compiled.constants[place] is not None for place in inputs)
            few = math.prod(shape) + sum(each.numel() for each in parameters) <= MOST_CONSTANTS
            name = str(node.attributes["name"])
            yield _Node(name, distribution, shape, parameters, True, constant and few)
    response = _response(compiled, values)
    if response is not None:
        yield response


def _response(compiled: Compiled, values: Sequence[Tensor | None]) -> _Node | None:
    """The response, without most of its rows."""
    term, rank = compiled.response_term, compiled.rank
    distribution = term.distribution
    places = zip(term.raw_constants, term.slots, strict=True)
    if any(constant is None and values[slot] is None for constant, slot in places):
        return None
    operands = zip(term.parameters(values), term.raw_constants, strict=True)
    parameters = [found if raw is None else raw for found, raw in operands]
    shape = core_view((compiled.num_observations,), distribution.event_rank, rank)
    name = str(compiled.graph.nodes[compiled.graph.response].attributes["name"])
    if distribution.event_rank == 0 and compiled.num_observations > MOST_ROWS and term.value is not None:
        density = finite_mass(distribution.log_prob(term.value, *parameters))
        rows = density.reshape(-1, compiled.num_observations)[0].topk(MOST_ROWS).indices
        for place, core in enumerate(distribution.ranks):
            axis = parameters[place].ndim - 1 - core
            if axis >= 0 and parameters[place].shape[axis] == compiled.num_observations:
                parameters[place] = parameters[place].index_select(axis, rows)
        shape = (*shape[:-1], MOST_ROWS)
    return _Node(name, distribution, shape, parameters, False)


def _allowed(node: _Node) -> list[Tensor]:
    """Parameters from which draws can be made, whether or not they are the model's."""
    safe = []
    for parameter, constraint in zip(node.parameters, node.distribution.constraints, strict=True):
        holds = constraint.holds(parameter) & torch.isfinite(parameter)
        safe.append(torch.where(holds, parameter, constraint.fill))
    return safe


class _Line(NamedTuple):
    """Coordinates of one number, and where its density lies in them.

    Attributes:
        constrain: Coordinates to values and log-Jacobians.
        centre: Middle of exact draws.
        width: Spread of them.
        log_atoms: Log of the probability of the single values that draws repeat.
    """

    constrain: Callable[[Tensor], tuple[Tensor, Tensor]]
    centre: Tensor
    width: Tensor
    log_atoms: Tensor


def _of_number(node: _Node, generator: torch.Generator) -> float:
    """Log mass on a line, the largest of a node's elements."""
    distribution = node.distribution
    if distribution.entry.has_cdf and distribution.log_cdf is None:
        # probabilities of recorded values, whose spacing is not known here; each must be at most 1
        return -math.inf
    line = _line(node, generator)

    def log_density(u: Tensor) -> Tensor:
        x, log_jacobian = line.constrain(u)
        found = distribution.log_prob(x, *node.parameters) + log_jacobian
        if node.latent or distribution.support in (Support.REAL, Support.MIXED):
            return found
        # a response has no coordinates: what its values cannot reach is no mass of it
        return torch.where(u.abs() < MAX_EXPONENT, found, -math.inf)

    found = torch.logaddexp(log_integral(log_density, line.centre, line.width), line.log_atoms)
    suspects = found.flatten().topk(min(MOST_REPEATED, found.numel()))
    certain = -math.inf
    for rough, place in zip(suspects.values.tolist(), suspects.indices.tolist(), strict=True):
        certain = max(certain, rough if rough < SUSPICIOUS else _repeated(log_density, line, place))
    return certain


def _line(node: _Node, generator: torch.Generator) -> _Line:
    distribution, safe = node.distribution, _allowed(node)
    draws = distribution.sample(generator, (DRAWS, *node.shape), *safe)
    draws = draws.nan_to_num(nan=0.0, posinf=LARGEST, neginf=-LARGEST).clamp(-LARGEST, LARGEST)
    transform, lower, upper = _SIMPLE.get(distribution.support), None, None
    if transform is None:
        lower, upper = distribution.edges(*safe)
        transform = _BOUNDED[lower is not None, upper is not None]

    def constrain(u: Tensor) -> tuple[Tensor, Tensor]:
        if lower is not None and upper is not None:
            return transforms.interval(u, lower, upper)
        if lower is not None:
            return transforms.above(u, lower)
        return constrain_alone(transform, u) if upper is None else transforms.below(u, upper)

    u = unconstrain(transform, draws, lower, upper)
    log_atoms = torch.full(node.shape, -math.inf, dtype=torch.float64)
    if distribution.entry.atoms:
        ordered = draws.sort(0).values
        repeated = (ordered[1:] == ordered[:-1]) & torch.isfinite(ordered[1:])
        first = torch.where(repeated, ordered[1:], math.inf).amin(0)
        last = torch.where(repeated, ordered[1:], -math.inf).amax(0)
        u = torch.where((draws == first) | (draws == last), math.nan, u)
        for value, counts in ((first, first < math.inf), (last, last > first)):
            found = distribution.log_prob(torch.where(counts, value, 0.0)[None], *node.parameters)[0]
            log_atoms = torch.logaddexp(log_atoms, torch.where(counts, finite_mass(found), -math.inf))
    low, centre, high = torch.nanquantile(u, _QUARTERS, 0).nan_to_num(nan=0.0)
    width = torch.maximum(0.74 * (high - low), 1e-12 * centre.abs()).clamp_min(1e-290)
    return _Line(constrain, centre, width, log_atoms)


def _repeated(log_density: Callable[[Tensor], Tensor], line: _Line, place: int) -> float:
    """Log mass of one element by the adaptive rule, where it settles."""
    centre, width = float(line.centre.flatten()[place]), float(line.width.flatten()[place])

    def one(points: NDArray[np.float64]) -> NDArray[np.float64]:
        there = torch.from_numpy(points).reshape(-1, *(1,) * line.centre.ndim).expand(-1, *line.centre.shape)
        found: NDArray[np.float64] = (
            log_density(there).expand(there.shape).reshape(len(points), -1)[:, place].numpy()
        )
        return found

    exact, settled = adaptive_log_integral(one, centre, width)
    atoms = float(line.log_atoms.flatten()[place])
    return float(np.logaddexp(exact, atoms)) if settled else -math.inf


def _of_count(node: _Node, generator: torch.Generator) -> float:
    """Log mass over whole numbers, the largest of a node's elements."""
    distribution = node.distribution
    draws = distribution.sample(generator, (DRAWS, *node.shape), *_allowed(node))
    low, centre, high = torch.quantile(draws.nan_to_num(nan=0.0), _QUARTERS, 0)
    width = (0.74 * (high - low)).clamp_min(1.0)
    certain = -math.inf
    for points, ladder in ((POINTS, LADDER), (FINER * POINTS, FINER_LADDER)):
        steps, _ = stretched(points)
        spread = torch.round(centre + width * steps.reshape(-1, *(1,) * centre.ndim))
        values = torch.cat([spread, *_ladders(draws, *ladder)]).sort(0).values
        # the trapezoidal rule is the sum where no whole number is left out; equal ones share theirs
        gaps = torch.zeros_like(values)
        gaps[1:-1] = 0.5 * (values[2:] - values[:-2])
        found = finite_mass(distribution.log_prob(values, *node.parameters)) + torch.log(gaps)
        certain = float(torch.logsumexp(found, 0).max())
        if certain < SUSPICIOUS:
            break
    return certain


def _ladders(draws: Tensor, dense: int, sparse: int) -> list[Tensor]:
    """Whole numbers around 0 and the ends of draws, all of them nearby and ever fewer farther away.

    There probabilities may pile up, as those of overdispersed counts do at 0: a sum that leaves out the
    neighbours of such a place takes it for as wide as the gap, or misses it.
    """
    far = torch.logspace(math.log10(dense), LADDER_REACH, sparse, dtype=torch.float64).round()
    steps = torch.cat([torch.arange(dense, dtype=torch.float64), far])
    both = torch.cat([-steps, steps]).reshape(-1, *(1,) * (draws.ndim - 1))
    known = draws.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return [anchor + both for anchor in (torch.zeros_like(known[0]), known.amin(0), known.amax(0))]


def _of_vector(node: _Node, generator: torch.Generator) -> float:
    """Log mass over vectors as far as it is certain, of the first of a node's draws."""
    distribution = node.distribution
    coordinates = distribution.coordinates if node.latent else None
    dimension = math.prod(node.shape[len(node.shape) - distribution.event_rank :])
    if dimension > MOST_DIMENSIONS or distribution.discrete:
        return -math.inf
    count = max(FEWEST_DRAWS, DRAWS_PER_DIMENSION * dimension)
    safe = _allowed(node)
    draws = distribution.sample(generator, (count, *node.shape), *safe)
    log_jacobian = torch.zeros((), dtype=torch.float64)
    u = draws
    if coordinates is not None:
        reads = [safe[index] for index in coordinates.reads]
        u = coordinates.unconstrain(draws, *reads)
        draws, log_jacobian = coordinates.constrain(u, *reads)
    log_density = finite_mass(distribution.log_prob(draws, *node.parameters) + log_jacobian)
    batch = math.prod(node.shape[: len(node.shape) - distribution.event_rank])
    return reciprocal_log_mass(
        u.reshape(count, batch, -1)[:, 0].numpy(), log_density.reshape(count, -1)[:, 0].numpy()
    )


def reciprocal_log_mass(
    draws: Float[np.ndarray, "draws dim"], log_density: Float[np.ndarray, " draws"]
) -> float:
    """Log of the mass of a density, less what is uncertain of it, from exact draws and its values there.

    The mean over exact draws of a normalised density over the claimed one is one over the claimed mass. The
    normalised one is a normal fitted to the first half of the draws, cut off where half of these lie beyond:
    by their ranks, which heavy tails do not disturb, or by their moments, which know directions in which the
    draws hardly vary, as a smooth process has. Either mean misses what lies where the other half of the draws
    do not reach, and the larger one misses less.

    Args:
        draws: Independent draws, unconstrained.
        log_density: What is claimed of them, in nats.
    """
    half, dimension = len(draws) // 2, draws.shape[1]
    found = [_log_mean_ratio(fit, draws, log_density) for fit in (_by_ranks, _by_moments)]
    largest = max(found, key=lambda each: each[0])
    if half == 0 or not math.isfinite(largest[0]):
        return -math.inf
    log_mean, error = largest
    return float(-log_mean - STANDARD_ERRORS * error - SLACK_PER_DIMENSION * dimension)


class _Fit(NamedTuple):
    """A normal that was fitted to draws.

    Attributes:
        centre: Its mean `[dim]`.
        lower: Triangular factor of its covariance `[dim, dim]`.
    """

    centre: Floats
    lower: Floats


def _log_mean_ratio(
    fit: Callable[[Floats], _Fit | None], draws: Floats, log_density: Floats
) -> tuple[float, float]:
    """Log of the mean ratio of a fitted normal and the density, and its relative error; -inf for none."""
    half, dimension = len(draws) // 2, draws.shape[1]
    fitted = fit(draws[:half])
    if fitted is None:
        return -math.inf, math.inf
    squared = (np.linalg.solve(fitted.lower, (draws - fitted.centre).T) ** 2).sum(0)
    radius = float(np.median(squared[:half]))
    log_volume = float(np.log(np.diag(fitted.lower)).sum()) + float(chi2.logcdf(radius, dimension))
    log_normal = -0.5 * (squared[half:] + dimension * math.log(2.0 * math.pi)) - log_volume
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = np.where(squared[half:] < radius, log_normal - log_density[half:], -np.inf)
    top = float(ratio.max(initial=-np.inf))
    if not math.isfinite(top):
        return -math.inf, math.inf
    weight = np.exp(ratio - top)
    mean = float(weight.mean())
    return top + math.log(mean), float(weight.std(ddof=1)) / math.sqrt(len(weight)) / mean


def _by_ranks(draws: Floats) -> _Fit | None:
    low, centre, high = np.quantile(draws, (0.25, 0.5, 0.75), axis=0)
    scale = np.maximum(0.74 * (high - low), 1e-290)
    # heavy tails have no covariance
    scores = ndtri((np.argsort(np.argsort(draws, 0), 0) + 0.5) / len(draws))
    return _fit(centre, scale, np.atleast_2d(np.corrcoef(scores.T)), 1e-6)


def _by_moments(draws: Floats) -> _Fit | None:
    with np.errstate(all="ignore"):
        scale = np.maximum(draws.std(0), 1e-290)
        correlation = np.atleast_2d(np.corrcoef(((draws - draws.mean(0)) / scale).T))
    return _fit(draws.mean(0), scale, correlation, 1e-14)


def _fit(centre: Floats, scale: Floats, correlation: Floats, ridge: float) -> _Fit | None:
    if not (np.isfinite(correlation).all() and np.isfinite(centre).all() and np.isfinite(scale).all()):
        return None
    try:
        factor = np.linalg.cholesky(correlation + ridge * np.eye(len(centre)))
    except np.linalg.LinAlgError:
        return None
    return _Fit(centre, scale[:, None] * factor)

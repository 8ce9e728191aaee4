"""How much mass a distribution claims for sure, by the densities that scores are made of.

Independent of the guards at run time: every decade of the line is looked at, not only where draws lie, and a
total counts as far as it is certain. What validation or the scorer refuses claims nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from normalisation_parts.graphs import graph_of
from normalisation_parts.laws import Family, Point
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.precision import check_prior

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
DECADES = np.r_[-(10.0 ** np.arange(300.0, -301.0, -3.0)), 0.0, 10.0 ** np.arange(-300.0, 301.0, 3.0)]
STEPS = 10.0 ** np.arange(-6.0, 9.0, 0.5)
HALVINGS = 60
FIRST_HALVINGS = 4
"""Halvings of every panel that holds mass."""
BISECTIONS = 110
"""Of three decades, to neighbouring doubles."""
TOLERANCE = 1e-10
NEGLIGIBLE = 1e-8
"""Change of all panels together, relative to the total, at which halving ends."""
MOST_PANELS = 20_000
DRAWS = 512
VECTOR_DRAWS = 8192
STANDARD_ERRORS = 6.0
MOST_CORRELATED = 1.0 - 1e-6
"""Vectors whose entries are closer to each other are too flat for draws in double precision to weigh."""
WIDER = 1.3
"""Scale of a proposal over that of the draws that it is fitted to."""
BRIDGES = 100
"""Steps to the fixed point of bridge sampling."""
RESOLVED = 1e6
"""Spacings of double precision that a density is to span: what is narrower is no density there."""
FEWEST = 32.0
"""Spacings of double precision that a panel is to span, on either side of its middle."""
WINDOW = 1 << 16
"""Whole numbers that are summed one by one."""
LARGEST_COUNT = 2.0**53
LARGEST_DENSITY = 1e300
"""Logs beyond it stand for a density that is infinite at a point, which holds no mass there."""
X = {"x": np.zeros(1)}

Vector = NDArray[np.float64]


class Total(NamedTuple):
    """What a case claims.

    Attributes:
        log_mass: Log of the mass that is certain; -inf if there is none.
        outcome: `"sum"`, `"quadrature"`, `"draws"`, `"refused"`, `"unresolved"` or `"crash"`.
        message: Why it was refused, or the exception.
    """

    log_mass: float
    outcome: str
    message: str = ""


def total_of(family: Family, point: Point, role: str, rounding: float | None = None) -> Total:
    """The mass of a distribution at some parameters.

    Args:
        family: The distribution.
        point: Its parameters.
        role: `"response"`, integrated over values of one row, or `"latent"`, over unconstrained coordinates.
        rounding: Spacing of a response that was recorded with one.
    """
    node = {**family.attributes, "inputs": family.inputs(point), "shape": list(family.shape)}
    generator = torch.Generator().manual_seed(1)
    try:
        if role == "latent":
            response = {"law": "Normal", "inputs": [_first(family), 1.0]}
            model = {"latents": {"z": node}, "response": response}
            density = _density(model, np.zeros(1))
            check_prior(density, generator)
            return _latent(density, generator, _places(family, node["inputs"])[0])
        model = {"response": {**node, "shape": [1]}}
        if family.entry.event_rank:
            return _count_vectors(family, node)
        if family.entry.discrete:
            return _counts(_density(model, np.zeros(1, np.int64)), generator)
        density = _density(model, np.zeros(1), rounding)
        if rounding is not None:
            return _counts(density, generator, rounding)
        return _numbers(density, generator, *_places(family, node["inputs"]))
    except ProgramFailure as failure:
        return Total(-math.inf, "refused", str(failure))
    except RuntimeError as error:
        return Total(-math.inf, "crash", str(error).splitlines()[0])


def _first(family: Family) -> Any:
    """The first entry of a latent."""
    if not family.shape:
        return "z"
    return {"op": "sum", "inputs": ["z"], "axis": list(range(len(family.shape)))}


def _density(model: Any, response: NDArray[Any], rounding: float | None = None) -> Density:
    return build_density(graph_of(model, response, X), X, response, rounding)


def _places(family: Family, inputs: list[Any]) -> tuple[list[float], list[float]]:
    """Where a density may jump, and which of these points carry mass of their own."""
    places = [float(each) for each in inputs if isinstance(each, float | int)]
    if family.entry.support is Support.CIRCLE:
        places += [-math.pi, math.pi]
    if not family.entry.atoms:
        return places, []
    return places, places[: len(family.attributes.get("bounds", ()))] or [0.0]


def _numbers(density: Density, generator: torch.Generator, places: list[float], atoms: list[float]) -> Total:
    def log_density(y: Vector) -> Vector:
        values = torch.from_numpy(y)[:, None]
        found: Vector = density.response_log_prob(torch.zeros(len(y), 0), values)[:, 0].numpy()
        return np.where(found < LARGEST_DENSITY, found, -np.inf)

    def between(y: Vector) -> Vector:
        return np.where(np.isin(y, atoms), -np.inf, log_density(y))

    draws = density.sample_response(torch.zeros(DRAWS, 0), generator)[:, 0].numpy()
    draws = draws[np.isfinite(draws) & ~np.isin(draws, atoms)]
    found = line_mass(between, draws, places)
    if found.outcome == "unresolved" or not atoms:
        return found
    points = float(_log_sum(log_density(np.unique(atoms))))
    return found._replace(log_mass=float(np.logaddexp(found.log_mass, points)))


def _latent(density: Density, generator: torch.Generator, places: list[float]) -> Total:
    if density.dimension == 1:
        draws = density.sample_prior(DRAWS, generator)[:, 0].numpy()

        def log_density(u: Vector) -> Vector:
            with torch.no_grad():
                found: Vector = density.log_prior(torch.from_numpy(u)[:, None]).numpy()
            return found

        return line_mass(log_density, draws, _unconstrained(density, places))
    theta = density.sample_prior(VECTOR_DRAWS, generator)
    with torch.no_grad():
        claimed = density.log_prior(theta).numpy()
    return Total(vector_mass(theta.numpy(), claimed, density), "draws")


def _unconstrained(density: Density, places: list[float]) -> list[float]:
    """Coordinates of values of a latent, on either side of each, by bisection: transforms are monotone."""

    def values(u: Vector) -> Vector:
        with torch.no_grad():
            (found,) = density.constrain(torch.from_numpy(u)[:, None]).values()
        return found.numpy()

    ends = np.sort(DECADES)
    if values(ends).ndim > 1:  # one coordinate of several values, which jumps nowhere
        return []
    sign = -1.0 if values(np.ones(1))[0] < values(-np.ones(1))[0] else 1.0
    wanted = sign * np.array(places, dtype=np.float64)
    position = np.searchsorted(sign * values(ends), wanted)
    inner = (position > 0) & (position < len(ends))
    wanted, low, high = wanted[inner], ends[position[inner] - 1], ends[position[inner]]
    for _ in range(BISECTIONS):
        middle = low + 0.5 * (high - low)
        below = sign * values(middle) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return [*low.tolist(), *high.tolist()]


def line_mass(log_density: Callable[[Vector], Vector], draws: Vector, places: Sequence[float] = ()) -> Total:
    """The mass of a density on the line, by halving panels of every decade and around exact draws.

    Args:
        log_density: Elementwise.
        draws: Exact draws, which say where it is narrow.
        places: Where it may jump. A jump next to the end of a panel is seen by no node of it.
    """
    edges = [DECADES, np.array(places, dtype=np.float64)]
    cut = np.zeros(2)
    if len(draws):
        low, centre, high = np.quantile(draws, (0.25, 0.5, 0.75))
        width = max(high - low, 1e-300)
        edges += [centre + width * STEPS, centre - width * STEPS, np.quantile(draws, np.linspace(0, 1, 17))]
        spacing = RESOLVED * float(np.spacing(max(abs(draws.min()), abs(draws.max()))))
        if width < spacing:
            cut = np.array([draws.min() - spacing, draws.max() + spacing])
            edges.append(cut)
    knots = np.unique(np.concatenate(edges))
    knots = knots[np.isfinite(knots)]
    low_ends, high_ends = knots[:-1], knots[1:]
    # where numbers are too coarse for the density its values at them say nothing of its mass
    kept = (high_ends <= cut[0]) | (low_ends >= cut[1])
    found, settled = _panels(log_density, low_ends[kept], high_ends[kept])
    return Total(found, "quadrature") if settled else Total(-math.inf, "unresolved")


def _panels(log_density: Callable[[Vector], Vector], low: Vector, high: Vector) -> tuple[float, bool]:
    def over(a: Vector, b: Vector) -> Vector:
        half = 0.5 * (b - a)
        x = (0.5 * (a + b))[:, None] + half[:, None] * NODES
        values = log_density(x.ravel()).reshape(x.shape)
        with np.errstate(divide="ignore"):
            values = np.where(np.isfinite(values), values, -np.inf) + np.log(WEIGHTS * half[:, None])
        # nodes that round to a few numbers say nothing of what lies between
        coarse = half < FEWEST * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        return np.where(coarse, -np.inf, _log_sum(values))

    whole, done = over(low, high), -math.inf
    for halving in range(HALVINGS):
        middle = 0.5 * (low + high)
        left, right = over(low, middle), over(middle, high)
        both = np.logaddexp(left, right)
        total = float(np.logaddexp(done, _log_sum(both)))
        if total == -math.inf:
            return total, True
        # a whole panel may claim what its halves are too coarse for
        with np.errstate(over="ignore"):
            change = np.abs(np.exp(both - total) - np.exp(whole - total))
        # a jump may lie so that a panel and its halves agree by chance
        unsettled = (change > TOLERANCE) | ((halving < FIRST_HALVINGS) & (both - total > math.log(TOLERANCE)))
        done = float(np.logaddexp(done, _log_sum(both[~unsettled])))
        if halving >= FIRST_HALVINGS and change[unsettled].sum() < NEGLIGIBLE:
            return float(np.logaddexp(done, _log_sum(both[unsettled]))), True
        low = np.r_[low[unsettled], middle[unsettled]]
        high = np.r_[middle[unsettled], high[unsettled]]
        whole = np.r_[left[unsettled], right[unsettled]]
        if len(low) > MOST_PANELS:
            break
    # what is left is a panel of a few spacings of double precision, or a density that is not smooth anywhere
    return done, bool(done > _log_sum(whole) + math.log(1e6))


def _log_sum(values: Vector) -> Any:
    if values.shape[-1] == 0:
        return -np.inf
    top = np.max(values, -1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(-1)) + top[..., 0]


def _counts(density: Density, generator: torch.Generator, spacing: float = 1.0) -> Total:
    """Sums over whole numbers: all of them where the draws lie, with gaps beyond."""

    def log_mass(steps: Vector) -> Vector:
        values = torch.from_numpy(steps * spacing)[:, None]
        found: Vector = density.response_log_prob(torch.zeros(len(steps), 0), values)[:, 0].numpy()
        return np.where(np.isfinite(found), found, -np.inf)

    draws = density.sample_response(torch.zeros(DRAWS, 0), generator)[:, 0].numpy() / spacing
    draws = draws[np.isfinite(draws)]
    middle = float(np.median(draws)) if len(draws) else 0.0
    reach = float(np.ptp(draws)) + 64.0 if len(draws) else 64.0
    window = np.floor(middle - min(3.0 * reach, WINDOW / 2)) + np.arange(min(6.0 * reach, WINDOW))
    beyond = np.sinh(np.linspace(-40.0, 40.0, 20_001)) * max(reach / 64.0, 1.0)
    steps = np.unique(np.concatenate([np.arange(-256.0, 4096.0), window, np.round(middle + beyond), draws]))
    steps = steps[np.abs(steps) < LARGEST_COUNT]
    found = log_mass(steps)
    between = np.maximum(np.diff(steps) - 1.0, 0.0)
    with np.errstate(divide="ignore"):
        # whole numbers between two neighbours have at least the smaller one's probability, but at a mode
        skipped = np.minimum(found[1:], found[:-1]) + np.log(between)
    return Total(float(np.logaddexp(_log_sum(found), _log_sum(skipped))), "sum")


def _count_vectors(family: Family, node: Any) -> Total:
    """The sum over all vectors of counts of a small total."""
    parameters = list(node["inputs"])
    count = min(int(parameters[0]), 6)
    # a total is read from a column: it says nothing of the rows
    parameters[0] = {"op": "sum", "inputs": ["g"], "axis": [0]}
    logs = []
    for parts in itertools.product(range(count + 1), repeat=len(family.shape) and family.shape[-1]):
        if sum(parts) != count:
            continue
        response = np.array(parts, np.int64)
        columns = {"g": np.array([count] + [0] * (len(parts) - 1), np.int64)}
        model = {"response": {**node, "inputs": parameters, "shape": [len(parts)]}}
        density = build_density(graph_of(model, response, columns), columns, response)
        logs.append(float(density.log_likelihood(torch.zeros(1, 0)).sum()))
    return Total(float(_log_sum(np.array(logs))), "sum")


def vector_mass(draws: Vector, log_density: Vector, density: Density) -> float:
    """Log of the mass of a density of vectors that is certain, by exact draws and by importance sampling.

    Args:
        draws: Exact draws `[draws, dimension]`, unconstrained.
        log_density: What is claimed of them.
        density: What claims it.
    """
    half, dimension = len(draws) // 2, draws.shape[1]
    fitted, weighed = draws[:half], draws[half:]
    low, centre, high = np.quantile(fitted, (0.25, 0.5, 0.75), axis=0)
    scale = 0.74 * (high - low)
    if not (np.isfinite(scale).all() and (scale > 1e-290).all()):
        return -math.inf
    ranks = stats.norm.ppf((np.argsort(np.argsort(fitted, 0), 0) + 0.5) / half)
    correlation = np.atleast_2d(np.corrcoef(ranks.T))
    if np.abs(correlation - np.eye(dimension)).max() > MOST_CORRELATED:
        return -math.inf
    factor = np.linalg.cholesky(correlation + 1e-9 * np.eye(dimension))
    log_volume = np.log(np.diag(factor)).sum() + np.log(scale).sum()
    freedom = 4.0
    generator = np.random.default_rng(0)
    t = generator.standard_normal((half, dimension)) / np.sqrt(
        generator.chisquare(freedom, (half, 1)) / freedom
    )
    proposed = centre + WIDER * scale * (t @ factor.T)
    law = stats.multivariate_t(np.zeros(dimension), np.eye(dimension), freedom)
    log_volume += dimension * math.log(WIDER)
    whitened = np.linalg.solve(factor, ((weighed - centre) / (WIDER * scale)).T).T
    with torch.no_grad():
        claimed = density.log_prior(torch.from_numpy(proposed)).numpy()
    of_draws = log_density[half:] - np.atleast_1d(law.logpdf(whitened)) + log_volume
    of_proposed = np.where(np.isfinite(claimed), claimed, -np.inf)
    of_proposed = of_proposed - np.atleast_1d(law.logpdf(t)) + log_volume
    return max(_bridged(of_draws, of_proposed), _certain(of_proposed))


def _bridged(of_draws: Vector, of_proposed: Vector) -> float:
    """Log of the mass by bridge sampling (Meng and Wong 1996), less its standard errors.

    Every draw counts for at most a share of its kind: where exact draws and proposals do not overlap, the
    standard error says so, which that of one-sided importance weights does not.

    Args:
        of_draws: Log of claimed density over the proposal's at exact draws of what is claimed.
        of_proposed: The same at draws from the proposal.
    """
    log_mass = 0.0
    for _ in range(BRIDGES):
        ours, theirs = expit(of_proposed - log_mass), expit(log_mass - of_draws)
        if not ours.mean() > 0 or not theirs.mean() > 0:
            return -math.inf
        log_mass += math.log(ours.mean()) - math.log(theirs.mean())
    parts = (part.var(ddof=1) / (len(part) * part.mean() ** 2) for part in (ours, theirs))
    error = STANDARD_ERRORS * math.sqrt(sum(parts))
    return log_mass + math.log1p(-error) if error < 1.0 else -math.inf


def _certain(log_values: Vector) -> float:
    """Log of a mean less its standard errors; -inf where it says nothing."""
    top = log_values.max()
    if not math.isfinite(top):
        return -math.inf
    values = np.exp(log_values - top)
    mean = values.mean()
    error = STANDARD_ERRORS * values.std(ddof=1) / math.sqrt(len(values))
    # the largest value's own share says how little is known of larger ones
    error += values.max() / len(values) * STANDARD_ERRORS
    return float(top + math.log(mean - error)) if mean > error else -math.inf


def roles(family: Family) -> list[str]:
    """In which places a distribution may stand."""
    if family.entry.support is Support.COUNT_VECTOR:
        return ["response"]
    found = [] if family.entry.event_rank else ["response"]
    return [*found, "latent"] if family.may_be_latent else found

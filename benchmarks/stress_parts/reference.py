"""Exact evidence and leave-one-out density by quadrature that tells its own error.

Nothing here uses the scoring engine. The trapezoidal rule converges exponentially for smooth integrands that
vanish at the ends. A grid is therefore summed three times, with every fourth point, every second and all:
what the second halving of the step changes, times its ratio to what the first one changed, bounds the error
that is left.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]
Terms = tuple[Array, Array]
"""At each point `[points]` the log of prior times likelihood, and the log density of each row given all other
rows and the point `[points, rows]`."""
CHUNK = 4096
"""Points that are evaluated at a time."""


class Reference(NamedTuple):
    """What a program's scores are.

    Attributes:
        evidence: Log evidence of all rows, in nats.
        elpd: Sum over rows of each one's log density given all others, in nats.
        error: Bound of the error of both, in nats.
    """

    evidence: float
    elpd: float
    error: float


@dataclass(frozen=True)
class Case:
    """A program with its data and exact answers.

    Attributes:
        source: The program, as a person would write it.
        data: Column name to values.
        reference: Exact evidence and elpd, computed on demand.
        response: Name of the response column.
    """

    source: str
    data: Mapping[str, NDArray[np.generic]]
    reference: Callable[[], Reference]
    response: str = "y"


def model(*lines: str) -> str:
    """A program from the lines in its `with` block."""
    return "\n".join(["with pm.Model() as model:", *(f"    {line}" for line in lines), ""])


def axis(low: float, high: float, step: float) -> Array:
    """Equally spaced points, so many that every fourth one includes both ends."""
    return np.linspace(low, high, 4 * math.ceil((high - low) / step / 4) + 1)


def over_grid(axes: list[Array], terms: Callable[[Array], Terms], chunk: int = CHUNK) -> Reference:
    """Integrates over a grid of equally spaced points.

    Args:
        axes: Points of each coordinate.
        terms: What is integrated, at points `[points, coordinates]`; the prior with respect to these
            coordinates.
        chunk: Points that are evaluated at a time.
    """
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    index = np.stack(np.meshgrid(*[np.arange(len(a)) for a in axes], indexing="ij"), -1).reshape(grid.shape)
    last = np.array([len(a) - 1 for a in axes])
    chosen = [(index % every == 0).all(1) for every in (1, 2, 4)]
    chosen.append(((index == 0) | (index == last)).any(1))
    sums: list[Array | float] = [-math.inf] * len(chosen)
    with np.errstate(divide="ignore"):
        for start in range(0, len(grid), chunk):
            part = slice(start, start + chunk)
            log_joint, log_row = terms(grid[part])
            both = np.column_stack([log_joint, log_joint[:, None] - log_row])
            for number, mask in enumerate(chosen):
                if mask[part].any():
                    sums[number] = np.logaddexp(sums[number], logsumexp(both[mask[part]], axis=0))
    cell = sum(math.log(a[1] - a[0]) for a in axes)
    thinned = [np.asarray(found) + cell + len(axes) * k * math.log(2) for k, found in enumerate(sums[:3])]
    found, half, quarter = (_scores(each) for each in thinned)
    first = max(abs(a - b) for a, b in zip(half, quarter, strict=True))
    second = max(abs(a - b) for a, b in zip(found, half, strict=True))
    # as if what is at the ends went on for another unit of the coordinate, or fell by e within each
    lost = np.exp(np.asarray(sums[3]) + cell - thinned[0]) / min(a[1] - a[0] for a in axes)
    beyond = max(lost[0], float(np.abs(lost[0] - lost[1:]).sum()))
    return Reference(*found, second * min(1.0, second / max(first, 1e-300)) + float(beyond))


def _scores(log_sums: Array) -> tuple[float, float]:
    return float(log_sums[0]), float((log_sums[0] - log_sums[1:]).sum())


def refined(at: Callable[[int], Reference], nodes: int) -> Reference:
    """The answer with twice as many inner nodes; what the doubling changed counts as error."""
    first, second = at(nodes), at(2 * nodes)
    change = max(abs(first.evidence - second.evidence), abs(first.elpd - second.elpd))
    return second._replace(error=second.error + change)


def closed_form(log_evidence: Callable[[NDArray[np.bool_]], float], rows: int) -> Reference:
    """Applies a closed form to all rows and to all but each one."""
    everything = np.ones(rows, dtype=bool)
    total = log_evidence(everything)
    elpd = 0.0
    for row in range(rows):
        kept = everything.copy()
        kept[row] = False
        elpd += total - log_evidence(kept)
    return Reference(float(total), float(elpd), 1e-9)


def gaussian(residual: Array, parts: list[Array], weights: Array) -> Terms:
    """A normal vector whose covariance is a weighted sum of matrices.

    Args:
        residual: Response minus its mean, `[rows]` or `[points, rows]`.
        parts: Matrices `[rows, rows]`.
        weights: Of each matrix at each point `[points, parts]`.

    Returns:
        Log density at each point and of each row given the others.
    """
    covariance = np.einsum("pk,kij->pij", weights, np.stack(parts))
    inverse = np.linalg.inv(covariance)
    shifted = np.broadcast_to(residual, (len(weights), residual.shape[-1]))
    solved = np.einsum("pij,pj->pi", inverse, shifted)
    precision = np.einsum("pii->pi", inverse)
    constant = 0.5 * math.log(2 * math.pi)
    log_density = -0.5 * (shifted * solved).sum(1) - 0.5 * np.linalg.slogdet(covariance)[1]
    log_row = 0.5 * np.log(precision) - 0.5 * solved**2 / precision - constant
    return log_density - shifted.shape[1] * constant, log_row


def rank_one(y: Array, loading: Array, scale: Array) -> Terms:
    """Persons who are independent given loadings: `y[p, j] ~ N(loading[j] f[p], scale)`, `f ~ N(0, 1)`.

    Args:
        y: Responses `[persons, items]`.
        loading: At each point `[points, items]`.
        scale: At each point `[points]`.

    Returns:
        Log density of each person `[points, persons]` and of each response given the person's others
        `[points, persons, items]`.
    """
    variance = scale[:, None] ** 2
    whole = variance + (loading**2).sum(1, keepdims=True)
    score = loading @ y.T
    solved = (y - loading[:, None] * (score / whole)[..., None]) / variance[..., None]
    precision = ((1 - loading**2 / whole) / variance)[:, None]
    items = y.shape[1]
    constant = 0.5 * math.log(2 * math.pi)
    log_det = (items - 1) * np.log(variance) + np.log(whole)
    log_person = -0.5 * (y * solved).sum(-1) - 0.5 * log_det - items * constant
    return log_person, 0.5 * np.log(precision) - 0.5 * solved**2 / precision - constant


def grouped(log_weight: Array, log_likelihood: Array, group: NDArray[np.int64]) -> Terms:
    """Rows of groups with one unknown each, integrated over nodes.

    Args:
        log_weight: Log of prior times step at each node, `[points, nodes]` or `[nodes]`.
        log_likelihood: `[points, nodes, rows]` or `[nodes, rows]`.
        group: Of each row.
    """
    if log_likelihood.ndim == 2:
        log_likelihood = log_likelihood[None]
    member = np.eye(int(group.max()) + 1)[group]
    joint = log_likelihood @ member + np.atleast_2d(log_weight)[..., None]
    total = logsumexp(joint, axis=1)
    without = logsumexp(joint[..., group] - log_likelihood, axis=1)
    return total.sum(1), total[:, group] - without


def at_nodes(terms: Terms) -> Reference:
    """An answer without hyperparameters, from one point."""
    return Reference(float(terms[0][0]), float(terms[1][0].sum()), 0.0)


def mixed(log_joint: Array, log_row: Array) -> Terms:
    """Sums over cases.

    Args:
        log_joint: Log of prior times likelihood `[cases, points]`.
        log_row: Log density of each row given the others `[cases, points, rows]`.
    """
    total = logsumexp(log_joint, axis=0)
    return total, total[:, None] - logsumexp(log_joint[..., None] - log_row, axis=0)


def subsets(size: int) -> NDArray[np.int64]:
    """All rows of zeros and ones `[2 ** size, size]`."""
    return np.array(list(itertools.product((0, 1), repeat=size)))

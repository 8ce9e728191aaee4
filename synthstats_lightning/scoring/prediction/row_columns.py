"""Leave-one-out of many rows, some columns of the table of draws and rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.target import (
    Marginals,
    Pointwise,
    Target,
    finite_or_minus_infinity,
)
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.psis import Loo

NUMBERS = 1_000_000
"""Draws times rows of one part."""


def own_columns(
    tables: Sequence[Float[Tensor, "_ rows"]], first_row: int
) -> Iterator[Float[Tensor, "draws some"]]:
    """Neighbouring columns of a table, in a memory of their own.

    Args:
        tables: The table that they are columns of, some draws after the other.
        first_row: Its first column that counts.
    """
    width = max(1, NUMBERS // sum(map(len, tables)))
    rows = tables[0].shape[1]
    for start in range(first_row, rows, width):
        yield torch.cat([table[:, start : min(start + width, rows)] for table in tables]).contiguous()


def row_columns(
    target: Target, particles: Particles, first_row: int, found: Sequence[Marginals] = ()
) -> Iterator[Pointwise]:
    """What `pointwise` has of the rows from one on, neighbouring ones together.

    Args:
        target: The model in the coordinates of the particles.
        particles: Draws with their densities.
        first_row: The first row.
        found: Of rows that depend on each other, the whole and all but each, some draws after the other.
    """
    if found:
        total, changed = torch.cat([part.given for part in found]), [part.changed for part in found]
        alike = alike_rows(target, first_row)
        if alike is not None:
            changed, first_row = [part[:, first_row + alike.first] for part in changed], 0
        for some in own_columns(changed, first_row):
            own = torch.where(total.isfinite()[:, None], total[:, None] - some, -torch.inf)
            yield Pointwise(finite_or_minus_infinity(own), finite_or_minus_infinity(some))
        return
    finite = torch.zeros(len(particles.theta), 1, dtype=torch.float64)
    impossible = torch.zeros_like(finite)
    for own in own_columns([particles.log_likelihood], 0):
        finite += torch.where(own.isfinite(), own, 0.0).sum(1, keepdim=True)
        impossible += (~own.isfinite()).sum(1, keepdim=True)
    for own in own_columns([particles.log_likelihood], first_row):
        possible = own.isfinite()
        others = finite - torch.where(possible, own, 0.0)
        yield Pointwise(own, torch.where(impossible == (~possible), others, -torch.inf))


class Alike(NamedTuple):
    """Rows whose columns are equal.

    Attributes:
        first: One of each kind `[kinds]`.
        kind: Of each row, the kind that it is of `[rows]`.
    """

    first: Int[Tensor, " kinds"]
    kind: Int[Tensor, " rows"]


def alike_rows(target: Target, first_row: int) -> Alike | None:
    """Which rows from one on have the same density given all others; `None` where a target does not say.

    Args:
        target: The model; as `alike` it may have a number for each row, the same for equal ones.
        first_row: The first row.
    """
    known: Tensor | None = getattr(target, "alike", None)
    if known is None:
        return None
    _, kind = torch.unique(known[first_row:], return_inverse=True)
    places = torch.arange(len(kind))
    first = torch.full((int(kind.max()) + 1,), len(kind)).scatter_reduce(0, kind, places, "amin")
    return Alike(first, kind)


def side_by_side(parts: Iterator[Loo], target: Target, draws: int, first_row: int) -> Loo:
    """Leave-one-out of all rows from that of neighbouring ones, influences in single precision.

    Args:
        parts: One after the other, of one of each of the rows that are alike.
        target: The model in the coordinates of the draws.
        draws: Number of draws.
        first_row: The first row.
    """
    alike = alike_rows(target, first_row)
    rows = target.num_observations - first_row if alike is None else len(alike.first)
    found: list[tuple[Tensor, ...]] = []
    influence = torch.empty(draws, rows, dtype=torch.float32)
    done = 0
    for part in parts:
        width = len(part.pointwise)
        influence[:, done : done + width] = part.influence
        done += width
        found.append((part.pointwise, part.pareto_k, part.effective_sample_size))
    pointwise, pareto_k, size = (torch.cat(each) for each in zip(*found, strict=True))
    if alike is not None:
        influence = influence[:, alike.kind]
        pointwise, pareto_k, size = (each[alike.kind] for each in (pointwise, pareto_k, size))
    return Loo(pointwise, pareto_k, influence, size)

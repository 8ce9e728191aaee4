"""Where an evaluation starts: parameters on their own scale, each in its node's slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple, cast

from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.layout import Parameter
from synthstats_lightning.scoring.density.many_rows import by_parts
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.marginals.blocks import ALONE, constrain_block, no_nan, row_sums
from synthstats_lightning.scoring.marginals.compilation import Compiled


class Start(NamedTuple):
    """What is known before any step of a graph has run.

    Attributes:
        values: Slots of the evaluation, those of the parameters filled.
        constrained: Blocks of parameters on their own scale, each `[particles, columns]`.
        jacobian: Log-Jacobians `[particles]` that are to be summed.
    """

    values: list[Tensor | None]
    constrained: list[Tensor]
    jacobian: list[Tensor]


def start(compiled: Compiled, theta: Tensor, splits: Sequence[int], logs: Set[int]) -> Start:
    """Every independent parameter in place.

    Args:
        compiled: The model with its data bound.
        theta: Unconstrained parameters `[particles, dim]`.
        splits: Columns of its blocks, then of its dependent parameters.
        logs: Nodes that are evaluated by their logarithms.
    """
    found = Start([None] * compiled.num_slots, [], [])
    pieces = theta.split_with_sizes(list(splits), 1) if len(splits) > 1 else (theta,)
    for block, piece in zip(compiled.blocks, pieces, strict=False):
        x, log_jacobian = constrain_block(block, piece, compiled.intervals, logs)
        found.constrained.append(x)
        if log_jacobian is not None:
            found.jacobian.append(row_sums(log_jacobian))
        members = x.split_with_sizes(block.sizes, 1) if len(block.parameters) > 1 else (x,)
        for parameter, member in zip(block.parameters, members, strict=True):
            found.values[parameter.node] = padded(member, parameter, compiled.rank)
    for dependent, piece in zip(compiled.dependents, pieces[len(compiled.blocks) :], strict=False):
        found.values[dependent.slot] = padded(piece, dependent.parameter, compiled.rank)
    return found


def prior_parts(
    compiled: Compiled,
    theta: Tensor,
    values: Sequence[Tensor | None],
    constrained: Sequence[Tensor],
    logs: Set[int],
) -> list[Tensor]:
    """Log prior densities `[particles]` that are to be summed, but for what discrete parameters enter.

    Args:
        compiled: The model with its data bound.
        theta: Unconstrained parameters `[particles, dim]`.
        values: Slots of an evaluation whose steps have run.
        constrained: Blocks of parameters on their own scale, each `[particles, columns]`.
        logs: Nodes that are evaluated by their logarithms.
    """
    parts = []
    for group in compiled.group_terms:
        block = compiled.blocks[group.block]
        x, u = constrained[group.block], theta[:, block.start : block.stop]
        if group.columns is not None:
            x, u = x.narrow(1, *group.columns), u.narrow(1, *group.columns)
        parts.append(row_sums(group.term.log_prob(values, x, u if block.transform in ALONE else None)))
    for parameter, term in compiled.parameter_terms:
        coordinate = None
        if parameter.node in logs:
            coordinate = padded(theta[:, parameter.start : parameter.stop], parameter, compiled.rank)
        parts.append(row_sums(term.log_prob(values, values[parameter.node], coordinate).flatten(1)))
    for dependent in compiled.dependents:
        log_jacobian = cast(Tensor, values[dependent.jacobian_slot])
        parts.append(row_sums(log_jacobian.reshape(theta.shape[0], -1)))
    return parts


def padded(x: Tensor, parameter: Parameter, rank: int) -> Tensor:
    """A parameter's columns in the padded layout of an evaluation.

    Args:
        x: The columns `[particles, size]`.
        parameter: The parameter that they are of.
        rank: Axes after the particle axis.
    """
    shape = pad(parameter.free, rank)
    return x if x.shape[1:] == shape else x.reshape(x.shape[0], *shape)


def run(steps: Sequence[Step], values: list[Tensor | None]) -> None:
    """Runs steps of a graph on the slots of an evaluation.

    Args:
        steps: In the order in which they depend on each other.
        values: Slots, of which those that the steps write are filled.
    """
    for slot, function, inputs in steps:
        values[slot] = function(*[values[i] for i in inputs])


def parts_of_draw(
    compiled: Compiled,
    started: Callable[[Tensor], Start],
    theta: Float[Tensor, "particles dim"],
    given: Bool[Tensor, " rows"],
    width: int,
    alone: bool = False,
) -> Marginals:
    """Densities of parts of a response that is one draw of a multivariate distribution.

    Args:
        compiled: The model with its data bound.
        started: Where its evaluation starts.
        theta: Unconstrained parameters of the model.
        given: Which rows count.
        width: Numbers of the widest temporary of one particle.
        alone: Whether nothing but the given rows' own density is needed.
    """

    def some(part: Tensor) -> tuple[Tensor, Tensor]:
        values, _, _ = started(part)
        run(compiled.likelihood_steps, values)
        found = compiled.response_term.subsets(values, given, alone)
        return found.given.expand(len(part)), found.changed.expand(len(part), -1)

    rows, known = compiled.num_observations, compiled.response_term.distribution.subsets_width
    wide = rows**2 if known is None else known(rows, int((~given).sum()))
    total, changed = by_parts(some, theta, max(width, wide))
    return Marginals(no_nan(total), no_nan(changed))

"""What validation demands of a random node's parameters: shapes, and where point masses may lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np

from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.demands.fields import check_intrinsic, check_matrix, check_total
from synthstats_lightning.programs.demands.vectors import check_vector, check_volatility
from synthstats_lightning.programs.distribution import Distribution
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import Node
from synthstats_lightning.programs.laws import VECTORS
from synthstats_lightning.programs.shapes import Shape, broadcast


@runtime_checkable
class NodesRead(Protocol):
    """The nodes before a random node."""

    nodes: list[Node]
    shapes: list[Shape]


def check_parameter_shapes(distribution: Distribution, shape: Shape, parameters: Sequence[Shape]) -> None:
    """Batch axes of parameters broadcast over those of a random node.

    Args:
        distribution: What the random node follows.
        shape: The shape of the random node.
        parameters: The shapes of the node's parameters.

    Raises:
        ValueError: If an event or a parameter lacks axes, or the batch axes do not broadcast.
    """
    if len(shape) < distribution.event_rank:
        raise ValueError(f"{distribution.name} yields at least {distribution.event_rank} axes")
    batch = shape[: len(shape) - distribution.event_rank]
    found = [batch]
    for name, rank, own in zip(distribution.parameters, distribution.ranks, parameters, strict=True):
        if len(own) < rank:
            raise ValueError(f"{name} of {distribution.name} needs at least {rank} axes")
        if 0 in own[len(own) - rank :]:
            raise ValueError(f"{name} of {distribution.name} has no elements")
        if name in distribution.event_from and own[-1] not in (1, shape[-1]):
            raise ValueError(f"{name} of {distribution.name} is not as long as a draw")
        if rank == 2 and distribution.event_rank == 1 and own[-2:] != (shape[-1], shape[-1]):
            raise ValueError(f"{name} of {distribution.name} is not square and as long as a draw")
        found.append(own[: len(own) - rank])
    if broadcast(found) != batch:
        raise ValueError(f"parameters of {distribution.name} do not broadcast to its shape")


def check_parameters(
    law: Mapping[str, Any], distribution: Distribution, inputs: tuple[int, ...], read: NodesRead
) -> None:
    """What some distributions demand beyond their entry.

    A mixture has as many weights as components. Point masses lie on one number each, or, where a continuous
    distribution is censored, at bounds that are known from covariates: never on a list of literals, which
    could copy the response, and never where a random bound would leave the density undefined.

    Args:
        law: The node's attributes.
        distribution: The entry of the node's distribution.
        inputs: The node's inputs.
        read: The nodes before this one.

    Raises:
        ValueError: If the numbers of weights and components differ, or an interpolated density has none.
        ProgramFailure: `UNSUPPORTED` for a point mass elsewhere.
    """
    name = law["distribution"]
    if name == "Mixture":
        _check_weights(law, distribution, inputs, read)
    elif name == "Interpolated":
        _check_points(inputs, read)
    elif name in ("Multinomial", "DirichletMultinomial"):
        check_total(inputs[0], read.nodes)
    elif name == "ICAR":
        check_intrinsic(inputs, read.nodes)
    elif name in ("LKJCorr", "LKJCorrCholesky", "MatrixNormal", "Wishart"):
        check_matrix(law, inputs, read.shapes)
    elif name == "GARCH11":
        check_volatility(law["shape"][-1])
    elif name in VECTORS:
        check_vector(law, distribution, inputs, read.nodes, read.shapes)
    for index, parameter in enumerate(distribution.parameters):
        node = read.nodes[inputs[index]]
        if parameter.split(".")[-1] == "c" and _is_dirac(law, parameter):
            if node.op != "constant" or len(set(constant_array(node).ravel().tolist())) != 1:
                _unsupported("a DiracDelta at something other than one constant")
        elif name == "Censored" and distribution.atoms and index < len(law["bounds"]):
            _check_known(inputs[index], read)


def _check_weights(
    law: Mapping[str, Any], distribution: Distribution, inputs: tuple[int, ...], read: NodesRead
) -> None:
    count = read.shapes[inputs[0]][-1]
    if len(law["components"]) > 1:
        if count != len(law["components"]):
            raise ValueError(f"a mixture of {len(law['components'])} components with {count} weights")
        return
    for rank, index in zip(distribution.ranks[1:], inputs[1:], strict=True):
        if rank and read.shapes[index][-1] not in (1, count):
            raise ValueError(f"a mixture of {read.shapes[index][-1]} components with {count} weights")


def _check_points(inputs: tuple[int, ...], read: NodesRead) -> None:
    """Points of an interpolated density: constants, increasing, with an area below them."""
    if any(read.nodes[index].op != "constant" or len(read.shapes[index]) != 1 for index in inputs):
        _unsupported("an Interpolated density through points that are not constant vectors")
    x, pdf, _ = (constant_array(read.nodes[index]).astype(np.float64) for index in inputs)
    if len(x) < 2 or len({read.shapes[index] for index in inputs}) > 1:
        raise ValueError("an Interpolated density needs two or more points, as many heights as places")
    if (np.diff(x) <= 0).any() or (pdf < 0).any() or not (pdf > 0).any():
        raise ValueError("an Interpolated density needs increasing places and heights that are not negative")


def _is_dirac(law: Mapping[str, Any], parameter: str) -> bool:
    if law["distribution"] != "Mixture":
        return False
    return bool(law["components"][int(parameter.split(".")[0])] == "DiracDelta")


def _check_known(bound: int, read: NodesRead) -> None:
    """A bound that no random node goes into, and no list of literals that are not all equal."""
    pending, seen = [bound], set()
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        node = read.nodes[index]
        if node.op == "random":
            _unsupported("a continuous distribution censored at a random bound")
        if node.op == "constant" and len(set(constant_array(node).ravel().tolist())) > 1:
            _unsupported("a continuous distribution censored at a list of literals: use a number or columns")
        pending += node.inputs


def _unsupported(message: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, message)

"""Which parameters of a model are in funnels, and the anchors that take them out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Parameter, unconstrain
from synthstats_lightning.scoring.density.standardise import SPREADS, Anchor, find_anchors
from synthstats_lightning.scoring.marginals.compilation import Compiled


def find_funnels(compiled: Compiled, parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Parameters that can be standardised and whose prior's width depends on other parameters.

    Args:
        compiled: The model with its data bound.
        parameters: Its parameters, in the order of their columns.
    """
    summed = () if compiled.labels is None else compiled.labels.plan.factors
    found = []
    for parameter in parameters:
        spreads = SPREADS.get(parameter.distribution.name, ())
        inputs = compiled.graph.nodes[parameter.node].inputs
        varies = any(compiled.constants[inputs[i]] is None for i in spreads)
        if varies and parameter.node not in summed and not parameter.distribution.event_rank:
            found.append(parameter)
    return tuple(found)


def prior_anchors(funnels: Sequence[Parameter]) -> dict[int, Anchor]:
    """Anchors by node that standardise by the prior alone (the non-centred form).

    Args:
        funnels: What is standardised.
    """
    zeros = {parameter.node: torch.zeros(parameter.shape, dtype=torch.float64) for parameter in funnels}
    return {node: Anchor(zero, zero) for node, zero in zeros.items()}


def likelihood_anchors(
    log_likelihood: Callable[[Float[Tensor, "particles dim"]], Float[Tensor, " particles"]],
    theta: Float[Tensor, " dim"],
    funnels: Sequence[Parameter],
    columns: Mapping[int, slice],
) -> dict[int, Anchor]:
    """Anchors by node that hold what the likelihood says of each parameter near a point.

    Args:
        log_likelihood: Of the rows that count together, in coordinates without anchors.
        theta: The point, in these coordinates.
        funnels: What is standardised.
        columns: Where these are in the coordinates, by node.
    """
    shapes = {parameter.node: parameter.shape for parameter in funnels}
    found = find_anchors(log_likelihood, theta, {node: columns[node] for node in shapes})
    return {node: Anchor(*(part.reshape(shapes[node]) for part in found[node])) for node in shapes}


def without_anchors(
    theta: Float[Tensor, "particles dim"],
    parameters: Sequence[Parameter],
    natural: Callable[[Parameter], Tensor],
    others: Sequence[Parameter],
) -> Float[Tensor, "particles other"]:
    """The same parameters as columns of a density without anchors; 0 for those that are lacking.

    Args:
        theta: Unconstrained parameters of a density.
        parameters: The parameters of this density, in the order of its columns.
        natural: Values of one of them on its own scale `[particles, *shape]`.
        others: Parameters of the other density, of a graph with the same indices of nodes.
    """
    mine = {parameter.node: parameter for parameter in parameters}
    columns = theta.new_zeros(len(theta), sum(parameter.stop - parameter.start for parameter in others))
    for parameter in others:
        own = mine.get(parameter.node)
        if own is None:
            continue
        u = theta[:, own.start : own.stop]
        if own.anchor is not None:
            u = unconstrain(own.base, natural(own)).reshape(len(theta), -1)
        columns[:, parameter.start : parameter.stop] = u
    return columns

"""Forms of a random node that are the same distribution with fewer roundings.

PyMC turns `logit_p`, `mu` and the like into the parameters of its native distributions:
`Bernoulli(logit_p=x)` reaches the model graph as `Bernoulli(p=sigmoid(x))`. Where `sigmoid(x)` rounds to 1
its complement is lost, and with it every gradient. Recognising the spelling brings the original back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.categories import category_form
from synthstats_lightning.scoring.distributions import Distribution, distribution_of
from synthstats_lightning.scoring.distributions.counts import NegativeBinomialMean
from synthstats_lightning.scoring.distributions.multivariate import normal_blocks


class Form(NamedTuple):
    """A distribution and the nodes of its parameters."""

    distribution: Distribution
    inputs: tuple[int, ...]


def accurate_form(graph: ModelGraph, node: int, constants: Sequence[Tensor | None]) -> Form:
    """The most accurate form of a random node.

    Args:
        graph: The model graph.
        node: Index of the random node.
        constants: Value of every node that depends on no parameter.
    """
    inputs = graph.nodes[node].inputs
    distribution = distribution_of(graph.nodes[node].attributes)
    for index, (op, linked) in distribution.links.items():
        source = graph.nodes[inputs[index]]
        if source.op == op and constants[inputs[index]] is None:
            return Form(linked, (*inputs[:index], source.inputs[0], *inputs[index + 1 :]))
    if distribution.name == "NegativeBinomial":
        mean = _negative_binomial_mean(graph, inputs, constants)
        if mean is not None:
            return Form(NegativeBinomialMean.distribution, (inputs[0], mean))
    if distribution.name == "MvNormal" and node == graph.response:
        found = _block_covariance(graph, inputs[1], constants)
        if found is not None:
            blocks, places, entries = found
            return Form(normal_blocks(blocks, places), (inputs[0], entries))
    if distribution.name == "Categorical" and node == graph.response:
        categories = category_form(graph, inputs[0], constants)
        if categories is not None:
            return Form(*categories)
    return Form(distribution, inputs)


def _negative_binomial_mean(
    graph: ModelGraph, inputs: Sequence[int], constants: Sequence[Tensor | None]
) -> int | None:
    """The node `mu` if `p` is spelled `n / (mu + n)`."""
    n, p = inputs
    if graph.nodes[p].op != "div" or constants[p] is not None:
        return None
    top, bottom = graph.nodes[p].inputs
    terms = graph.nodes[bottom].inputs
    if graph.nodes[bottom].op != "add" or len(terms) != 2 or not _same(n, top, constants):
        return None
    for term, other in (terms, terms[::-1]):
        if _same(n, other, constants):
            return term
    return None


def _block_covariance(
    graph: ModelGraph, cov: int, constants: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor, int] | None:
    """Blocks of a covariance that is spelled as places among its entries, of which 0 holds zero.

    Args:
        graph: The model graph, its shapes known.
        cov: Node of the covariance.
        constants: Value of every node that depends on no parameter.

    Returns:
        Entries of each block, places of each block's covariance and the node of what these count;
        `None` where the covariance is one block, is spelled otherwise, or blocks differ in size.
    """
    if graph.nodes[cov].op != "reshape" or constants[cov] is not None or not graph.shapes:
        return None
    (taken,) = graph.nodes[cov].inputs
    if graph.nodes[taken].op != "take" or len(graph.shapes[taken]) != 1:
        return None
    entries, index = graph.nodes[taken].inputs
    zero = constants[graph.nodes[entries].inputs[0]] if graph.nodes[entries].op == "concatenate" else None
    flat = constants[index]
    if flat is None or zero is None or zero.shape != (1,) or float(zero) != 0.0:
        return None
    places = flat.reshape(graph.shapes[cov])
    count, label = connected_components((places != 0).numpy(), directed=False)
    sizes = np.bincount(label)
    if count < 2 or len(set(sizes.tolist())) > 1:
        return None
    blocks = torch.from_numpy(np.argsort(label, kind="stable").reshape(count, -1))
    own = places[blocks[:, :, None], blocks[:, None]]
    return blocks, own[:1] if bool((own == own[:1]).all()) else own, entries


def _same(first: int, second: int, constants: Sequence[Tensor | None]) -> bool:
    """Whether two nodes are one, or equal constants."""
    a, b = constants[first], constants[second]
    return first == second or (a is not None and b is not None and torch.equal(a, b))

"""Forms of a random node that are the same distribution with fewer roundings.

PyMC turns `logit_p`, `mu` and the like into the parameters of its native distributions:
`Bernoulli(logit_p=x)` reaches the model graph as `Bernoulli(p=sigmoid(x))`. Where `sigmoid(x)` rounds to 1
its complement is lost, and with it every gradient. Recognising the spelling brings the original back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.distributions import Distribution, distribution_of
from synthstats_lightning.scoring.distributions.counts import NegativeBinomialMean


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


def _same(first: int, second: int, constants: Sequence[Tensor | None]) -> bool:
    """Whether two nodes are one, or equal constants."""
    a, b = constants[first], constants[second]
    return first == second or (a is not None and b is not None and torch.equal(a, b))

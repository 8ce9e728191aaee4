"""Parts of a model graph that PyMC and NumPy have a shorter word for."""

from __future__ import annotations

from typing import NamedTuple

from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.operations import OPERATIONS

ALONG = frozenset({"RandomWalk", "Ordered", "LKJCholeskyCov"})
"""Composites whose parameters have an axis along the vector, which PyMC adds by itself."""


class Idiom(NamedTuple):
    """A node that is written by a word of its own.

    Attributes:
        inputs: What goes in, in place of the node's inputs: the column of a standard deviation, the mean and
            dispersion of a negative binomial.
        arguments: The arguments of `.std()`, as they are written.
    """

    inputs: tuple[int, ...]
    arguments: str = ""


def find_idioms(graph: ModelGraph) -> dict[int, Idiom]:
    """Standard deviations of data and negative binomials of a mean, by node.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned.
    """
    found: dict[int, Idiom] = {}
    random: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if node.op == "random" or not random.isdisjoint(node.inputs):
            random.add(index)
        idiom = _mean_of_counts(graph, index) if index in random else _deviation(graph, index)
        if idiom is not None:
            found[index] = idiom
    return found


def unpadded_inputs(graph: ModelGraph, index: int) -> tuple[int, ...]:
    """Inputs of a node without axes of length 1 in front that broadcasting adds anyway.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned.
        index: The node's index.
    """
    node = graph.nodes[index]
    if node.op == "random":
        name = node.attributes["distribution"]
        if name in ALONG or takes_numbers(name):
            return tuple(_bare(graph, i) for i in node.inputs)
        return node.inputs
    if node.op not in OPERATIONS or not OPERATIONS[node.op].elementwise:
        return node.inputs
    bare = [_bare(graph, i) for i in node.inputs]
    axes = max((len(graph.shapes[i]) for i in bare), default=0)
    return tuple(bare) if axes == len(graph.shapes[index]) else node.inputs


def takes_numbers(name: str) -> bool:
    """Whether every parameter of a distribution is a number for each draw."""
    return name in DISTRIBUTIONS and not any(DISTRIBUTIONS[name].ranks)


def _bare(graph: ModelGraph, index: int) -> int:
    """What a node adds leading axes of length 1 to; the node itself if it does anything else."""
    node = graph.nodes[index]
    if node.op != "transpose":
        return index
    order = node.attributes["order"]
    axes = list(range(len(graph.shapes[node.inputs[0]])))
    padding = len(order) - len(axes)
    return node.inputs[0] if order == ["x"] * padding + axes else index


def _deviation(graph: ModelGraph, index: int) -> Idiom | None:
    """The root of the mean, or of a share of the sum, of squared deviations from the mean."""
    node = graph.nodes[index]
    if node.op != "sqrt":
        return None
    variance = graph.nodes[node.inputs[0]]
    if variance.op == "mean" and not graph.shapes[node.inputs[0]]:
        column = _squared(graph, variance.inputs[0])
        return None if column is None else Idiom((column,))
    if variance.op != "div" or graph.nodes[variance.inputs[1]].op != "constant":
        return None
    total, divisor = variance.inputs
    if graph.nodes[total].op != "sum" or graph.shapes[total] or graph.shapes[divisor]:
        return None
    column = _squared(graph, graph.nodes[total].inputs[0])
    if column is None:
        return None
    left_out = graph.shapes[column][0] - float(graph.nodes[divisor].attributes["value"])
    return Idiom((column,), f"ddof={int(left_out)}") if left_out == int(left_out) else None


def _squared(graph: ModelGraph, index: int) -> int | None:
    """The column whose deviations from its mean are squared in a node."""
    node = graph.nodes[index]
    if node.op != "square" or graph.nodes[node.inputs[0]].op != "sub":
        return None
    column, mean = graph.nodes[node.inputs[0]].inputs
    centre = graph.nodes[mean]
    is_mean = centre.op == "mean" and centre.inputs == (column,) and not graph.shapes[mean]
    return column if is_mean and len(graph.shapes[column]) == 1 else None


def _mean_of_counts(graph: ModelGraph, index: int) -> Idiom | None:
    """Mean and dispersion of a negative binomial whose probability is made of them."""
    node = graph.nodes[index]
    if node.op != "random" or node.attributes["distribution"] != "NegativeBinomial":
        return None
    successes, probability = node.inputs
    ratio = graph.nodes[probability]
    if ratio.op != "div" or ratio.inputs[0] != successes or graph.nodes[ratio.inputs[1]].op != "add":
        return None
    terms = list(graph.nodes[ratio.inputs[1]].inputs)
    if len(terms) != 2 or successes not in terms:
        return None
    terms.remove(successes)
    return Idiom((terms[0], successes))

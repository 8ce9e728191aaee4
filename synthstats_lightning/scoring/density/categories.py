"""Categories whose probabilities are spelled by logits, or by thresholds of a distribution function."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.distributions import Distribution
from synthstats_lightning.scoring.distributions.categories import (
    Categorical,
    CategoricalLogit,
    CumulativeLogit,
    CumulativeProbit,
    CumulativeProbitEach,
    counted_from,
)

Found = tuple[Distribution, tuple[int, ...]]


def category_form(graph: ModelGraph, p: int, constants: Sequence[Tensor | None]) -> Found | None:
    """The form of categories' probabilities that has no need of them all, and the nodes of its parameters.

    Taken are `softmax(logits)`, the differences of `0, sigmoid(thresholds - shift), 1`, and of
    `0, Phi((thresholds - shift) / sigma), 1`, where `Phi(z)` is spelled `0.5 erfc(-z / sqrt(2))`; and any
    probabilities after zeros, as those of `y - 1` are.

    Args:
        graph: The model graph, its shapes known.
        p: Node of the probabilities, categories along the last axis.
        constants: Value of every node that depends on no parameter.

    Returns:
        `None` where the probabilities are spelled otherwise.
    """
    if not graph.shapes:
        return None
    first, own = _after_zeros(graph, p, constants)
    if first:
        distribution, inputs = category_form(graph, own, constants) or (Categorical.distribution, (own,))
        return counted_from(distribution, first), inputs
    logits = _softmax(graph, p)
    if logits is not None:
        return CategoricalLogit.distribution, (logits,)
    below = _summed(graph, p, constants)
    return None if below is None else _cumulative(graph, below, constants)


def _after_zeros(graph: ModelGraph, p: int, constants: Sequence[Tensor | None]) -> tuple[int, int]:
    """How many zeros stand before probabilities along the last axis, and the node of what comes after."""
    node, parts = graph.nodes[p], graph.nodes[p].inputs
    if node.op != "concatenate" or len(parts) != 2 or constants[p] is not None:
        return 0, p
    zeros = constants[parts[0]]
    if node.attributes["axis"] != len(graph.shapes[p]) - 1 or zeros is None or bool((zeros != 0).any()):
        return 0, p
    return graph.shapes[parts[0]][-1], parts[1]


def _softmax(graph: ModelGraph, p: int) -> int | None:
    """The node `x` if `p` is spelled `exp(x) / sum(exp(x))` over the last axis, or less its largest entry."""
    if graph.nodes[p].op != "div":
        return None
    top, total = graph.nodes[p].inputs
    if graph.nodes[top].op != "exp" or _reduced(graph, total, "sum") != top:
        return None
    (scores,) = graph.nodes[top].inputs
    if graph.shapes[scores] != graph.shapes[p]:
        return None
    if graph.nodes[scores].op == "sub":
        whole, largest = graph.nodes[scores].inputs
        if _reduced(graph, largest, "max") == whole and graph.shapes[whole] == graph.shapes[p]:
            return whole
    return scores


def _reduced(graph: ModelGraph, node: int, op: str) -> int | None:
    """The node of which another is a sum or maximum over the last axis, which is kept."""
    own = graph.shapes[node]
    kept = [*range(len(own) - 1), "x"]
    spelled = graph.nodes[node].op
    if spelled != "reshape" and not (
        spelled == "transpose" and list(graph.nodes[node].attributes["order"]) == kept
    ):
        return None
    (inner,) = graph.nodes[node].inputs
    if graph.nodes[inner].op != op:
        return None
    (source,) = graph.nodes[inner].inputs
    shape = graph.shapes[source]
    last = list(graph.nodes[inner].attributes["axis"]) == [len(shape) - 1]
    return source if last and own == (*shape[:-1], 1) else None


def _cumulative(graph: ModelGraph, below: int, constants: Sequence[Tensor | None]) -> Found | None:
    """The ordered logistic or probit form by the node of the probabilities of categories up to each."""
    node = graph.nodes[below]
    if node.op == "sigmoid":
        parts = _shifted(graph, node.inputs[0])
        return None if parts is None else (CumulativeLogit.distribution, parts)
    scores = _normal_quantile(graph, below, constants)
    if scores is None or graph.nodes[scores].op != "div":
        return None
    shifted, sigma = graph.nodes[scores].inputs
    parts, own = _shifted(graph, shifted), graph.shapes[sigma]
    if parts is None or own[-1:] not in ((), (1,)):
        return None
    probit = CumulativeProbitEach if own else CumulativeProbit
    return probit.distribution, (*parts, sigma)


def _summed(graph: ModelGraph, p: int, constants: Sequence[Tensor | None]) -> int | None:
    """The node `f` if `p` is spelled as differences of `0, f, 1` along the last axis."""
    if graph.nodes[p].op != "sub":
        return None
    above, below = graph.nodes[p].inputs
    if not (_is_slice(graph, above, [1, None, None]) and _is_slice(graph, below, [None, -1, None])):
        return None
    (joined,) = graph.nodes[above].inputs
    if graph.nodes[below].inputs != (joined,) or graph.nodes[joined].op != "concatenate":
        return None
    axis, parts = len(graph.shapes[joined]) - 1, graph.nodes[joined].inputs
    if graph.nodes[joined].attributes["axis"] != axis or len(parts) != 3:
        return None
    first, middle, last = parts
    ends = zip((first, last), (0.0, 1.0), strict=True)
    if any((x := constants[i]) is None or x.shape[-1] != 1 or bool((x != end).any()) for i, end in ends):
        return None
    return middle


def _shifted(graph: ModelGraph, node: int) -> tuple[int, int] | None:
    """Nodes of thresholds and shift if a node is the first less the second, which the last axis shares."""
    if graph.nodes[node].op != "sub":
        return None
    thresholds, shift = graph.nodes[node].inputs
    categories, own, each = (graph.shapes[i] for i in (node, thresholds, shift))
    fits = own[-1:] == categories[-1:] and each[-1:] in ((1,), ())
    return (thresholds, shift) if fits and len(each) == len(categories) else None


def _normal_quantile(graph: ModelGraph, node: int, constants: Sequence[Tensor | None]) -> int | None:
    """The node `z` if one is spelled `0.5 erfc(-z / sqrt(2))`."""
    half = _scaled(graph, node, "mul", 0.5, constants)
    if half is None or graph.nodes[half].op != "erfc":
        return None
    scaled = _scaled(graph, graph.nodes[half].inputs[0], "div", math.sqrt(2.0), constants)
    if scaled is None or graph.nodes[scaled].op != "neg":
        return None
    return graph.nodes[scaled].inputs[0]


def _scaled(
    graph: ModelGraph, node: int, op: str, number: float, constants: Sequence[Tensor | None]
) -> int | None:
    """The first input of a product or quotient whose second is a number; a product's in either order."""
    if graph.nodes[node].op != op or constants[node] is not None:
        return None
    first, second = graph.nodes[node].inputs
    for own, other in ((first, second), (second, first)) if op == "mul" else ((first, second),):
        value = constants[other]
        if value is not None and value.numel() == 1 and float(value) == number:
            return own
    return None


def _is_slice(graph: ModelGraph, node: int, last: list[int | None]) -> bool:
    """Whether a node is a slice along the last axis of another and nothing else."""
    if graph.nodes[node].op != "index":
        return False
    (source,) = graph.nodes[node].inputs
    *others, own = graph.nodes[node].attributes["index"]
    whole = all(entry == {"slice": [None, None, None]} for entry in others)
    return whole and own == {"slice": last} and len(others) == len(graph.shapes[source]) - 1

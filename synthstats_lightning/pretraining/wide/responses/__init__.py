"""Classes of responses."""

from __future__ import annotations

from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.responses import counts, positive, real
from synthstats_lightning.pretraining.wide.responses.family import Family
from synthstats_lightning.pretraining.wide.weights import Weights

FAMILIES: dict[str, Family] = {
    **real.FAMILIES,
    **positive.POSITIVE,
    **positive.SEMICONTINUOUS,
    **positive.PROPORTION,
    **counts.COUNT,
    **counts.TOTAL,
    **counts.BINARY,
    **counts.ORDINAL,
}
"""Every class of responses by name."""


def family_weights(request: Request, weights: Weights) -> dict[str, float]:
    """Name to weight of the families that a request allows.

    Args:
        request: What is to be answered.
        weights: How often each is wanted.
    """
    response = request.response
    if request.ordered:
        table = dict(weights.ordinal)
    elif response.kind == "binary":
        table = dict(weights.binary)
    elif response.kind == "count":
        table = dict(weights.count if response.total is None else weights.total)
    else:
        named = {*weights.real, *weights.positive, *weights.semicontinuous, *weights.proportion}
        others = {name: weights.other_families for name in real.FAMILIES if name not in named}
        table = {
            **weights.real,
            **others,
            **weights.positive,
            **weights.semicontinuous,
            **weights.proportion,
        }
    return {name: weight for name, weight in table.items() if weight > 0 and FAMILIES[name].possible(request)}


__all__ = ["FAMILIES", "Family", "family_weights"]

"""Categories that a program counts from another number than the response does, or in the other order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder
from synthstats_lightning.sandbox.inside.rescaling import numbers_of

CODED = ("Bernoulli", "Categorical")
"""Distributions of categories, which numbers only name."""
MOST_EMPTY = 100
"""Largest number that categories are counted from: each below it stands in the graph."""


def coded_response(
    builder: GraphBuilder, entry: Entry, law: Law, shift: float, scale: float, levels: Sequence[str]
) -> Entry:
    """The random node of a response of categories that a program has given other numbers.

    A program may know the response by the numbers 0, 1, ... or by those of its levels, as in `rating - 1` of
    ratings from 1 to 5: the reading counts that has all of them among the categories.

    Args:
        builder: Makes the nodes of the model graph.
        entry: What the response in other numbers follows.
        law: Its law, one of `CODED`.
        shift: What was subtracted from the response.
        scale: What the difference was divided by.
        levels: What the response's numbers from 0 stand for, as far as it has levels.

    Raises:
        ProgramFailure: `UNSUPPORTED` where neither reading has whole numbers from 0 to `MOST_EMPTY`.
    """
    (p,) = entry.inputs
    count = 2 if law.name == "Bernoulli" else p.shape[-1]
    own = shift + scale * np.arange(count)
    readings = [own]
    numbers = numbers_of(levels)
    if numbers is not None:
        readings.append((own - numbers[0]) / (numbers[1] - numbers[0]))
    for places in readings:
        whole = np.rint(places)
        near = np.abs(places - whole).max() < 1e-9 and whole.min() >= 0 and whole.max() < MOST_EMPTY + count
        if near and set(range(len(levels))) <= set(whole.tolist()):
            return _placed(builder, entry, law, whole.astype(np.int64))
    _refuse(shift, scale, law)


def _placed(builder: GraphBuilder, entry: Entry, law: Law, places: np.ndarray) -> Entry:
    """Categories at other places: those that none is put to have no probability.

    Args:
        builder: Makes the nodes of the model graph.
        entry: The random node of categories 0, 1, ...
        law: What it follows.
        places: The new number of each.
    """
    (p,) = entry.inputs
    count = len(places)
    if np.array_equal(places, np.arange(count)):
        return entry
    name = str(entry.attributes["name"])
    if law.name == "Bernoulli":
        complement = _complement(builder, p)
        if places.tolist() == [1, 0]:
            return builder.random(law.attributes(), [complement], name, entry.shape)
        p = builder.apply("stack", complement, p, axis=len(p.shape))
        law = Law("Categorical")
    axis = len(p.shape) - 1
    first = int(places[0])
    if np.array_equal(places, first + np.arange(count)):
        none = builder.apply("broadcast_to", builder.constant(0.0), shape=[*p.shape[:-1], first])
        moved = builder.apply("concatenate", none, p, axis=axis)
    else:
        none = builder.apply("broadcast_to", builder.constant(0.0), shape=[*p.shape[:-1], 1])
        taken = np.full(int(places.max()) + 1, count)
        taken[places] = np.arange(count)
        padded = builder.apply("concatenate", p, none, axis=axis)
        moved = builder.apply("take", padded, builder.constant(taken), axis=axis)
    return builder.random(law.attributes(), [moved], name, entry.shape)


def _complement(builder: GraphBuilder, p: Entry) -> Entry:
    """One less a probability, without its digits lost where that is a logistic function."""
    if p.op == "sigmoid":
        return builder.apply("sigmoid", builder.apply("neg", p.inputs[0]))
    return builder.apply("sub", builder.constant(1.0), p)


def _refuse(shift: float, scale: float, law: Law) -> NoReturn:
    what = f"less {shift:g}" if scale == 1 else f"in steps of {abs(scale):g}"
    raise ProgramFailure(
        FailureCategory.UNSUPPORTED,
        f"a {law.name} of the response {what}: its categories are 0, 1, ..., and a response that is counted"
        f" from another whole number up to {MOST_EMPTY} is observed less that, as in y - 1",
    )

"""Programs that hold the response as constants: what they would predict before they see it repeats it.

A program has no access to the response, but whoever wrote it may have seen the data elsewhere. Its model
graph is evaluated with every parameter at the centre of its prior, and each value that has one number a row
is compared with the response, up to a factor and an offset and on the log scale: so it does not matter how
the constants are spelt, in which order they stand or what undoes their disguise. Covariates may repeat the
response as they like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.copying import (
    MOST_DIGITS,
    MOST_ROWS,
    Copied,
    View,
    copied_as_set,
    copied_in_order,
    views_of,
)
from synthstats_lightning.programs.distribution import Distribution, Support
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS

LEAST_ROWS = 4
"""Rows of a response that can be told from coincidence, at least."""
MOST_SEQUENCES = 32
"""Sequences of a graph that are compared with the response, at most."""
MOST_OF_ONE = 8
"""Of them from one matrix, such as a basis, at most: what they amount to is a sequence again."""
LOCATIONS = ("mu", "alpha", "loc", "c")
"""Parameters that say where a distribution on the whole line lies, by name."""
LOG2_TEN = math.log2(10.0)

Array = NDArray[Any]
Floats = NDArray[np.float64]


def check_memorised(
    graph: ModelGraph,
    covariates: Mapping[str, Array],
    response: Array,
    threshold: float,
    shown_rows: int = 0,
    rounding: float | None = None,
) -> None:
    """Refuses a program whose constants repeat values of the response.

    Rows that the prompt shows say nothing against a program: they only condition, so repeating them gains
    nothing.

    Args:
        graph: The canonical model graph.
        covariates: Column name to values `[rows]`.
        response: The response's values `[rows]`, those of held-out rows too.
        threshold: Bits of evidence of copying from which a program is refused; 0 to look at nothing.
        shown_rows: Leading rows that do not count.
        rounding: Spacing of the values that the response was recorded to.

    Raises:
        ProgramFailure: `MEMORISED`.
    """
    counted = len(response) - shown_rows
    if threshold <= 0 or counted < LEAST_ROWS or np.ptp(response[shown_rows:]) == 0:
        return
    constants = [constant_array(node).astype(np.float64) for node in graph.nodes if node.op == "constant"]
    known = information(constants)
    if known < threshold:
        return
    found = copied_values(graph, covariates, response, shown_rows, rounding, constants)
    # constants cannot tell more than they hold: a formula of a few numbers that is exactly right has learned
    if min(found.bits, known) >= threshold and known >= 0.5 * found.bits:
        raise ProgramFailure(
            FailureCategory.MEMORISED,
            f"the program's constants repeat {found.rows} values of the response ({found.bits:.0f} bits"
            f" beyond chance, at most {threshold:g} allowed): predict it from columns and parameters",
        )


def information(constants: list[Floats]) -> float:
    """Bits that the digits of some constants can hold, equal ones counted once."""
    values = np.unique(np.concatenate([array.ravel() for array in constants])) if constants else np.zeros(0)
    return LOG2_TEN * sum(len(_digits(value)) for value in values.tolist())


def copied_values(
    graph: ModelGraph,
    covariates: Mapping[str, Array],
    response: Array,
    shown_rows: int,
    rounding: float | None,
    constants: list[Floats],
) -> Copied:
    """The strongest evidence that a value of a graph, or a set of its constants, repeats the response."""
    rows = np.arange(shown_rows, len(response))
    rows = rows[:: math.ceil(len(rows) / MOST_ROWS)]
    views = views_of(response[rows], rounding)
    columns = [views_of(values[rows], None)[0] for values in covariates.values() if np.ptp(values[rows]) > 0]
    found = Copied()
    for numbers in sequences(graph, covariates, len(response)):
        copied = max(copied_in_order(numbers[rows], view) for view in views)
        if copied > found and not any(_repeats(numbers[rows], column) for column in columns):
            found = copied
    shown = np.unique(response[:shown_rows].astype(np.float64))
    scalars = [array.ravel() for array in constants if array.size == 1]
    sets = [array for array in constants if array.size > 1]
    for numbers in [*sets, np.concatenate(scalars)] if scalars else sets:
        values = np.setdiff1d(numbers, shown)
        found = max(found, *(copied_as_set(values, view) for view in views))
    return found


def sequences(graph: ModelGraph, covariates: Mapping[str, Array], num_rows: int) -> Iterator[Floats]:
    """Different values of a graph with one number a row, parameters at the centres of their priors."""
    seen = {values.astype(np.float64).tobytes() for values in covariates.values()}
    for value in central_values(graph, covariates):
        if value is None or value.dtype == np.bool_:
            continue
        for axis in [i for i, length in enumerate(value.shape) if length == num_rows]:
            slices = np.moveaxis(value, axis, -1).reshape(-1, num_rows)[:MOST_OF_ONE]
            for numbers in slices.astype(np.float64):
                key = numbers.tobytes()
                if key in seen or not np.isfinite(numbers).all() or np.ptp(numbers) == 0:
                    continue
                seen.add(key)
                yield numbers
                if len(seen) > MOST_SEQUENCES:
                    return


def central_values(graph: ModelGraph, covariates: Mapping[str, Array]) -> list[Array | None]:
    """The value of every node where each random node is at its centre; `None` where there is none."""
    values: list[Array | None] = []
    for index, node in enumerate(graph.nodes):
        value: Array | None = None
        inputs = [array for i in node.inputs if (array := values[i]) is not None]
        if node.op == "constant":
            value = constant_array(node)
        elif node.op == "covariate":
            value = np.asarray(covariates[node.attributes["name"]])
        elif len(inputs) == len(node.inputs):
            # what fails here fails, with its reason, where the density is built
            try:
                value = _centre(node, inputs) if node.op == "random" else _evaluated(node, inputs)
                value = np.broadcast_to(value, graph.shapes[index])
            except (ValueError, IndexError, OverflowError):
                value = None
        values.append(value)
    return values


def _evaluated(node: Node, inputs: list[Array]) -> Array:
    value: Array = OPERATIONS[node.op].evaluate(inputs, node.attributes)
    return value


def _centre(node: Node, inputs: list[Array]) -> Array:
    """Where a random node's distribution lies, roughly: what matters is one that is narrow."""
    distribution = distribution_of(node.attributes)
    shape = tuple(node.attributes["shape"])
    floats = [array.astype(np.float64) for array in inputs]
    parameters = dict(zip(distribution.parameters, floats, strict=True))
    value = np.broadcast_to(_location(distribution, parameters), shape)
    # a discrete parameter may be an index
    return np.asarray(np.rint(value)).astype(np.int64) if distribution.discrete else value


def _location(distribution: Distribution, parameters: Mapping[str, Floats]) -> Floats:
    with np.errstate(all="ignore"):
        match distribution.name:
            case "LogNormal":
                return np.exp(parameters["mu"])
            case "LogitNormal":
                return np.asarray(1.0 / (1.0 + np.exp(-parameters["mu"])))
            case "Gamma":
                return np.asarray(parameters["alpha"] * parameters["scale"])
            case "InverseGamma":
                return np.asarray(parameters["beta"] / (parameters["alpha"] + 1.0))
            case "Beta":
                return np.asarray(parameters["alpha"] / (parameters["alpha"] + parameters["beta"]))
            case "Binomial":
                return np.asarray(parameters["n"] * parameters["p"])
    lower, upper = (None if name is None else parameters[name] for name in distribution.bounds)
    if lower is not None and upper is not None:
        return np.asarray((lower + upper) / 2.0)
    for name, value in parameters.items():
        if name.split(".")[-1] in LOCATIONS and (distribution.support is Support.REAL or name[-2:] == "mu"):
            return value
    for name in ("scale", "sigma", "beta", "m"):
        if name in parameters:
            return parameters[name]
    return np.asarray(0.0 if distribution.support is Support.REAL else 0.5)


def _repeats(numbers: Floats, column: View) -> bool:
    """Whether numbers are a column in other units, or so where they are not just their most frequent value.

    A hinge is the column above its knot, and one number below it, which repeats nothing.
    """
    if copied_in_order(numbers, column).rows >= 0.9 * len(numbers):
        return True
    values, counts = np.unique(numbers, return_counts=True)
    above = numbers != values[counts.argmax()]
    rest = column._replace(values=column.values[above])
    if counts.max() <= 2 or len(rest.values) < LEAST_ROWS or np.ptp(rest.values) == 0:
        return False
    return copied_in_order(numbers[above], rest).rows >= 0.9 * len(rest.values)


def _digits(value: float) -> str:
    """Significant digits of a number, as somebody would write it."""
    text = f"{abs(value):.{MOST_DIGITS}g}".split("e")[0]
    return text.replace(".", "").strip("0")

"""What a model observes of the response, in whatever order, shape and number of variables, row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.sandbox.inside.expressions import Array
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder
from synthstats_lightning.sandbox.inside.extraction.in_rows import in_rows
from synthstats_lightning.sandbox.inside.rescaling import Rescaling
from synthstats_lightning.sandbox.inside.response import rows_of

Rows = NDArray[np.int64]

_NEVER_NEGATIVE = frozenset(
    {
        Support.POSITIVE,
        Support.UNIT,
        Support.NATURAL,
        Support.COUNT_TO,
        Support.BINARY,
        Support.POSITIVE_COUNT,
        Support.CATEGORIES,
    }
)
_OF_TOTALS = frozenset({"Multinomial", "DirichletMultinomial"})
"""Vectors of counts with a total that is known."""


def observed_rows(
    model: Any,
    schema: DataSchema,
    data: Callable[[Any], Array | None],
    columns_in: Callable[[Array], Sequence[str]],
    every: bool = True,
) -> list[tuple[Any, Rows, Rescaling]]:
    """The observed variables of a model, with the row of the response at each of their places, and its units.

    Args:
        model: The program's `pm.Model`.
        schema: Columns and response.
        data: Takes a variable to the constant that it holds, `None` if it holds none.
        columns_in: Takes an array to the names of the covariates that it holds.
        every: Whether all rows must be there.

    Raises:
        ProgramFailure: `BAD_GRAPH` unless these are rows of the response, each once.
    """
    response = schema.response
    if every and not model.observed_RVs:
        _bad_graph(f"the model observes nothing: give {response!r} as observed=")
    found = []
    for variable in model.observed_RVs:
        values = data(model.rvs_to_values[variable])
        if values is not None and values.size == 0:
            continue  # a group without rows
        known = None if values is None else rows_of(values, schema.num_rows)
        if known is None:
            others = () if values is None else columns_in(values)
            _bad_graph(_other_data(str(variable.name), others, response))
        found.append((variable, *known))
    seen = np.concatenate([np.zeros(0, dtype=np.int64), *(rows.ravel() for _, rows, _ in found)])
    counts = np.bincount(seen, minlength=schema.num_rows)
    wrong = (counts != 1) if every else (counts > 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        series = (
            ". A series is observed from its first row on, by pm.AR or given columns of its lags"
            if row == counts[row] == 0
            else ""
        )
        _bad_graph(
            f"row {row} of the response {response!r} is observed {_times(int(counts[row]))}: a model observes"
            f" each row once, in as many variables as it likes{series}"
        )
    return found


def response_entry(
    builder: GraphBuilder, observed: Sequence[tuple[Entry, Rows]], schema: DataSchema
) -> Entry:
    """One random node of all rows, in the order of the data.

    Args:
        builder: Makes the nodes of the model graph.
        observed: Random entries and the row at each of their places, which are all rows, each once.
        schema: Columns and response.

    Raises:
        ProgramFailure: `BAD_GRAPH` if a variable's shape is not that of what it observes; `UNSUPPORTED` for
            vectors in another order, and for variables of different distributions.
    """
    for entry, rows in observed:
        if entry.shape != rows.shape:
            _bad_graph(
                f"the response's distribution has shape {entry.shape}, the data have shape {rows.shape}"
            )
    first, rows = observed[0]
    if len(observed) == 1 and np.array_equal(rows, np.arange(schema.num_rows)):
        return first
    laws = [_law(entry) for entry, _ in observed]
    if any(law != laws[0] for law in laws):
        names = " and ".join(sorted({str(law["distribution"]) for law in laws}))
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"observed variables of different distributions ({names}): give the response one distribution"
            " whose parameters depend on the row",
        )
    distribution = distribution_of(laws[0])
    if distribution.name == "MvNormal":
        return _one_normal_vector(builder, observed, laws[0])
    if distribution.event_rank:
        instead = "observe the response as it is"
        if distribution.name in _OF_TOTALS:
            instead = (
                "the last row of each vector would follow from its others. Write the counts as pm.Poisson"
                " with a level of its own for each vector, or one after the other as pm.Binomial"
                " (pm.BetaBinomial) of what is left of the total"
            )
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"a {distribution.name} of rows in another order or shape: {instead}",
        )
    order = _order(observed)
    inputs = [
        _parameter(builder, [(entry.inputs[place], part.shape) for entry, part in observed], rank, order)
        for place, rank in enumerate(distribution.ranks)
    ]
    return builder.random(laws[0], inputs, str(first.attributes["name"]), (schema.num_rows,))


def refuse_missing(response: Entry, codes: Collection[float], name: str) -> None:
    """Refuses codes of missing values that the response could have: rows with them would be scored.

    Args:
        response: The random node of the response.
        codes: Values that a program takes for missing ones.
        name: What the response is called.

    Raises:
        ProgramFailure: `UNSUPPORTED` unless the response's distribution has none of them.
    """
    support = distribution_of(_law(response)).support
    for code in codes:
        if code >= 0 or support not in _NEVER_NEGATIVE:
            raise ProgramFailure(
                FailureCategory.UNSUPPORTED,
                f"{code:g} as a missing value of the response {name!r}, which its distribution may have: rows"
                f" without a value are left out already (`missing` of the task says what stands for one)."
                " Observe it as it is",
            )


def _one_normal_vector(
    builder: GraphBuilder, observed: Sequence[tuple[Entry, Rows]], law: dict[str, Any]
) -> Entry:
    """Independent normal vectors as one of all rows, whose covariance is 0 between them.

    Args:
        builder: Makes the nodes of the model graph.
        observed: Random entries of vectors along the last axis, and the row at each of their places.
        law: The attributes of their distribution.
    """
    order = _order(observed)
    mean = _parameter(builder, [(entry.inputs[0], part.shape) for entry, part in observed], 0, order)
    if mean.shape != order.shape:
        mean = builder.apply("broadcast_to", mean, shape=[len(order)])
    # every entry of every covariance behind a zero, and which of them stands between two rows
    flat, places = [builder.constant(np.zeros(1))], np.zeros((len(order), len(order)), dtype=np.int64)
    start, behind = 0, 1
    for entry, part in observed:
        cov, length = entry.inputs[1], part.shape[-1]
        each = int(np.prod(cov.shape[:-2])) > 1
        size = int(np.prod(cov.shape))
        flat.append(builder.apply("reshape", cov, shape=[size]))
        own = np.arange(length * length).reshape(length, length)
        for vector in range(part.size // length):
            here = slice(start, start + length)
            places[here, here] = behind + own + (vector * length * length if each else 0)
            start += length
        behind += size
    back = np.argsort(order)
    joined = builder.apply("concatenate", *flat, axis=0)
    taken = builder.apply("take", joined, builder.constant(places[back][:, back].ravel()), axis=0)
    whole = builder.apply("reshape", taken, shape=[len(order), len(order)])
    name = str(observed[0][0].attributes["name"])
    return builder.random(law, [mean, whole], name, (len(order),))


def _order(observed: Sequence[tuple[Entry, Rows]]) -> Rows:
    """The row of the data at each place of the observed variables, one after another."""
    return np.concatenate([part.ravel() for _, part in observed])


def _parameter(
    builder: GraphBuilder, parts: list[tuple[Entry, tuple[int, ...]]], rank: int, order: Rows
) -> Entry:
    """A parameter of all variables as one, in the order of rows."""
    first = parts[0][0]
    if len(first.shape) == rank and all(entry is first for entry, _ in parts):
        return first
    if not rank and len(parts) == 1:
        return in_rows(builder, first, parts[0][1], np.argsort(order))
    flat = []
    for entry, batch in parts:
        core, size = entry.shape[len(entry.shape) - rank :], int(np.prod(batch))
        if not rank:
            whole = in_rows(builder, entry, batch, np.arange(size))
            flat.append(whole if whole.shape else builder.apply("broadcast_to", whole, shape=[size]))
            continue
        whole = (
            entry
            if entry.shape == (*batch, *core)
            else builder.apply("broadcast_to", entry, shape=[*batch, *core])
        )
        flat.append(whole if len(batch) == 1 else builder.apply("reshape", whole, shape=[size, *core]))
    joined = flat[0] if len(flat) == 1 else builder.apply("concatenate", *flat, axis=0)
    if np.array_equal(order, np.arange(len(order))):
        return joined
    return builder.apply("take", joined, builder.constant(np.argsort(order)), axis=0)


def _law(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in entry.attributes.items() if name not in ("name", "shape")}


def _other_data(name: str, columns: Sequence[str], response: str) -> str:
    if not columns:
        return f"{name!r} observes something other than the response {response!r}"
    which = f"the column {columns[0]!r}" if len(columns) == 1 else f"the columns {', '.join(columns)}"
    return (
        f"{name!r} observes {which}: a score is that of the response {response!r} given the others, so"
        f" that programs compare. Observe {response!r} alone, and let its parameters depend on columns"
    )


def _times(number: int) -> str:
    return "never" if number == 0 else f"{number} times"


def _bad_graph(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.BAD_GRAPH, what)

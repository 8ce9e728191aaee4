"""Rows that were cut short, in a potential beside the observed ones, as the censored rows that they are.

Survival models are often written as a density of the rows whose event was seen and a potential with the
log-probability that those cut short lasted longer. A potential may be anything; this one is known by its
value: at numbers of its own choosing it is the log-probability beyond a limit under the distribution that the
observed rows follow, with the parameters of the other rows. Then the model is that distribution of all rows,
which the trusted side censors where the task's columns say so. Nothing of the potential itself is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.laws import Law, read_law
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.expressions import PROVENANCE, Array, Expression
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder
from synthstats_lightning.sandbox.inside.rescaling import Rescaling
from synthstats_lightning.sandbox.inside.response import rows_of

Rows = NDArray[np.int64]

TRIES = 3
"""Values of the parameters at which a potential is compared."""
CLOSE = 1e-6


class CutShort(NamedTuple):
    """What a model with such a potential is.

    Attributes:
        variable: What all rows follow, a random variable of them all.
        rescaling: How the response was rescaled.
        limit: The column of limits that the potential reads, `None` where it reads the response's own rows.
        side: `"upper"` or `"lower"`.
    """

    variable: Any
    rescaling: Rescaling
    limit: str | None
    side: str


def rows_cut_short(
    model: Any,
    observed: Sequence[tuple[Any, Rows, Rescaling]],
    schema: DataSchema,
    covariates: Mapping[str, Array],
    shape_of: Callable[[Any], Shape],
) -> CutShort | None:
    """The distribution of all rows where a potential has those that the task says were cut short.

    Args:
        model: A `pm.Model` with one potential.
        observed: Its observed variable, the row at each place of it, and its units.
        schema: Columns and response.
        covariates: Column name to values.
        shape_of: Takes a free variable of the model to its shape.

    Returns:
        `None` where the potential is something else.
    """
    if len(observed) != 1 or len(model.potentials) != 1 or len(schema.censoring) != 1:
        return None
    (variable, rows, rescaling), (potential,) = observed[0], model.potentials
    ((side, limits),) = schema.censoring.items()
    cut = np.flatnonzero(np.abs(covariates[limits]) < NO_LIMIT)
    seen = np.flatnonzero(np.abs(covariates[limits]) >= NO_LIMIT)
    if rows.ndim != 1 or rescaling.by_row or rescaling.sign < 0 or not np.array_equal(rows, seen):
        return None
    whole = [
        *((np.asarray(values), None) for values in covariates.values()),
        *PROVENANCE.of_rows(schema.num_rows),
    ]
    try:
        others = _of_rows(model, variable, seen, cut, whole)
        every = _of_rows(model, variable, seen, np.arange(schema.num_rows), whole)
        limit = next(
            (
                (column,)
                for constant, column in _limits(potential, cut, rescaling, schema, covariates)
                if _is_tail(model, potential, constant, others, rescaling, side, len(cut), shape_of)
            ),
            None,
        )
    except (_Elsewhere, ValueError, TypeError, IndexError, KeyError, NotImplementedError, AttributeError):
        return None
    if limit is None:
        return None
    every.name = variable.name
    model.rvs_to_values[every] = every.type()
    return CutShort(every, rescaling, limit[0], side)


def censored_entry(builder: GraphBuilder, response: Entry, side: str, column: str) -> Entry:
    """The random node of a response, censored at a column.

    Args:
        builder: Makes the nodes of the model graph.
        response: The random node.
        side: On which side, `"upper"` or `"lower"`.
        column: Name of the column of limits.
    """
    attributes = {name: value for name, value in response.attributes.items() if name not in ("name", "shape")}
    law = Law("Censored", (read_law(attributes),), (side,))
    limit = builder.covariate(column)
    inputs = [limit, *response.inputs]
    return builder.random(law.attributes(), inputs, str(response.attributes["name"]), response.shape)


class _Elsewhere(Exception):
    """A constant has rows of something that is not known of the other rows."""


def _limits(
    potential: Any, cut: Rows, rescaling: Rescaling, schema: DataSchema, covariates: Mapping[str, Array]
) -> list[tuple[Any, str | None]]:
    """Constants of a potential that may hold where rows were cut short, and the columns of these."""
    found: list[tuple[Any, str | None]] = []
    for variable in adapter.variables_below([potential]):
        value = adapter.leaf_value(variable)
        if value is None or value.size != len(cut) or value.dtype.kind not in "iuf":
            continue
        rows = rows_of(value, schema.num_rows)
        if rows is not None and np.array_equal(rows[0].ravel(), cut) and rows[1] == rescaling:
            return [(variable, None)]
        for name, column in covariates.items():
            with np.errstate(all="ignore"):
                expected = rescaling.done(np.asarray(column, dtype=np.float64))[cut]
            if name not in schema.censoring.values() and np.array_equal(value.ravel(), expected):
                found.append((variable, name))
    return found


def _of_rows(
    model: Any, variable: Any, seen: Rows, wanted: Rows, whole: Sequence[tuple[Array, Expression | None]]
) -> Any:
    """An observed variable of some rows, of others.

    Args:
        model: The program's `pm.Model`.
        variable: The observed variable.
        seen: The rows that it observes.
        wanted: Those to put in their place.
        whole: Arrays with a row for every row of the data, and how they were made.
    """
    stay = set(model.free_RVs)

    def leaf(part: Any) -> Any:
        value = adapter.leaf_value(part)
        if value is None or not value.ndim:
            return part
        if value.dtype.kind == "b" and np.array_equal(np.flatnonzero(value), seen):
            return adapter.as_constant(np.isin(np.arange(len(value)), wanted))
        if value.dtype.kind in "iu" and np.array_equal(value, seen):
            return adapter.as_constant(wanted.astype(value.dtype))
        if len(seen) not in value.shape:
            return part
        if value.shape[0] != len(seen):
            raise _Elsewhere
        return _other_rows(value, seen, wanted, whole)

    made = _rebuilt(variable, stay, leaf)
    size, _ = adapter.random_inputs(variable)
    fixed = None if size is None else adapter.leaf_value(size)
    if fixed is not None and np.array_equal(fixed, [len(seen)]):
        made = _rebuilt(made, stay, lambda part: adapter.as_constant([len(wanted)]) if part is size else part)
    return made


def _other_rows(
    value: Array, seen: Rows, wanted: Rows, whole: Sequence[tuple[Array, Expression | None]]
) -> Any:
    """A constant with a row for each of some rows, with those of others."""
    for array, expression in whole:
        if array.shape[1:] == value.shape[1:] and np.array_equal(array[seen], value):
            found = adapter.as_constant(array[wanted].astype(value.dtype))
            if expression is not None and len(wanted) == len(array):
                found.tag.expression = expression
            return found
    if (value == value.ravel()[0]).all():
        return adapter.as_constant(np.full((len(wanted), *value.shape[1:]), value.ravel()[0]))
    if value.ndim != 2:
        raise _Elsewhere
    columns = [_other_rows(column, seen, wanted, whole) for column in value.T]
    return adapter.as_constant(np.stack([np.asarray(column.data) for column in columns], axis=1))


def _rebuilt(variable: Any, stay: set[Any], leaf: Callable[[Any], Any]) -> Any:
    """A variable with other leaves.

    Args:
        variable: Anything that has a graph.
        stay: Variables that are kept as they are.
        leaf: Takes a leaf to what stands in its place.
    """
    known: dict[Any, Any] = {}
    pending = [variable]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
        elif current in stay:
            known[current] = current
        elif current.owner is None:
            known[current] = leaf(current)
        elif missing := [part for part in current.owner.inputs if part not in known]:
            pending += missing
        else:
            node = current.owner
            inputs = [known[part] for part in node.inputs]
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                # as long as its mask has ones, which the type of a mask does not tell
                masked = type(node.op).__name__.startswith("AdvancedSubtensor")
                node = (
                    node.op.make_node(*inputs) if masked else node.clone_with_new_inputs(inputs, strict=False)
                )
            known |= dict(zip(current.owner.outputs, node.outputs, strict=True))
    return known[variable]


def _is_tail(
    model: Any,
    potential: Any,
    constant: Any,
    others: Any,
    rescaling: Rescaling,
    side: str,
    count: int,
    shape_of: Callable[[Any], Shape],
) -> bool:
    """Whether a potential is the log-probability beyond a limit, summed over rows or one for each."""
    rng = np.random.default_rng(20_253)
    limit = rescaling.done(rng.uniform(0.5, 2.0, count)).reshape(constant.type.shape)
    expected = adapter.log_tail(others, limit.ravel(), side)
    for _ in range(TRIES):
        given = {v: _draw(model, v, rng, shape_of) for v in model.free_RVs}
        found = _value(potential, {**given, constant: limit.astype(constant.type.dtype)}).sum()
        wanted = _value(expected, given).sum()
        if not np.isfinite(wanted) or not abs(found - wanted) <= CLOSE * (1.0 + abs(wanted)):
            return False
    return True


def _draw(model: Any, variable: Any, rng: np.random.Generator, shape_of: Callable[[Any], Shape]) -> Array:
    """Some value of a free variable, near 0 in coordinates without bounds."""
    z = np.asarray(rng.normal(0.0, 0.5, shape_of(variable)))
    transform = model.rvs_to_transforms.get(variable)
    share = 1.0 / (1.0 + np.exp(-z))
    match type(transform).__name__:
        case "NoneType" if str(variable.dtype).startswith("float"):
            return z
        case "LogTransform" | "LogExpM1":
            return np.asarray(np.exp(z))
        case "LogOddsTransform":
            return np.asarray(share)
        case "Interval":
            ends = transform.args_fn(*variable.owner.inputs)
            lower, upper = (None if end is None else _value(adapter.as_variable(end), {}) for end in ends)
            if lower is not None and upper is not None:
                return np.asarray(lower + (upper - lower) * share)
            return np.asarray(upper - np.exp(z) if lower is None else lower + np.exp(z))
    raise _Elsewhere


def _value(variable: Any, given: Mapping[Any, Array]) -> Array:
    """The number that a variable is, by running one node after another."""
    known: dict[Any, Any] = dict(given)
    for current in _in_order(variable, known):
        if current.owner is None:
            known[current] = adapter.leaf_value(current) if hasattr(current.type, "dtype") else current.data
            continue
        if adapter.is_random(current.owner.op):
            raise _Elsewhere
        results = adapter.evaluate(current.owner, [known[part] for part in current.owner.inputs])
        known |= dict(zip(current.owner.outputs, results, strict=True))
    return np.asarray(known[variable])


def _in_order(variable: Any, known: Mapping[Any, Any]) -> Iterator[Any]:
    """Variables that are not known yet, each after what it is made of."""
    pending = [variable]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        missing = [p for p in (current.owner.inputs if current.owner else ()) if p not in known]
        if missing:
            pending += missing
            continue
        yield current
        pending.pop()

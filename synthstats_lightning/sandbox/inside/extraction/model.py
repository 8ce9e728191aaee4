"""From a PyMC model to a model graph, by reading it: nothing is compiled and nothing is sampled."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.expressions import Array, Expression
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder, write
from synthstats_lightning.sandbox.inside.extraction.composites import (
    bounded_part,
    random_part,
    without_padding,
)
from synthstats_lightning.sandbox.inside.extraction.diffusion import diffusion_path
from synthstats_lightning.sandbox.inside.extraction.loops import inner_graph
from synthstats_lightning.sandbox.inside.extraction.observed import (
    observed_rows,
    refuse_missing,
    response_entry,
)
from synthstats_lightning.sandbox.inside.extraction.operations import CHECKS, HANDLERS, operation_name
from synthstats_lightning.sandbox.inside.extraction.potentials import censored_entry, rows_cut_short
from synthstats_lightning.sandbox.inside.extraction.scan import unrolled
from synthstats_lightning.sandbox.inside.extraction.units import in_own_units
from synthstats_lightning.sandbox.inside.extraction.vectors import ordered_part
from synthstats_lightning.sandbox.inside.response import holds_rows, sentinel, taken_for_missing


def extract_graph(model: Any, schema: DataSchema, covariates: Mapping[str, Array]) -> dict[str, Any]:
    """The model graph of a PyMC model.

    Args:
        model: A `pm.Model` that observes the response's placeholder.
        schema: Columns and response.
        covariates: Column name to values.

    Returns:
        JSON-ready fields, in the format of `programs.graph`.

    Raises:
        ProgramFailure: `UNSUPPORTED`, naming the distribution or operation that the graph language lacks;
            `BAD_GRAPH` if the model does not observe the response exactly once, or holds NaN or infinity.
    """
    return Extraction(model, schema, covariates).run()


class Extraction:
    """One walk from a model's random variables to its leaves.

    Args:
        model: The program's `pm.Model`.
        schema: Columns and response.
        covariates: Column name to values.
    """

    def __init__(self, model: Any, schema: DataSchema, covariates: Mapping[str, Array]) -> None:
        self.builder = GraphBuilder(covariates)
        self._model = model
        self._schema = schema
        self._entries: dict[Any, Entry] = {}
        self._left_out: set[Any] = set()
        self._sentinel = sentinel(schema.num_rows, schema.response_dtype)

    def run(self) -> dict[str, Any]:
        """The model graph as JSON-ready fields."""
        model = self._model
        data, columns_in = _data, self.builder.columns_in
        observed = observed_rows(model, self._schema, data, columns_in, every=not model.potentials)
        cut_short = None
        if model.potentials:
            cut_short = rows_cut_short(
                model, observed, self._schema, self.builder.covariates, lambda v: self.entry(v).shape
            )
            if cut_short is None:
                self._refuse_potential()
            observed = [(cut_short.variable, np.arange(self._schema.num_rows), cut_short.rescaling)]
        known = {self.entry(variable) for variable, _, _ in observed}
        needed = adapter.variables_below(variable for variable, _, _ in observed)
        free = []
        for variable in model.free_RVs:
            entry = self._latent(variable) if variable in needed else self._predicted(variable, known)
            free += [] if entry is None or entry.op == "constant" else [entry]
        if any(_depends(below, known) for entry in (*free, *known) for below in entry.inputs):
            bad_graph("a variable depends on an observed one: the response may be used only as observed=")
        levels = self._schema.response_levels
        seen = [
            (in_own_units(self.builder, self.entry(variable), rows, rescaling, levels), rows)
            for variable, rows, rescaling in observed
        ]
        response = response_entry(self.builder, seen, self._schema)
        refuse_missing(response, taken_for_missing(), self._schema.response)
        if cut_short is not None and cut_short.limit is not None:
            response = censored_entry(self.builder, response, cut_short.side, cut_short.limit)
        return write(response, free, self._deterministics(known))

    def _refuse_potential(self) -> NoReturn:
        names = ", ".join(str(variable.name) for variable in self._model.potentials[:3])
        rows = (
            ". Of rows whose event was not seen it is the log-probability of lasting longer under the"
            " distribution of the others, with the same parameters"
            if self._schema.censoring
            else ". That of rows whose event was not seen is read as censoring where the task knows which"
            " column says so (roles: {column: event})"
        )
        unsupported(
            f"pm.Potential ({names}): a potential is not a normalised distribution{rows}. Write censored rows"
            " as pm.Censored with a column of limits, a sum over states as pm.Mixture or with labels"
            " (pm.Categorical), bounds as pm.Truncated, a constraint as a prior"
        )

    def _latent(self, variable: Any) -> Entry:
        """The entry of a free variable that observed ones depend on."""
        transform = adapter.foreign_transform(self._model, variable)
        if transform is not None:
            unsupported(f"transform {transform} of {variable.name!r}, which changes its prior")
        return self.entry(variable)

    def _predicted(self, variable: Any, known: set[Entry]) -> Entry | None:
        """The entry of a free variable that no observed one depends on, whose density integrates to one.

        One given the response, as a Gaussian process at other places is, is left out: no score depends on it.
        """
        entry = None
        try:
            entry = self._latent(variable)
        except ProgramFailure as failure:
            if failure.category is not FailureCategory.BAD_GRAPH:
                raise
        if entry is None or any(_depends(below, known) for below in entry.inputs):
            self._left_out.add(variable)
            return None
        return entry

    def entry(self, variable: Any) -> Entry:
        """The entry of a variable; everything below it is made first, without recursion."""
        pending = [variable]
        while pending:
            current = pending[-1]
            if current in self._entries:
                pending.pop()
                continue
            missing = [part for part in self._below(current) if part not in self._entries]
            if missing:
                pending += missing
                continue
            self._entries[current] = self._make(current)
            pending.pop()
        return self._entries[variable]

    def known(self, variable: Any) -> Array:
        """The value of a variable that must not depend on anything random, such as a shape."""
        value = self.entry(variable).value
        if value is None:
            unsupported("a shape or position that depends on a random variable")
        return value

    def shape(self, variable: Any) -> Shape:
        """The shape of a variable; that of data needs no entry: the response has a shape but no values."""
        known = _data(variable)
        if known is not None:
            return known.shape
        return random_part(self, variable).shape if self._unnamed(variable) else self.entry(variable).shape

    def within(self, known: Mapping[Any, Entry]) -> Extraction:
        """A walk through the inner graph of a loop, whose inputs have entries."""
        inner = copy.copy(self)
        inner._entries = dict(known)
        return inner

    def _unnamed(self, variable: Any) -> bool:
        """Whether a variable is random but not of the model, such as a mixture's component."""
        node = variable.owner
        return node is not None and adapter.is_random(node.op) and variable not in self._model.rvs_to_values

    def _below(self, variable: Any) -> list[Any]:
        if variable.owner is None:
            return []
        if operation_name(variable.owner) in ("Shape", "Shape_i"):
            source = variable.owner.inputs[0]
            if _data(source) is not None or self._unnamed(source):
                return []
        if adapter.is_random(variable.owner.op):
            return adapter.ingredients(variable) if variable in self._model.rvs_to_values else []
        if operation_name(variable.owner) in CHECKS:
            return list(variable.owner.inputs[:1])
        return [part for part in variable.owner.inputs if _is_number(part)]

    def _make(self, variable: Any) -> Entry:
        if variable.owner is None:
            return self._leaf(variable)
        if adapter.is_random(variable.owner.op):
            return self._random(variable)
        node = variable.owner
        if operation_name(node) == "Scan":
            self._entries.update(unrolled(self, node))
            return self._entries[variable]
        handler = HANDLERS.get(type(node.op).__name__)
        graph = inner_graph(node) if handler is None else None
        if graph is not None:
            inside = self.within({inner: self.entry(outer) for inner, outer in graph[0]})
            return inside.entry(graph[1][node.outputs.index(variable)])
        result = None if handler is None else handler(self, node)
        return self._fold(variable) if result is None else result

    def _leaf(self, variable: Any) -> Entry:
        value = adapter.leaf_value(variable)
        if value is None:
            unsupported(f"the symbolic input {variable.name or variable.type}, which has no value")
        if value.shape == self._sentinel.shape and value.size > 1 and np.array_equal(value, self._sentinel):
            bad_graph(f"the response {self._schema.response!r} may be used only as observed=")
        if holds_rows(value, self._schema.num_rows):
            bad_graph(
                f"rows of the response {self._schema.response!r} are a parameter of something: it may be used"
                " only as observed=. A series that depends on its own past is pm.AR, or its lags are columns"
                " of the data"
            )
        expression = getattr(variable.tag, "expression", None)
        return self.builder.array(value, expression if isinstance(expression, Expression) else None)

    def _random(self, variable: Any) -> Entry:
        if variable not in self._model.rvs_to_values:
            name = adapter.distribution_name(variable.owner.op) or adapter.display_name(variable.owner.op)
            unsupported(f"a {name} that is not a variable of the model (made by .dist())")
        if adapter.is_diffusion(variable) and variable in self._model.free_RVs:
            return diffusion_path(self, variable)
        part = random_part(self, variable)
        if 0 in part.shape:  # as imputations are where no row lacks a value: it has one value, of density 1
            return self.builder.constant(np.zeros(part.shape))
        if adapter.is_ordered(self._model, variable):
            part = ordered_part(self, part)
        elif (ends := adapter.bounds(self._model, variable)) is not None:
            part = bounded_part(self, part, ends)
        entries = without_padding(self, part.law, part.entries, part.shape)
        return self.builder.random(part.law.attributes(), entries, str(variable.name), part.shape)

    def _fold(self, variable: Any) -> Entry:
        """An operation that the graph language lacks, by its value where only literals go into it."""
        node = variable.owner
        entries = [self._entries[part] if _is_number(part) else None for part in node.inputs]
        values = [entry.value for entry in entries if entry is not None and entry.literal]
        known = [value for value in values if value is not None]
        if len(known) != len(node.inputs):
            unsupported(f"operation {operation_name(node)}")
        try:
            results = adapter.evaluate(node, known)
        except MemoryError:
            raise
        except Exception as error:
            bad_graph(f"operation {operation_name(node)}: {error}")
        return self.builder.constant(results[node.outputs.index(variable)])

    def _deterministics(self, observed: set[Entry]) -> dict[str, Entry]:
        """Named derived quantities; what the graph language lacks is left out, for it changes no score."""
        found: dict[str, Entry] = {}
        paths = [variable for variable in self._model.free_RVs if adapter.is_diffusion(variable)]
        for variable in [*paths, *self._model.deterministics]:
            if self._left_out and self._left_out & adapter.variables_below([variable]):
                continue
            try:
                entry = self.entry(variable)
            except ProgramFailure as failure:
                if failure.category is not FailureCategory.UNSUPPORTED:
                    raise
                continue
            if not _depends(entry, observed):
                found[str(variable.name)] = entry
        return found


def _data(variable: Any) -> Array | None:
    """The values of a constant or of shared data, also behind a cast; `None` for anything else."""
    while variable.owner is not None and operation_name(variable.owner) == "Cast":
        variable = variable.owner.inputs[0]
    return adapter.leaf_value(variable)


def _depends(entry: Entry, on: set[Entry]) -> bool:
    pending, seen = [entry], set()
    while pending:
        current = pending.pop()
        if current in on:
            return True
        pending += [part for part in current.inputs if id(part) not in seen]
        seen |= {id(part) for part in current.inputs}
    return False


def _is_number(variable: Any) -> bool:
    """Whether a variable is a tensor or scalar (not a slice, None or a random generator)."""
    return hasattr(variable.type, "dtype")


def unsupported(what: str) -> NoReturn:
    """Ends extraction: the model is outside the graph language."""
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)


def bad_graph(what: str) -> NoReturn:
    """Ends extraction: the model is not one of the response."""
    raise ProgramFailure(FailureCategory.BAD_GRAPH, what)

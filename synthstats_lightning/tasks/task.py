"""A task: a data set with a description, named covariates and one named response."""

from __future__ import annotations

import hashlib
import json
import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import cached_property
from types import MappingProxyType

import numpy as np

from synthstats_lightning.programs.demands.censoring import LIMITS, NO_LIMIT
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import DataSchema, EventColumn, View
from synthstats_lightning.tasks.columns import Array, Column, as_column, column_kind, plain_names
from synthstats_lightning.tasks.response_transform import ResponseTransform, named_transform

RESERVED_NAMES = frozenset({"pm", "np", "pt", "math", "data", "model", "build", "gen_model", "observed_data"})
"""Names that every program has in scope, so that a column cannot take them."""

RESPONSE_KINDS = ("continuous", "count", "binary", "ordinal")

PLAIN_DESCRIPTION = "A response that may depend on covariates."
"""What a task without domain knowledge says of itself unless it has a plain description of its own."""


class Task:
    """A data set with a description, named covariates and one named response.

    Rows come in three parts, in this order: shown ones (`shown_rows`), scored ones, and held-out ones
    (`held_out`). Evidence and elpd are those of the scored rows given the shown ones; the held-out log
    predictive density is that of the held-out rows given all others.

    Args:
        name: Short name; it keys log Z, metrics and files. What stands before a slash is the environment
            that several instances share: `death_process/3`.
        description: One sentence for the prompt.
        data: Column name to values of shape `(rows,)`, integers or floats, in the order of the data set.
        response: Name of the response column.
        units: Column name to unit, for the prompt.
        shown_rows: Rows of the response that the prompt shows (the first ones). They only condition: a score
            is that of the other rows given the shown ones.
        response_kind: `"continuous"`, `"count"`, `"binary"` or `"ordinal"`; by default what the values look
            like: integers from 0 are counts (binary if there are only 0 and 1), everything else is
            continuous. It decides which distributions a program may give the response. Ordered categories
            are the whole numbers from 0: counts out of the highest, which may follow an ordered law.
        rounding: Spacing of the values that a continuous response was recorded to, in its unit: 0.01 for two
            decimals. Programs are then scored by the probability of each row's interval over its width, or by
            the density where that is as good (`scoring.prediction.recorded`), so that a noise scale below the
            rounding gains nothing; by default values count as exact.
        held_out: Rows of the response (the last ones) that neither evidence nor elpd counts and that
            `heldout_lpd` predicts. At 0 the engine chooses rows for that score itself, among all.
        total: What counts are out of: a number, or the name of a covariate of whole numbers.
        ranges: Column name to smallest and largest value as the prompt gives them; by default those of the
            data, of the response those of the rows that are not held out.
        plain_description: One sentence without domain knowledge.
        domain_knowledge: Without it the prompt has the plain description, no units, and columns are called
            `x` (or `x1`, `x2`, ...) and `y`, for programs too.
        limits: Smallest value, `"lower"`, and largest, `"upper"`, that the response could be observed at:
            beyond them it was recorded as the limit, and `pm.Censored` may have them. Otherwise only a
            column may say where a continuous response is censored.
        censoring: `"upper"`, `"lower"` or both, to the covariate that says how far each row's response
            could be observed. Where the response is at its limit it was cut short, and every program is
            scored by the probability of what lies beyond, whether it says `pm.Censored` or not. Such a
            covariate can be nothing but a limit of the response: it says which rows were cut short.
        ordered: Names of the levels from 0 of an ordinal response; by default the numbers.
        response_transform: `"log"`, `"standardised"` or `"scaled"`: programs see a continuous response so
            (standardised by the middle and a quarter of its range, scaled by a power of ten), and every
            score has the transform's Jacobian, so that evidences compare with those of other transforms.
            Pictures show the scale that programs see; forecasts of new rows are on the measured one.
        quantities: Name to meaning of what a program must declare by `pm.Deterministic`: a program that does
            not fails, and nothing else is read in its place. `ProgramScorer.posterior` has their draws.

    Raises:
        ValueError: If a name is not an identifier or is reserved, the response is missing, a continuous
            response is constant, a value is not finite, columns differ in length, counts exceed their total,
            or `shown_rows` and `held_out` leave nothing to score or hold out.
    """

    views: Mapping[str, View] = MappingProxyType({})
    """Name to what programs may use besides the columns, made from them; in no model graph and no score."""
    events: Mapping[str, EventColumn] = MappingProxyType({})
    """Name to a column of events, for programs that choose limits with it; no prompt names them."""
    tell_views: bool = False
    """Whether the prompt names the views, which the bundled policies were not made for."""
    roles: Mapping[str, str] = MappingProxyType({})
    """Column to its role for policies that word requests themselves, and `LEFT_OUT` for numbers of rows.
    Prompts of text do not say it: it is of tasks whose prompts came before roles and stay as they are."""
    proposal: str = "nothing"
    """What of the rows that count the proposal's prompt shows; see `tasks.proposal`."""
    instructions: str = "short"
    """What both prompts say of programs; see `tasks.instructions`."""
    most_examples: int = 0
    """How many of a run's best programs so far the proposal's prompt shows at most."""
    examples: tuple[tuple[str, float], ...] = ()
    """Those that it shows at present, each an `Example`; a run changes them on its own copy of the task."""
    written_prompt: tuple[str, str, bool] | None = None
    """Rules, request and whether thinking is asked for, of a task that words its own prompt."""

    def __init__(
        self,
        name: str,
        description: str,
        data: Mapping[str, Array],
        response: str,
        units: Mapping[str, str] | None = None,
        shown_rows: int = 0,
        response_kind: str | None = None,
        rounding: float | None = None,
        held_out: int = 0,
        total: str | int | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        plain_description: str | None = None,
        domain_knowledge: bool = True,
        quantities: Mapping[str, str] | None = None,
        limits: Mapping[str, float] | None = None,
        response_transform: str | None = None,
        censoring: Mapping[str, str] | None = None,
        ordered: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.description = description
        self.data = {key: as_column(key, values) for key, values in data.items()}
        self.response = response
        self.units = dict(units or {})
        self.shown_rows = shown_rows
        self.rounding = rounding
        self.held_out = held_out
        self.total = total
        self.ranges = {key: (float(low), float(high)) for key, (low, high) in (ranges or {}).items()}
        self.domain_knowledge = domain_knowledge
        self.quantities = dict(quantities or {})
        self.limits = {side: float(value) for side, value in (limits or {}).items()}
        self.censoring = dict(censoring or {})
        self.column_names = {key: key for key in self.data}
        self._check()
        self.data |= {column: self.data[column].astype(np.float64) for column in self.censoring.values()}
        if not domain_knowledge:
            self._forget_domain(plain_description or PLAIN_DESCRIPTION)
        self.ordered = tuple(ordered)
        self.response_kind = response_kind or self._guess_kind()
        if self.response_kind == "ordinal":
            self._order()
        self.data[self.response] = self._response_values()
        self.transform = None if response_transform is None else self._transform_response(response_transform)
        if self.response_kind == "continuous":
            self.check_varies()
        if self.rounding is not None:
            self._check_rounding(self.rounding, self.transform)
        if self.total is not None:
            self._check_total(self.total)
        if self.limits:
            self._check_limits()
        if self.censoring:
            self._check_censoring()

    def _forget_domain(self, description: str) -> None:
        """Takes the words out; `column_names` keeps what columns were called."""
        names = plain_names(self.data, self.response)
        self.column_names = names
        self.description = description
        self.units = {}
        self.data = {names[key]: values for key, values in self.data.items()}
        self.ranges = {names[key]: ends for key, ends in self.ranges.items()}
        self.total = names[self.total] if isinstance(self.total, str) else self.total
        self.censoring = {side: names[column] for side, column in self.censoring.items()}
        self.response = names[self.response]

    def _order(self) -> None:
        """Takes ordered categories for counts out of the highest one."""
        values = self.data[self.response]
        top = int(values.max()) if np.isfinite(values.max()) else 0
        levels = self.ordered or tuple(str(level) for level in range(top + 1))
        whole = (values == np.round(values)).all() and values.min() >= 0 and top < len(levels)
        if not whole or len(levels) < 3 or self.total is not None:
            raise ValueError(
                f"response {self.response!r} of kind 'ordinal' must hold whole numbers from 0 below the"
                f" number of its levels, 3 at least, and have no total, got {values.min():g} to"
                f" {values.max():g} of {len(levels)} levels"
            )
        self.response_kind, self.total, self.ordered = "count", len(levels) - 1, levels

    def _guess_kind(self) -> str:
        kind = column_kind(self.data[self.response])
        if kind == "binary" and self.total is not None:
            return "count"
        return "continuous" if kind == "integer" else kind

    def _response_values(self) -> Array:
        values = self.data[self.response]
        kind = self.response_kind
        if kind not in RESPONSE_KINDS:
            raise ValueError(f"response_kind must be one of {', '.join(RESPONSE_KINDS)}, got {kind!r}")
        if kind == "continuous":
            return values.astype(np.float64)
        top = 1 if kind == "binary" else np.inf
        if (values < 0).any() or (values > top).any() or (values != np.round(values)).any():
            allowed = "0 and 1" if kind == "binary" else "whole numbers from 0"
            raise ValueError(f"response {self.response!r} of kind {kind!r} must hold {allowed}")
        return values.astype(np.int64)

    def _transform_response(self, kind: str) -> ResponseTransform:
        """Takes the response for its transform, and with it all that is said on its scale."""
        if self.response_kind != "continuous":
            raise ValueError(
                f"response_transform of task {self.name!r} is for a continuous response; {self.response!r} is"
                f" of kind {self.response_kind!r}"
            )
        if kind == "log" and self.rounding is not None:
            raise ValueError(f"rounding of task {self.name!r} has no constant width on the log scale")
        values = self.data[self.response]
        ends = self.ranges.get(self.response) or (float(values.min()), float(values.max()))
        transform = named_transform(kind, *ends)
        if kind == "log" and (values <= 0).any():
            raise ValueError(f"response_transform 'log' needs values above 0, got {values.min():g}")
        self.data[self.response] = transform.forward(values)
        if self.response in self.ranges:
            low, high = transform.forward(np.array(ends))
            self.ranges[self.response] = (float(low), float(high))
        self.limits = {
            side: float(transform.forward(np.array([value]))[0]) for side, value in self.limits.items()
        }
        for column in self.censoring.values():
            limits = self.data[column]
            self.data[column] = np.where(np.abs(limits) < NO_LIMIT, transform.forward(limits), limits)
        self.rounding = None if self.rounding is None else self.rounding / transform.scale
        unit = self.units.get(self.response, "")
        self.units[self.response] = f"{unit} {transform.words}".strip()
        return transform

    def _check_rounding(self, rounding: float, transform: ResponseTransform | None) -> None:
        if not (np.isfinite(rounding) and rounding > 0):
            raise ValueError(f"rounding of task {self.name!r} must be a number above 0, got {rounding}")
        if self.response_kind != "continuous":
            raise ValueError(
                f"rounding of task {self.name!r} is for a continuous response; {self.response!r} is of kind"
                f" {self.response_kind!r}"
            )
        values = self.data[self.response]
        if transform is not None:
            values, rounding = transform.inverse(values), rounding * transform.scale
        steps = values / rounding
        off = np.abs(steps - np.rint(steps)) > 1e-6 * np.maximum(1.0, np.abs(steps))
        if off.any():
            raise ValueError(
                f"response {self.response!r} of task {self.name!r} holds {values[off][0]:g}, which is no"
                f" multiple of the rounding {rounding:g}"
            )

    def _check_limits(self) -> None:
        values, known = self.data[self.response], set(self.limits) <= set(LIMITS)
        low, high = self.limits.get("lower", -math.inf), self.limits.get("upper", math.inf)
        if not known or not low < high or self.response_kind != "continuous":
            raise ValueError(
                f"limits of task {self.name!r} must be lower, upper or both, in order, of a continuous"
                f" response, got {self.limits} for kind {self.response_kind!r}"
            )
        if values.min() < low or values.max() > high:
            raise ValueError(
                f"limits of task {self.name!r} must hold every value of {self.response!r}, which are from"
                f" {values.min():g} to {values.max():g}, got {self.limits}"
            )

    def _check_censoring(self) -> None:
        if self.response_kind == "binary":
            raise ValueError(
                f"censoring of task {self.name!r} is for times, measurements and counts, not binary"
            )
        values = self.data[self.response]
        for side, column in self.censoring.items():
            limits = self.data[column]
            if (values > limits).any() if side == "upper" else (values < limits).any():
                raise ValueError(
                    f"{column!r} of task {self.name!r} must be {'at least' if side == 'upper' else 'at most'}"
                    f" the value of {self.response!r} in every row, whose limit it is"
                )

    def _check_total(self, total: str | int) -> None:
        if self.response_kind != "count":
            raise ValueError(
                f"total of task {self.name!r} is for counts; {self.response!r} is of kind"
                f" {self.response_kind!r}"
            )
        most = self.data[total] if isinstance(total, str) else np.full(self.num_rows, total)
        if not np.issubdtype(most.dtype, np.integer) or (self.data[self.response] > most).any():
            raise ValueError(
                f"total {total!r} of task {self.name!r} must be whole numbers that {self.response!r} does not"
                " exceed"
            )

    def _check(self) -> None:
        if not self.name or not all(_is_word(part) for part in self.name.split("/")):
            raise ValueError(f"name must be a word such as 'dugongs', got {self.name!r}")
        if self.response not in self.data:
            raise ValueError(
                f"response {self.response!r} is not a column of task {self.name!r};"
                f" columns: {', '.join(self.data)}"
            )
        for key in self.data:
            if not key.isidentifier() or keyword.iskeyword(key) or key in RESERVED_NAMES:
                raise ValueError(
                    f"column {key!r} of task {self.name!r} cannot be a variable of a program: it must be a"
                    f" Python identifier, no keyword and none of {', '.join(sorted(RESERVED_NAMES))}"
                )
        lengths = {key: len(values) for key, values in self.data.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns of task {self.name!r} differ in length: {lengths}")
        for setting, names in (("units", self.units.keys()), ("ranges", self.ranges.keys())):
            unknown = names - self.data.keys()
            if unknown:
                raise ValueError(
                    f"{setting} of task {self.name!r} name no column: {', '.join(sorted(unknown))}"
                )
        if isinstance(self.total, str) and self.total not in self.covariates:
            raise ValueError(
                f"total of task {self.name!r} must be a number or one of {', '.join(self.covariates)},"
                f" got {self.total!r}"
            )
        if not set(self.censoring) <= set(LIMITS) or not set(self.censoring.values()) <= set(self.covariates):
            raise ValueError(
                f"censoring of task {self.name!r} must be lower, upper or both, to one of"
                f" {', '.join(self.covariates)}, got {self.censoring}"
            )
        for key, (low, high) in self.ranges.items():
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ValueError(
                    f"ranges of task {self.name!r} must be two numbers in order, got {key}: {low}, {high}"
                )
        for quantity in self.quantities:
            if not quantity.isidentifier() or quantity in self.data:
                raise ValueError(
                    f"quantities of task {self.name!r} must be named by identifiers that are no columns,"
                    f" got {quantity!r}"
                )
        self._check_parts()

    def _check_parts(self) -> None:
        if not 0 <= self.held_out <= self.num_rows:
            raise ValueError(
                f"held_out of task {self.name!r} must be from 0 to {self.num_rows}, got {self.held_out}"
            )
        most = self.num_rows - max(self.held_out, 1)
        if not 0 <= self.shown_rows <= most:
            raise ValueError(
                f"shown_rows of task {self.name!r} must be from 0 to {most}, got {self.shown_rows}"
            )
        if self.held_out == self.num_rows and self.response not in self.ranges:
            raise ValueError(
                f"ranges of task {self.name!r} must give that of {self.response!r}: all its rows are held out"
            )

    def check_varies(self) -> None:
        """Refuses a response that is the same in all scored rows.

        Raises:
            ValueError: If it is, and there are at least two.
        """
        scored = self.data[self.response][self.counting_rows]
        if len(scored) > 1 and scored.min() == scored.max():
            raise ValueError(f"response {self.response!r} of task {self.name!r} is constant ({scored[0]})")

    @property
    def num_rows(self) -> int:
        """Rows of the data set."""
        return len(self.data[self.response])

    @property
    def counting_rows(self) -> slice:
        """The rows that evidence and elpd count: neither shown ones nor held-out ones."""
        return slice(self.shown_rows, self.num_rows - self.held_out)

    @property
    def environment(self) -> str:
        """What instances of one environment share: the name up to a slash."""
        return self.name.split("/")[0]

    @property
    def reference(self) -> str:
        """Name of the file in `tasks/reference` with the task's own generating program."""
        return self.environment

    @property
    def log_jacobian(self) -> Array | None:
        """What each row's log density lacks to be one of the measured response, if it is transformed.

        Rows that were cut short have probabilities, which lack nothing.
        """
        if self.transform is None:
            return None
        values = self.data[self.response]
        cut = [values == self.data[column] for column in self.censoring.values()]
        return np.where(np.any(cut, axis=0), 0.0, self.transform.log_jacobian(values))

    @property
    def covariates(self) -> dict[str, Array]:
        """The columns that programs may use as values."""
        return {key: values for key, values in self.data.items() if key != self.response}

    @property
    def predictors(self) -> dict[str, Array]:
        """The covariates that may explain the response: not those that say where it was cut short."""
        return {key: values for key, values in self.covariates.items() if key not in self.censoring.values()}

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What a prompt may say of each column, the response included."""
        kinds = {key: column_kind(values) for key, values in self.data.items()}
        kinds[self.response] = self.response_kind
        seen = {**self.data, self.response: self.data[self.response][: self.num_rows - self.held_out]}
        columns = {}
        for key, values in seen.items():
            own_range = (0.0, 1.0) if kinds[key] == "binary" else None
            low, high = self.ranges.get(key) or own_range or (float(values.min()), float(values.max()))
            role = "limit" if key in self.censoring.values() else ""
            columns[key] = Column(key, kinds[key], low, high, self.units.get(key, ""), role=role)
        own = columns[self.response]
        columns[self.response] = Column(
            own.name, own.kind, own.low, own.high, own.unit, self.rounding, self.total
        )
        return columns

    @cached_property
    def schema(self) -> DataSchema:
        """Names, dtypes and number of rows: all that leaves for the sandbox besides covariates."""
        return DataSchema(
            columns={key: str(values.dtype) for key, values in self.covariates.items()},
            response=self.response,
            response_dtype=str(self.data[self.response].dtype),
            num_rows=self.num_rows,
            views=dict(self.views),
            censoring=dict(self.censoring),
            events=dict(self.events),
            response_levels=self.response_levels,
            response_whole=self._is_whole(),
            own_names=dict(self.own_names),
            words=dict(self.words),
        )

    def _is_whole(self) -> bool:
        """Whether a measured response, as it was recorded, has whole numbers only."""
        values = self.data[self.response]
        plain = self.transform is None and self.rounding in (None, 1.0) and not self.censoring
        return plain and values.dtype.kind == "f" and bool((values == np.rint(values)).all())

    @property
    def response_levels(self) -> tuple[str, ...]:
        """What the response's numbers from 0 stand for in the table; empty of measurements and counts."""
        return ("0", "1") if self.response_kind == "binary" else self.ordered

    @property
    def own_names(self) -> Mapping[str, str]:
        """Name of a column in the table to that by which programs have it, where they differ."""
        return {}

    @property
    def words(self) -> Mapping[str, tuple[str, ...]]:
        """What the numbers from 0 of a column of yes and no are called in the table."""
        return {}

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that a score depends on: data, parts, rounding, limits, names, quantities."""
        data = data_fingerprint(
            self.covariates, self.data[self.response], self.shown_rows, self.rounding, self.held_out
        )
        # a program sees names, and columns in their order, which a model graph does not
        names = [data, list(self.data), self.response, sorted(self.quantities), self.limits]
        # fields that a view does not set are not named: runs of before there were some go on; nor are names
        # of rows, which no model graph reads
        views = {name: _without_defaults(view) for name, view in self.views.items() if not view.names_rows}
        if self.transform is not None:
            names.append(astuple(self.transform))
        if self.censoring:
            # stored scores of programs that saw the limits' values may be forged
            names.append({"hidden": self.censoring})
        if self.response_levels != tuple(map(str, range(len(self.response_levels)))):
            names.append({"levels": self.response_levels})  # what `y - 1` means
        if self.words:
            names.append({"words": dict(self.words)})  # what `married == "yes"` means
        if self.events:
            names.append({name: astuple(event) for name, event in self.events.items()})
        seen = json.dumps([*names, views] if views else names)
        return hashlib.sha256(seen.encode()).hexdigest()[:32]


def _without_defaults(view: View) -> tuple[object, ...]:
    own = astuple(view)
    return own[:4] if own[4:] == astuple(View(view.column))[4:] else own


def _is_word(part: str) -> bool:
    """Whether a part of a name is a word, or the number of an instance."""
    return part.replace("-", "_").isidentifier() or part.isdigit()

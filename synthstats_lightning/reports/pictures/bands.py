"""Predictive bands: what programs predict along each covariate, the others at their medians."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.reports.pictures.predictive_draws import ResponseDraws
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.columns import Array

POINTS = 40
"""Points of a covariate's axis."""
MAX_PANELS = 6
MAX_COLOURS = 8
"""Levels that colours tell apart: of a category with more, those of most rows."""
MAX_LEVELS = 8
"""Whole numbers of a column that are levels rather than places on a line."""
MAX_CATEGORIES = 24
"""Levels of a category that have a place on an axis."""
QUANTILES = (0.05, 0.5, 0.95)
"""Bands hold 90 % of the predictive distribution around its median."""


@dataclass(frozen=True)
class Curve:
    """A band along an axis.

    Attributes:
        label: The level of the group that it is of; empty without groups.
        x: Places on the axis.
        low: Lower end of the band.
        middle: Median at each place.
        high: Upper end of the band.
    """

    label: str
    x: Float[np.ndarray, " points"]
    low: Float[np.ndarray, " points"]
    middle: Float[np.ndarray, " points"]
    high: Float[np.ndarray, " points"]


@dataclass(frozen=True)
class Cloud:
    """Rows of the data set.

    Attributes:
        label: The level of the group that they are of; empty without groups.
        x: Their places on the axis.
        y: The responses of these rows.
    """

    label: str
    x: Float[np.ndarray, " rows"]
    y: Float[np.ndarray, " rows"]


@dataclass(frozen=True)
class Panel:
    """One axis with bands and data.

    Attributes:
        axis: What the axis is called, unit included.
        ticks: Names of the axis's values 0, 1, ...; empty where it is a number line.
        curves: A band for each level of the group.
        clouds: The rows of each.
    """

    axis: str
    ticks: tuple[str, ...]
    curves: tuple[Curve, ...]
    clouds: tuple[Cloud, ...]

    @property
    def is_grouped(self) -> bool:
        """Whether its colours tell levels apart."""
        return any(curve.label for curve in self.curves)


@dataclass(frozen=True)
class Bands:
    """Bands of one program or set along every covariate that it uses.

    Attributes:
        response: What the vertical axis is called.
        group: The column that colours tell apart; empty without one.
        held: What covariates are held at where they are no axis, in words: such as `age 40, dose 2`, or the
            medians in each group.
        panels: One for each covariate.
        limits: Lower and upper end of the vertical axis.
    """

    response: str
    group: str
    held: str
    panels: tuple[Panel, ...]
    limits: tuple[float, float]


class Slice(NamedTuple):
    """New rows of one band.

    Attributes:
        axis: The covariate that varies.
        level: Value of the group column; `None` without groups.
        x: Values of the covariate.
        rows: Where the rows are among the new ones.
    """

    axis: str
    level: float | None
    x: Float[np.ndarray, " points"]
    rows: slice


@dataclass(frozen=True)
class Design:
    """The rows that bands are drawn from.

    Attributes:
        group: The column that colours tell apart; empty without one.
        held: What other covariates are held at, by name.
        slices: The bands, panel after panel.
        columns: Every covariate's name to its values in the new rows; empty where there is no panel.
    """

    group: str
    held: Mapping[str, float]
    slices: tuple[Slice, ...]
    columns: Mapping[str, Array]


def panel_design(task: Task, used: Sequence[str]) -> Design:
    """The rows to predict for panels of some covariates.

    The first of them with few levels is the group that colours tell apart.

    Args:
        task: The data that are drawn.
        used: Covariates, most important first; those beyond `MAX_PANELS` and constant ones are left out.
    """
    covariates = {name: _given(task, values) for name, values in task.predictors.items()}
    total = task.total if isinstance(task.total, str) else None
    axes = [
        name
        for name in used
        if name in task.predictors and name != total and np.ptp(covariates[name].astype(float)) > 0
    ][:MAX_PANELS]
    group = _group(task, axes) if len(axes) > 1 else ""
    held = _medians(covariates, "", None)
    slices: list[Slice] = []
    parts: dict[str, list[Array]] = {name: [] for name in covariates}
    start = 0
    for axis in axes:
        for level in _colours(covariates[group]) if group not in ("", axis) else [None]:
            x = _axis_values(task, axis)
            # of a group its own medians, where that is the axis those of each level
            kept = [_medians(covariates, group, value if axis == group else level) for value in x]
            for name, values in parts.items():
                values.append(x if name == axis else np.array([each[name] for each in kept]))
            slices.append(Slice(axis, level, x, slice(start, start + len(x))))
            start += len(x)
    columns: dict[str, Any] = {
        # whole numbers stay whole: programs may take them as places in a vector
        name: np.concatenate(values).astype(covariates[name].dtype)
        for name, values in parts.items()
        if values
    }
    if columns:  # what is drawn is not cut short
        ends = {"upper": NO_LIMIT, "lower": -NO_LIMIT}
        columns |= {name: np.full(start, ends[side]) for side, name in task.censoring.items()}
    return Design(group, held, tuple(slices), columns)


def draw_bands(task: Task, design: Design, draws: ResponseDraws) -> Bands:
    """Bands from predictions at the rows of a design; of counts out of a total their share of it.

    Without predictions of new rows there is one panel, of the rows with their own: along the covariate if
    there is one, else in their order.

    Args:
        task: The data that are drawn.
        design: What `panel_design` returned.
        draws: Predictions at its rows, of a program or of a set.
    """
    y = _given(task, task.data[task.response]).astype(np.float64)
    unit: Any = 1.0
    name = axis_name(task, task.response)
    if task.response_kind == "binary":
        name = f"probability of {task.response}"
    elif task.total is not None:
        most = task.total
        totals = _given(task, task.covariates[most]) if isinstance(most, str) else np.full(len(y), most)
        y = y / np.maximum(totals, 1)
        unit = design.columns.get(most, np.ones(0)) if isinstance(most, str) else float(most)
        name = f"share of {task.response}"
    if not draws.new.shape[1]:
        axes = list(dict.fromkeys(each.axis for each in design.slices))
        return _by_row(task, name, y, draws, axes[0] if len(axes) == 1 else None)
    panels = []
    for axis in dict.fromkeys(each.axis for each in design.slices):
        own = [each for each in design.slices if each.axis == axis]
        panels.append(_panel(task, design, axis, own, draws.new / unit, y))
    shown = {each.axis for each in design.slices} | {design.group}
    others = {key: value for key, value in design.held.items() if key in shown and key != design.group}
    held = ", ".join(f"{key} {level_name(task, key, value)}" for key, value in others.items())
    if design.group:
        held = "its median in each group"
    shown_held = held if design.group or len(others) > 1 else ""
    return Bands(name, design.group, shown_held, tuple(panels), _limits(task, y, panels))


def axis_name(task: Task, name: str) -> str:
    """A column with its unit.

    Args:
        task: The data that are drawn.
        name: Name of the column.
    """
    unit = task.units.get(name)
    return f"{name} ({unit})" if unit else name


def level_name(task: Task, column: str, value: float) -> str:
    """What a column's value is called: of a category its level.

    Args:
        task: The data that are drawn.
        column: Name of the column.
        value: One of its values.
    """
    levels = task.columns[column].levels
    place = int(value)
    return levels[place] if place == value and 0 <= place < len(levels) else f"{value:.6g}"


def _panel(
    task: Task,
    design: Design,
    axis: str,
    slices: Sequence[Slice],
    new: Float[np.ndarray, "draws new"],
    y: Array,
) -> Panel:
    values = _given(task, task.covariates[axis]).astype(np.float64)
    levels = _levels(task, axis)
    place = {value: float(index) for index, value in enumerate(levels)} if levels is not None else None
    grouped = design.group and axis != design.group
    curves, clouds = [], []
    for each in slices:
        label = level_name(task, design.group, each.level) if each.level is not None else ""
        x = each.x if place is None else np.array([place[float(value)] for value in each.x])
        low, middle, high = band_of(task, new[:, each.rows])
        curves.append(Curve(label, x, low, middle, high))
        mine = _given(task, task.covariates[design.group]) == each.level if grouped else np.ones(len(y), bool)
        if place is not None:
            mine &= np.isin(values, list(place))
        at = values[mine] if place is None else np.array([place[float(value)] for value in values[mine]])
        clouds.append(Cloud(label, at, y[mine]))
    ticks = tuple(level_name(task, axis, value) for value in levels) if levels is not None else ()
    return Panel(axis_name(task, axis), ticks, tuple(curves), tuple(clouds))


def band_of(
    task: Task, draws: Float[np.ndarray, "draws points"]
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Lower end, middle and upper end of draws; the middle of a binary response is its mean probability.

    Args:
        task: Says which kind the response is of.
        draws: At each point; NaN counts as absent.
    """
    with np.errstate(all="ignore"):
        low, middle, high = np.nanquantile(np.where(np.isfinite(draws), draws, np.nan), QUANTILES, axis=0)
    return low, draws.mean(axis=0) if task.response_kind == "binary" else middle, high


def _by_row(task: Task, name: str, y: Array, draws: ResponseDraws, axis: str | None) -> Bands:
    """The rows with their own predictions."""
    rows: Float[np.ndarray, " rows"] = np.arange(1.0, len(y) + 1)
    if axis is not None:
        rows = _given(task, task.covariates[axis]).astype(np.float64)
    order = np.argsort(rows, kind="stable")
    rows, y, own = rows[order], y[order], draws.own[:, order]
    if task.response_kind == "binary":
        middle = own.mean(axis=0)
        curve = Curve("", rows, middle, middle, middle)
    else:
        if task.total is not None:
            most = task.total
            own = own / (_given(task, task.covariates[most])[order] if isinstance(most, str) else most)
        curve = Curve("", rows, *band_of(task, own))
    panel = Panel("row" if axis is None else axis_name(task, axis), (), (curve,), (Cloud("", rows, y),))
    return Bands(name, "", "", (panel,), _limits(task, y, [panel]))


def _limits(task: Task, y: Array, panels: Sequence[Panel]) -> tuple[float, float]:
    """The vertical axis: data and bands, but no band far beyond the data."""
    if task.response_kind == "binary":
        return -0.05, 1.05
    low, high = float(y.min()), float(y.max())
    span = (high - low) or max(abs(high), 1.0)
    ends = np.concatenate([np.r_[curve.low, curve.high] for panel in panels for curve in panel.curves])
    ends = ends[np.isfinite(ends)]
    bottom = max(low - 0.5 * span, float(ends.min())) if len(ends) else low
    top = min(high + 0.5 * span, float(ends.max())) if len(ends) else high
    return min(bottom, low) - 0.04 * span, max(top, high) + 0.04 * span


def _given(task: Task, values: Array) -> Array:
    return values[: task.num_rows - task.held_out] if task.held_out < task.num_rows else values


def _medians(covariates: Mapping[str, Array], group: str, level: float | None) -> dict[str, float]:
    """The middle of each column, in the rows of a level where one is given."""
    if not group or level is None:
        return {name: _middle(values) for name, values in covariates.items()}
    rows = covariates[group] == level
    return {name: _middle(values[rows]) for name, values in covariates.items()}


def _middle(values: Array) -> float:
    """The median, or of whole numbers the observed value in the middle."""
    return float(np.quantile(values, 0.5, method="linear" if values.dtype.kind == "f" else "nearest"))


def _levels(task: Task, name: str) -> list[float] | None:
    """Values of a category or of a column of few whole numbers; `None` for any other."""
    distinct, counts = np.unique(_given(task, task.covariates[name]), return_counts=True)
    if task.columns[name].levels:
        common = np.sort(distinct[np.argsort(-counts, kind="stable")[:MAX_CATEGORIES]])
        return [float(value) for value in common]
    if len(distinct) > MAX_LEVELS or (distinct != np.round(distinct)).any():
        return None
    return [float(value) for value in distinct]


def _group(task: Task, axes: Sequence[str]) -> str:
    """The column that colours tell apart: a category before numbers, the more important before the less."""
    found = [name for name in axes if _levels(task, name) is not None]
    return min(found, key=lambda name: not task.columns[name].levels, default="")


def _colours(values: Array) -> list[float | None]:
    """The levels of most rows, in order."""
    distinct, counts = np.unique(values, return_counts=True)
    return [float(value) for value in np.sort(distinct[np.argsort(-counts, kind="stable")[:MAX_COLOURS]])]


def _axis_values(task: Task, name: str) -> Float[np.ndarray, " points"]:
    levels, values = _levels(task, name), _given(task, task.covariates[name])
    if levels is not None:
        return np.array(levels)
    distinct = np.unique(values)
    if values.dtype.kind != "f":
        chosen = np.unique(np.linspace(0, len(distinct) - 1, min(POINTS, len(distinct))).round().astype(int))
        return np.asarray(distinct[chosen], dtype=np.float64)
    return np.linspace(distinct[0], distinct[-1], POINTS)

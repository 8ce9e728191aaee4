"""Plotly's figures of what a report draws. Text in them is escaped: Plotly reads some tags of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from synthstats_lightning.reports.pictures.bands import Bands, Cloud, Curve, Panel
from synthstats_lightning.reports.pictures.calibration import BINS, Calibration
from synthstats_lightning.reports.pictures.learning_curves import LearningCurves, Series
from synthstats_lightning.reports.pictures.palette import COLOURS, INK, translucent
from synthstats_lightning.reports.pictures.program_map import ProgramMap
from synthstats_lightning.reports.pictures.rootogram import Rootogram

Figure = dict[str, Any]
COLUMNS = 3
"""Panels beside each other at most."""
PANEL_HEIGHT = 290
LABEL_LENGTH = 60
_GAP = 0.1


def bands_figure(bands: Bands) -> Figure:
    """Bands and data, a panel a covariate.

    Args:
        bands: Bands of a program or a set.
    """
    traces: list[Figure] = []
    layout = _layout(len(bands.panels), [panel.axis for panel in bands.panels], bands.response)
    rng = np.random.default_rng(0)  # the same picture each time
    # the legend is that of one panel: of the first with groups, if there are any
    told = next((number for number, panel in enumerate(bands.panels, start=1) if panel.is_grouped), 1)
    for number, panel in enumerate(bands.panels, start=1):
        colours = _colours(bands)
        for curve in panel.curves:
            traces += _band_traces(curve, panel, number, colours[curve.label], first=number == told)
        for cloud in panel.clouds:
            traces.append(
                _cloud_trace(cloud, bands, panel, number, colours[cloud.label], rng, first=number == told)
            )
        layout[f"yaxis{_end(number)}"]["range"] = list(bands.limits)
        if panel.ticks:
            layout[f"xaxis{_end(number)}"] |= {
                "tickvals": list(range(len(panel.ticks))),
                "ticktext": [_shown(tick, 14) for tick in panel.ticks],
            }
    layout["showlegend"] = bool(bands.group)
    layout["legend"]["title"] = {"text": _shown(bands.group)}
    return {"data": traces, "layout": layout}


def rootogram_figure(found: Rootogram) -> Figure:
    """Observed frequencies as bars that hang from the predicted ones, on a scale of square roots.

    Args:
        found: Frequencies of a count.
    """
    expected, observed = np.sqrt(found.expected), np.sqrt(found.observed)
    labels = list(found.labels)
    bars = {
        "type": "bar",
        "name": "observed, hanging",
        "x": labels,
        "y": observed,
        "base": expected - observed,
        "marker": {"color": translucent(COLOURS[0], 0.65)},
        "customdata": np.c_[found.observed, found.expected],
        "hovertemplate": "%{x}: %{customdata[0]:.0f} rows, %{customdata[1]:.1f} predicted<extra></extra>",
    }
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "predicted, with 90 % of replicates",
        "x": labels,
        "y": expected,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": np.sqrt(found.high) - expected,
            "arrayminus": expected - np.sqrt(found.low),
            "thickness": 1,
            "width": 3,
        },
        "line": {"color": COLOURS[1], "width": 2},
        "hoverinfo": "skip",
    }
    layout = _layout(1, ["count"], "square root of the number of rows")
    layout["xaxis"]["type"] = "category"
    layout["yaxis"]["zeroline"] = True
    layout["showlegend"] = True
    return {"data": [bars, line], "layout": layout}


def calibration_figure(found: Calibration) -> Figure:
    """Histogram of the probability integral transform, and normal residuals over fitted values.

    Args:
        found: Transforms and residuals.
    """
    edges = (np.arange(BINS) + 0.5) / BINS
    low, high = found.expected
    traces = [
        {
            "type": "scatter",
            "x": [0, 1, 1, 0],
            "y": [low, low, high, high],
            "fill": "toself",
            "fillcolor": translucent(INK, 0.08),
            "mode": "none",
            "name": "95 % of calibrated predictions",
            "hoverinfo": "skip",
        },
        {
            "type": "bar",
            "x": edges,
            "y": found.counts,
            "width": [0.92 / BINS] * BINS,
            "marker": {"color": translucent(COLOURS[0], 0.7)},
            "name": "rows",
            "hovertemplate": "%{y} rows<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "x": found.fitted,
            "y": found.residual,
            "xaxis": "x2",
            "yaxis": "y2",
            "marker": {"color": translucent(COLOURS[0], 0.75), "size": 6},
            "name": "residual",
            "hovertemplate": "fitted %{x:.4g}, residual %{y:.2f}<extra></extra>",
        },
    ]
    layout = _layout(2, ["probability integral transform", "fitted mean"], "rows")
    layout["yaxis"]["rangemode"] = "tozero"
    layout["yaxis2"]["title"] = {"text": "normal residual"}
    layout["shapes"] = [
        {"type": "line", "xref": "x2 domain", "yref": "y2", "x0": 0, "x1": 1, "y0": y, "y1": y}
        | {"line": {"color": INK, "width": 1, "dash": "solid" if y == 0 else "dot"}}
        for y in (-2, 0, 2)
    ]
    return {"data": traces, "layout": layout}


def learning_figure(curves: LearningCurves) -> Figure:
    """Learned log Z with its estimate, the residual, and the share of programs that score.

    Args:
        curves: The curves of one task.
    """
    error = {float(step): float(se) for step, se in zip(*_pair(curves.importance_se), strict=True)}
    estimate = {
        "type": "scatter",
        "mode": "markers",
        "name": "importance estimate ± 2 standard errors",
        "x": curves.importance.step,
        "y": curves.importance.value,
        "error_y": {
            "type": "data",
            "array": [2 * error.get(float(step), 0.0) for step in curves.importance.step],
            "thickness": 1,
        },
        "marker": {"color": COLOURS[1], "size": 6},
    }
    traces = [
        _line("learned log Z", curves.log_z, COLOURS[0], 1),
        estimate,
        _line("residual", curves.residual, COLOURS[2], 2),
        _line("programs that score", curves.valid_rate, COLOURS[3], 3),
    ]
    layout = _layout(3, ["step", "step", "step"], "log Z (nats)")
    layout["yaxis2"]["title"] = {"text": "residual sd (nats)"}
    layout["yaxis2"]["rangemode"] = "tozero"
    layout["yaxis3"] |= {"title": {"text": "share of programs that score"}, "range": [0, 1.02]}
    for number in (1, 2):
        wanted = curves.log_z if number == 1 else curves.residual
        layout[f"yaxis{_end(number)}"] |= _without_start(wanted)
    layout["showlegend"] = True
    return {"data": traces, "layout": layout}


def map_figure(
    found: ProgramMap, shares: Sequence[float], labels: Sequence[str], steps: Sequence[int | None]
) -> Figure:
    """What was tried, similar structures near each other, larger where the share is.

    Args:
        found: Places of structures.
        shares: Posterior share of each.
        labels: What each is.
        steps: When each was first seen.
    """
    share = np.asarray(shares, dtype=np.float64)
    known = None not in steps and len(set(steps)) > 1
    marker: Figure = {
        "size": 7 + 40 * np.sqrt(share),
        "color": list(steps) if known else COLOURS[0],
        "opacity": 0.75,
        "line": {"color": "white", "width": 1},
    }
    if known:
        marker |= {
            "colorscale": "Viridis",
            "showscale": True,
            "colorbar": {"title": {"text": "first seen (step)"}},
        }
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": found.x,
            "y": found.y,
            "marker": marker,
            "text": [
                f"{share:.1%}: {_shown(label, 110)}" for share, label in zip(share, labels, strict=True)
            ],
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]
    layout = _layout(1, [""], "")
    bare = {"showticklabels": False, "showgrid": False, "ticks": "", "showline": False}
    layout["xaxis"] |= {**bare, "constrain": "domain"}
    layout["yaxis"] |= {**bare, "scaleanchor": "x", "constrain": "domain"}
    layout["plot_bgcolor"] = "#f6f7f9"
    layout["height"] = 460
    return {"data": traces, "layout": layout}


def _band_traces(curve: Curve, panel: Panel, number: int, colour: str, *, first: bool) -> list[Figure]:
    axes = {"xaxis": f"x{_end(number)}", "yaxis": f"y{_end(number)}"}
    name = _shown(curve.label, 24) or "median and 90 %"
    common = {**axes, "type": "scatter", "legendgroup": name, "hoverinfo": "skip"}
    hover = f"{_shown(curve.label)} %{{x:.4g}}: %{{y:.4g}}<extra></extra>"
    if panel.ticks:
        return [
            {
                **common,
                "mode": "markers",
                "x": curve.x,
                "y": curve.middle,
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": curve.high - curve.middle,
                    "arrayminus": curve.middle - curve.low,
                    "thickness": 2.5,
                    "width": 6,
                },
                "marker": {"color": colour, "size": 9, "symbol": "line-ew-open", "line": {"width": 3}},
                "name": name,
                "showlegend": first,
                "hoverinfo": "y",
            }
        ]
    edge = {**common, "mode": "lines", "line": {"width": 0}, "x": curve.x, "showlegend": False}
    return [
        {**edge, "y": curve.low},
        {**edge, "y": curve.high, "fill": "tonexty", "fillcolor": translucent(colour, 0.16)},
        {
            **common,
            "mode": "lines",
            "x": curve.x,
            "y": curve.middle,
            "line": {"color": colour, "width": 2},
            "name": name,
            "showlegend": first,
            "hoverinfo": "all",
            "hovertemplate": hover,
        },
    ]


def _cloud_trace(
    cloud: Cloud,
    bands: Bands,
    panel: Panel,
    number: int,
    colour: str,
    rng: np.random.Generator,
    *,
    first: bool,
) -> Figure:
    # points of whole levels, and 0 and 1, would lie on top of each other
    x = cloud.x + rng.uniform(-0.12, 0.12, len(cloud.x)) if panel.ticks else cloud.x
    y = cloud.y + rng.uniform(-0.03, 0.03, len(cloud.y)) if bands.limits == (-0.05, 1.05) else cloud.y
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        "xaxis": f"x{_end(number)}",
        "yaxis": f"y{_end(number)}",
        "legendgroup": _shown(cloud.label, 24) or "data",
        "name": _shown(cloud.label, 24) or "data",
        "showlegend": first and not cloud.label,
        "marker": {"color": translucent(colour if cloud.label else INK, 0.6), "size": 5},
        "hovertemplate": "%{x:.4g}: %{y:.4g}<extra>data</extra>",
    }


def _colours(bands: Bands) -> Mapping[str, str]:
    labels = list(dict.fromkeys(curve.label for each in bands.panels for curve in each.curves if curve.label))
    return {"": COLOURS[0], **{label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}}


def _line(name: str, series: Series, colour: str, number: int) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": series.step,
        "y": series.value,
        "xaxis": f"x{_end(number)}",
        "yaxis": f"y{_end(number)}",
        "line": {"color": colour, "width": 1.8},
        "showlegend": number == 1,
    }


def _without_start(series: Series) -> Figure:
    """The range of a curve that starts far off: its later nine tenths, if they are much narrower."""
    value = series.value[len(series.value) // 10 :]
    if len(value) < 10 or np.ptp(series.value) < 3 * np.ptp(value):
        return {}
    margin = 0.1 * float(np.ptp(value)) or 1.0
    return {"range": [float(value.min()) - margin, float(value.max()) + margin]}


def _pair(series: Series) -> tuple[Any, Any]:
    return series.step, series.value


def _layout(panels: int, titles: Sequence[str], response: str) -> Figure:
    """Axes of panels in rows, and what all figures share."""
    columns = min(COLUMNS, panels)
    rows = -(-panels // columns)
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "xanchor": "left", "x": 0}
    layout: Figure = {
        "height": PANEL_HEIGHT * rows + 70,
        "margin": {"l": 62, "r": 14, "t": 42, "b": 48},
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": legend,
        "showlegend": False,
        "hovermode": "closest",
        "barmode": "overlay",
    }
    width, height = _cell(columns, _GAP), _cell(rows, 0.36 / max(rows, 1))
    for number in range(1, panels + 1):
        row, column = divmod(number - 1, columns)
        left, top = column * (width + _GAP), 1 - row * (height + 0.36 / rows)
        common = {"gridcolor": "#e6e8ec", "linecolor": "#9aa1ad", "ticks": "outside", "automargin": True}
        layout[f"xaxis{_end(number)}"] = {
            **common,
            "domain": [left, min(left + width, 1.0)],
            "anchor": f"y{_end(number)}",
            "title": {"text": _shown(titles[number - 1], 48), "standoff": 8},
            "zeroline": False,
        }
        layout[f"yaxis{_end(number)}"] = {
            **common,
            "domain": [max(top - height, 0.0), top],
            "anchor": f"x{_end(number)}",
            "title": {"text": _shown(response, 40) if column == 0 else "", "standoff": 6},
            "zeroline": False,
        }
    return layout


def _cell(number: int, gap: float) -> float:
    return (1 - gap * (number - 1)) / number


def _end(number: int) -> str:
    return "" if number == 1 else str(number)


def _shown(text: str, length: int = LABEL_LENGTH) -> str:
    """Text in which Plotly finds no tag."""
    return escape(text if len(text) <= length else text[: length - 1] + "…")

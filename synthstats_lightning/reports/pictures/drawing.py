"""The pictures of a report as PNG files, for papers, logs and loggers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from synthstats_lightning.reports.pictures.bands import Bands, Panel
from synthstats_lightning.reports.pictures.calibration import BINS, Calibration
from synthstats_lightning.reports.pictures.learning_curves import LearningCurves
from synthstats_lightning.reports.pictures.palette import COLOURS, INK
from synthstats_lightning.reports.pictures.rootogram import Rootogram
from synthstats_lightning.reports.pictures.task_pictures import DrawnMap, DrawnModel, FormShare
from synthstats_lightning.runtime.durable_files import replacing

COLUMNS = 3
DPI = 150
_LABEL_WIDTH = 62
_TICKS_WIDTH = 40
"""Characters of the names of levels that have room side by side."""
MOST_OF_IT = 0.5
"""Posterior share below which a picture says how much of the posterior it shows."""


def draw_models(name: str, model: DrawnModel, shares: Sequence[FormShare], path: Path) -> None:
    """Bands of the weighted set, and the shares of the best forms.

    Args:
        name: Name of the task.
        model: The weighted set, or a form where it has no predictions.
        shares: The best forms with what they hold of the posterior.
        path: The PNG file.
    """
    bands = model.bands
    told_of = (
        model.name if model.share >= MOST_OF_IT else f"{model.name} ({model.share:.1%} of the posterior)"
    )
    columns = min(COLUMNS, len(bands.panels))
    rows = -(-len(bands.panels) // columns)
    figure = _figure(4.6 * columns + 5.0, max(3.6 * rows, 4.2))
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[1.0] * columns + [1.1])
    told = False
    for number, panel in enumerate(bands.panels):
        axes = figure.add_subplot(grid[number // columns, number % columns])
        _draw_panel(axes, bands, panel)
        if number == 0:
            axes.set_title(f"{name}: {told_of}, median and 90 % band", loc="left", fontsize=10)
        if panel.is_grouped and not told and not panel.ticks:
            axes.legend(title=_plain(bands.group), frameon=False, fontsize=8, title_fontsize=8)
            told = True
    _draw_shares(figure.add_subplot(grid[:, -1]), shares)
    _save(figure, path)


def draw_shares(name: str, shares: Sequence[FormShare], path: Path) -> None:
    """The shares of the best forms alone, where no predictions are there.

    Args:
        name: Name of the task.
        shares: The best forms with what they hold of the posterior.
        path: The PNG file.
    """
    figure = _figure(6.0, 4.2)
    axes = figure.subplots()
    _draw_shares(axes, shares)
    axes.set_title(f"{name}: the best forms", loc="left", fontsize=10)
    _save(figure, path)


def draw_checks(model: DrawnModel, path: Path) -> None:
    """Calibration, residuals and, of counts, the rootogram.

    Args:
        model: Whose predictions are checked.
        path: The PNG file.
    """
    wanted = 3 if model.rootogram is not None else 2
    figure = _figure(4.8 * wanted, 4.0)
    axes = figure.subplots(1, wanted)
    _draw_calibration(axes, model.calibration)
    if model.rootogram is not None:
        _draw_rootogram(axes[2], model.rootogram)
    _save(figure, path)


def draw_learning(curves: LearningCurves, path: Path) -> None:
    """Learned log Z with its estimate, the residual, and the share of programs that score.

    Args:
        curves: The curves of one task.
        path: The PNG file.
    """
    figure = _figure(14.4, 4.0)
    left, middle, right = figure.subplots(1, 3)
    left.plot(curves.log_z.step, curves.log_z.value, color=COLOURS[0], label="learned log Z")
    if len(curves.importance.step):
        error = np.interp(curves.importance.step, *_known(curves)) if len(curves.importance_se.step) else 0.0
        left.errorbar(
            curves.importance.step,
            curves.importance.value,
            yerr=2 * error,
            fmt="o",
            markersize=4,
            color=COLOURS[1],
            label="importance estimate ± 2 standard errors",
        )
    left.legend(frameon=False, fontsize=8)
    middle.plot(curves.residual.step, curves.residual.value, color=COLOURS[2])
    right.plot(curves.valid_rate.step, curves.valid_rate.value, color=COLOURS[3])
    right.set_ylim(0, 1.02)
    names = "log Z (nats)", "residual, standard deviation (nats)", "share of programs that score"
    for axes, label in zip((left, middle, right), names, strict=True):
        axes.set_xlabel("step")
        axes.set_ylabel(label)
    _save(figure, path)


def draw_map(found: DrawnMap, path: Path) -> None:
    """What was tried, similar structures near each other.

    Args:
        found: Places of structures with their shares.
        path: The PNG file.
    """
    from matplotlib.ticker import MaxNLocator

    figure = _figure(8.0, 6.0)
    axes = figure.subplots()
    share = np.asarray(found.shares)
    # one colour where steps tell structures apart by nothing
    known = None not in found.steps and len(set(found.steps)) > 1
    colour: Any = [step or 0 for step in found.steps] if known else COLOURS[0]
    points = axes.scatter(
        found.places.x, found.places.y, s=25 + 1500 * share, c=colour, alpha=0.75, edgecolors="white"
    )
    if known:
        figure.colorbar(points, label="first seen (step)", ticks=MaxNLocator(integer=True))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("structures that the search tried; area: posterior share", loc="left", fontsize=10)
    _save(figure, path)


def _draw_panel(axes: Any, bands: Bands, panel: Panel) -> None:
    labels = list(dict.fromkeys(curve.label for each in bands.panels for curve in each.curves if curve.label))
    colours = {"": COLOURS[0], **{label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}}
    rng = np.random.default_rng(0)
    for curve in panel.curves:
        colour = colours[curve.label]
        if panel.ticks:
            ends = np.stack([curve.middle - curve.low, curve.high - curve.middle])
            axes.errorbar(
                curve.x, curve.middle, yerr=np.maximum(ends, 0), fmt="_", markersize=14, color=colour
            )
        else:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(curve.x, curve.middle, color=colour, linewidth=1.6, label=_plain(curve.label) or None)
    for cloud in panel.clouds:
        x = cloud.x + rng.uniform(-0.12, 0.12, len(cloud.x)) if panel.ticks else cloud.x
        axes.plot(
            x, cloud.y, "o", color=colours[cloud.label] if cloud.label else INK, markersize=3.5, alpha=0.6
        )
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), [_plain(tick) for tick in panel.ticks])
        if sum(len(tick) + 1 for tick in panel.ticks) > _TICKS_WIDTH:
            axes.tick_params(axis="x", labelrotation=90, labelsize=7)
    axes.set_ylim(*bands.limits)
    axes.set_xlabel(_plain(panel.axis))
    axes.set_ylabel(_plain(bands.response))


def _draw_shares(axes: Any, forms: Sequence[FormShare]) -> None:
    positions = np.arange(len(forms))[::-1]
    axes.barh(positions, [form.share for form in forms], color=COLOURS[0], alpha=0.8, height=0.3)
    for position, form in zip(positions, forms, strict=True):
        text = "\n".join(textwrap.wrap(_plain(form.text), _LABEL_WIDTH)[:3])
        axes.text(0.0, position + 0.22, text, fontsize=7, va="bottom", family="monospace")
        axes.text(form.share, position, f" {form.share:.1%}", fontsize=9, va="center")
    axes.set_ylim(-0.6, max(len(forms), 1) - 0.1)
    axes.set_xlim(0, max((form.share for form in forms), default=1.0) * 1.3 or 1.0)
    axes.set_xticks([tick for tick in axes.get_xticks() if 0.0 <= tick <= 1.0 + 1e-9])
    axes.set_yticks([])
    axes.set_xlabel("posterior share of the form")
    axes.spines["left"].set_visible(False)


def _draw_calibration(axes: Any, found: Calibration) -> None:
    low, high = found.expected
    axes[0].axhspan(low, high, color=INK, alpha=0.08, linewidth=0)
    axes[0].bar((np.arange(BINS) + 0.5) / BINS, found.counts, 0.92 / BINS, color=COLOURS[0], alpha=0.7)
    axes[0].set_xlabel("probability integral transform")
    axes[0].set_ylabel("rows")
    axes[1].plot(found.fitted, found.residual, "o", color=COLOURS[0], markersize=4, alpha=0.75)
    for y in (-2, 0, 2):
        axes[1].axhline(y, color=INK, linewidth=0.8, linestyle="-" if y == 0 else ":")
    axes[1].set_xlabel("fitted mean")
    axes[1].set_ylabel("normal residual")


def _draw_rootogram(axes: Any, found: Rootogram) -> None:
    expected, observed = np.sqrt(found.expected), np.sqrt(found.observed)
    places = np.arange(len(found.labels))
    axes.bar(places, observed, 0.85, bottom=expected - observed, color=COLOURS[0], alpha=0.65)
    axes.plot(places, expected, "o-", color=COLOURS[1], markersize=4)
    axes.fill_between(
        places, np.sqrt(found.low), np.sqrt(found.high), color=COLOURS[1], alpha=0.15, linewidth=0
    )
    axes.axhline(0, color=INK, linewidth=0.8)
    every = -(-len(places) // 10)
    axes.set_xticks(places[::every], found.labels[::every])
    axes.set_xlabel("count")
    axes.set_ylabel("square root of the number of rows")


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=DPI)


def _known(curves: LearningCurves) -> tuple[Any, Any]:
    return curves.importance_se.step, curves.importance_se.value


def _plain(text: str) -> str:
    """Text in which Matplotlib finds no mathematics."""
    return text.replace("$", r"\$")

"""A picture of every column of a task against its response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from synthstats_lightning.tasks import TableTask, UnderstoodColumn

PANELS_ACROSS = 3
MOST_PANELS = 30
MOST_POINTS = 5000
"""Points of a panel; of more rows every so many are drawn."""


def write_picture(task: TableTask, path: Path) -> None:
    """Draws a histogram of the response and a panel for each covariate into a PNG file.

    Args:
        task: The task whose columns are drawn.
        path: Where the picture goes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    understood = task.understood
    covariates = understood.predictors[: MOST_PANELS - 1]
    across = min(PANELS_ACROSS, len(covariates) + 1)
    down = -(-(len(covariates) + 1) // across)
    figure = Figure(figsize=(3.6 * across, 2.7 * down), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    response = np.asarray(understood.data[understood.response])
    title = next(column.original for column in understood.columns if column.role == "response")
    axes[0].hist(response, bins=min(30, max(5, len(np.unique(response)))), color="0.6")
    axes[0].set_xlabel(_text(title))
    axes[0].set_ylabel("rows")
    for axis, column in zip(axes[1:], covariates, strict=False):
        _panel(axis, column, np.asarray(understood.data[column.name]), response)
        axis.set_ylabel(_text(title))
    for axis in axes[len(covariates) + 1 :]:
        axis.set_visible(False)
    figure.suptitle(f"{_text(task.name)}: {understood.num_rows} rows")
    figure.savefig(path, dpi=110, format="png")


def _panel(axis: Any, column: UnderstoodColumn, values: Any, response: Any) -> None:
    step = max(1, len(values) // MOST_POINTS)
    jitter = np.random.default_rng(0)
    x, y = values[::step].astype(float), response[::step].astype(float)
    if column.levels:
        x = x + jitter.uniform(-0.15, 0.15, len(x))
    if set(np.unique(response).tolist()) <= {0, 1}:
        y = y + jitter.uniform(-0.06, 0.06, len(y))
    axis.plot(x, y, ".", color="C0", alpha=0.6 if len(x) < 500 else 0.25, markersize=4)
    if 0 < len(column.levels) <= 8:
        axis.set_xticks(
            range(len(column.levels)), [_text(level)[:10] for level in column.levels], rotation=30
        )
    unit = f" ({_text(column.unit)})" if column.unit else ""
    axis.set_xlabel(f"{_text(column.original)}{unit if unit.strip(' ()') not in column.original else ''}")


def _text(text: str) -> str:
    """A text in which no dollar sign begins a formula."""
    return " ".join(text.replace("$", r"\$").split())

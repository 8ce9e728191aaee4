"""The picture of a posterior over programs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from synthstats_lightning.runtime.durable_files import replacing
from synthstats_lightning.tasks import Task

PREDICTIVE_QUANTILES = (0.05, 0.5, 0.95)
"""Bands hold 90 % of the posterior predictive distribution around its median."""


class Band(NamedTuple):
    """One program's posterior predictive band.

    Attributes:
        label: The model in one line.
        share: Posterior share of its structure.
        quantiles: Of the response at every row, in the order of `PREDICTIVE_QUANTILES`; `None` draws none.
    """

    label: str
    share: float
    quantiles: Float[np.ndarray, "quantiles rows"] | None


def plot_posterior(task: Task, bands: list[Band], path: Path) -> None:
    """Draws the data, the programs' posterior predictive bands over one covariate, and their shares.

    The covariate is the one with the most distinct values; without any, rows are drawn in order.

    Args:
        task: Whose data are drawn.
        bands: Largest share first.
        path: The PNG file to write; its folder is made if need be.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    name, values = _axis(task)
    order = np.argsort(values, kind="stable")
    figure = Figure(figsize=(12, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1))
    low = task.data[task.response]
    for number, band in enumerate(bands):
        if band.quantiles is None:
            continue
        color = f"C{number}"
        bottom, middle, top = band.quantiles[:, order]
        left.fill_between(values[order], bottom, top, color=color, alpha=0.15, linewidth=0)
        left.plot(values[order], middle, color=color, linewidth=1.6, label=f"{band.share:.0%}")
    left.plot(values, low, "o", color="black", markersize=4, label="data")
    left.set_xlabel(_axis_label(task, name))
    left.set_ylabel(_axis_label(task, task.response))
    drawn = any(band.quantiles is not None for band in bands)
    left.set_title(f"{task.name}: {'posterior predictive median and 90 % band' if drawn else 'data'}")
    left.legend(title="posterior share" if drawn else None, frameon=False, fontsize=9)

    labels = [_wrapped(band.label) for band in bands]
    positions = np.arange(len(bands))[::-1]
    right.barh(
        positions, [band.share for band in bands], color=[f"C{i}" for i in range(len(bands))], height=0.4
    )
    for position, label, band in zip(positions, labels, bands, strict=True):
        right.text(0.0, position + 0.25, label, fontsize=7, va="bottom", family="monospace")
        right.text(band.share, position, f" {band.share:.1%}", fontsize=9, va="center")
    right.set_ylim(-0.6, len(bands) - 0.1)
    right.set_xlim(0, max(band.share for band in bands) * 1.25)
    right.set_yticks([])
    right.set_xlabel("posterior share of the structure")
    right.spines[["top", "right", "left"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _wrapped(label: str) -> str:
    response, _, priors = label.partition("; ")
    lines = [response, *textwrap.wrap(priors, 70)]
    return "\n".join(lines[:3])


def _axis(task: Task) -> tuple[str, Float[np.ndarray, " rows"]]:
    if not task.covariates:
        return "row", np.arange(1.0, task.num_rows + 1)
    name = max(task.covariates, key=lambda key: len(np.unique(task.covariates[key])))
    return name, task.covariates[name].astype(np.float64)


def _axis_label(task: Task, name: str) -> str:
    unit = task.units.get(name)
    return f"{name} ({unit})" if unit else name

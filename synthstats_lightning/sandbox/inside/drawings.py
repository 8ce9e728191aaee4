"""Pictures are for whoever reads a program, and samplers for whoever runs it: here they do nothing."""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

import numpy as np

from synthstats_lightning.sandbox.inside.stubs import NOTHING, nothing

PACKAGES = (  # noqa: SIM905
    "seaborn seaborn.objects plotly plotly.express plotly.graph_objects plotly.io altair graphviz bokeh"
    " bokeh.plotting IPython IPython.display watermark daft"
    " nutpie blackjax numpyro pymc.sampling.jax pymc.sampling_jax"
).split()
"""What draws, shows or samples and nothing else; programs may import it whether or not it is installed."""


class _Drawing(types.ModuleType):
    """A package every function of which does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return NOTHING


def subplots(nrows: int = 1, ncols: int = 1, *args: Any, squeeze: bool = True, **kwargs: Any) -> Any:
    """What `plt.subplots` returns here: a figure and as many axes as were asked for, of nothing."""
    axes = np.empty((nrows, ncols), dtype=object)
    for place in np.ndindex(nrows, ncols):
        axes[place] = NOTHING
    if not squeeze:
        return NOTHING, axes
    return NOTHING, NOTHING if axes.size == 1 else axes.squeeze()


def histogram(*args: Any, **kwargs: Any) -> Any:
    """What `plt.hist` returns here."""
    return NOTHING, NOTHING, NOTHING


def install() -> None:
    """Replaces every function of pyplot, pandas' plots, and packages that only draw, in this process."""
    import pandas as pd
    from matplotlib import pyplot, style

    for name, value in list(vars(pyplot).items()):
        if not name.startswith("_") and inspect.isfunction(value):
            setattr(pyplot, name, nothing)
    pyplot.subplots = subplots
    pyplot.hist = histogram
    style.use = nothing  # type: ignore[assignment]
    for table in (pd.Series, pd.DataFrame):
        table.plot = NOTHING
        for name in ("hist", "boxplot", "info"):
            if hasattr(table, name):
                setattr(table, name, nothing)
    for name in PACKAGES:
        package, _, part = name.rpartition(".")
        module = _Drawing(name)
        module.__path__ = []
        sys.modules[name] = module
        if package:
            setattr(sys.modules[package], part, module)

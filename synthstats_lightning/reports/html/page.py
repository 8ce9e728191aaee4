"""From the page's contents to one HTML file, in which nothing that a program says is anything but text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from synthstats_lightning.reports.html.contents import FigureBlock, Page, TaskPage
from synthstats_lightning.runtime.durable_files import write_text

DIGITS = 5
"""Significant digits of the figures' numbers: more are not to be seen."""
MINUS = "\N{MINUS SIGN}"


def write_page(page: Page, path: Path) -> None:
    """Writes the page, whole or not at all.

    Args:
        page: What it says.
        path: The HTML file.
    """
    write_text(path, render_page(page))


def render_page(page: Page) -> str:
    """The page as HTML.

    Scripts, styles and data are all inside; a policy of the page forbids anything else, and every script that
    does not bear the number that is drawn for this page.

    Args:
        page: What it says.
    """
    environment = Environment(
        loader=PackageLoader("synthstats_lightning.reports.html", "parts"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, percent=percent, plain=plain)
    figures: dict[str, Mapping[str, Any]] = {}

    def place(block: FigureBlock) -> str:
        name = f"figure-{len(figures) + 1}"
        figures[name] = block.figure
        return name

    return environment.get_template("page.html").render(
        page=page,
        place=place,
        anchors={task.name: anchor(task) for task in page.tasks},
        nonce=secrets.token_urlsafe(16),
        data_of_figures=lambda: script_json(figures),
        plotly=packed_plotly() if any(map(_has_figures, page.tasks)) else "",
    )


def anchor(task: TaskPage) -> str:
    """What links to a task's section, whatever its name holds.

    Args:
        task: A task of the page.
    """
    return "task-" + hashlib.sha256(task.name.encode()).hexdigest()[:8]


def script_json(value: Any) -> Markup:
    """A value as JSON that cannot end the script element that it stands in.

    Args:
        value: Mappings, sequences, arrays, numbers and texts.
    """
    text = json.dumps(_plain_value(value), allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - no sign of HTML is left in it


@cache
def packed_plotly() -> str:
    """Plotly's script, compressed, as text of ASCII letters: the page's own script unpacks it."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode("ascii")


def number(value: float | int | None, digits: int = 2, *, signed: bool = False) -> str:
    """A number for a table; a dash where there is none.

    Args:
        value: The number to write.
        digits: How many decimal places.
        signed: Whether to write a plus sign.
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", MINUS)


def percent(value: float | None) -> str:
    """A share for a table; a dash where there is none.

    Args:
        value: A number from 0 to 1.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if 0 < value < 0.001:
        return "< 0.1 %"
    return f"{100 * value:.1f} %"


def plain(value: float | int | None) -> str:
    """A number for sorting: nothing where there is none.

    Args:
        value: The number to write.
    """
    return "" if value is None or not math.isfinite(value) else repr(float(value))


def _has_figures(task: TaskPage) -> bool:
    return bool(task.predictions or task.learning or task.search)


def _plain_value(value: Any) -> Any:
    """What JSON can hold, numbers rounded to what can be seen."""
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain_value(item) for item in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value

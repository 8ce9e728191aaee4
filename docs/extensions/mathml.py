"""Equations as MathML, which browsers draw themselves: no script and no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

FUNCTION = re.compile(r"\\(log|exp)\b\s*(?=[A-Za-z]|\\(?!bigl|left)[a-zA-Z])")
"""Names of functions after which docutils leaves no space."""


def spaced(equation: str) -> str:
    """An equation in LaTeX, with a thin space between a function's name and its argument.

    Args:
        equation: In LaTeX.
    """
    return FUNCTION.sub(r"\\\1\\,", equation)


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(tex2mathml(spaced(node.astext())))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(tex2mathml(spaced(node.astext()), as_block=True))
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the renderer `mathml`."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

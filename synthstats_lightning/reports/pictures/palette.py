"""Colours of all pictures: told apart by readers who do not see all colours (Okabe and Ito 2008)."""

from __future__ import annotations

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b5b95", "#8c6d31")
INK = "#2a2f3a"


def translucent(colour: str, opacity: float) -> str:
    """A colour as CSS has it with an opacity.

    Args:
        colour: Such as `#0072b2`.
        opacity: A number from 0 to 1.
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"

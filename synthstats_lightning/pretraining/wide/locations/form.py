"""What a class of locations is: where it is possible, and how it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.pretraining.wide.draft import Draft


class Form(NamedTuple):
    """One class of locations.

    Attributes:
        possible: Whether the request and the link of a draft allow it.
        write: States parameters in a draft and returns the location's expression.
        meaning: What it is, for people, in a few words.
        features: Features that every program of the form has.
        groups: Whether it has effects of groups.
    """

    possible: Callable[[Draft], bool]
    write: Callable[[Draft], str]
    meaning: str
    features: tuple[str, ...] = ()
    groups: bool = False

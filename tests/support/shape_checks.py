"""Shapes and types of arguments, checked often enough: a loop makes the same calls thousands of times.

Checking every call takes a third of the time of tests that train. What a test calls first is checked
completely, and a share of what it calls then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping

FIRST = 2000
"""Calls of a test that are all checked."""
EVERY = 29
"""One call in so many is checked after them; prime, so that no loop's rhythm hides a function."""

_Config: Any = type(jaxtyping.config)


class SampledChecks(_Config):
    """jaxtyping's switch as a decision of each call."""

    calls = 0
    off = False

    @property
    def jaxtyping_disable(self) -> bool:
        """Whether the call that asks goes unchecked."""
        self.calls += 1
        return self.off or (self.calls > FIRST and self.calls % EVERY != 0)

    @jaxtyping_disable.setter
    def jaxtyping_disable(self, value: bool) -> None:
        self.off = value


def begin() -> None:
    """Starts counting anew."""
    jaxtyping.config.__class__ = SampledChecks
    jaxtyping.config.calls = 0


@contextmanager
def unchecked() -> Iterator[None]:
    """Has no call checked: where what is asked is what the package itself says of an argument."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)

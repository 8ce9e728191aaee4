"""When the command began, and how little time it may be given."""

from __future__ import annotations

import math
import time

SHORTEST = 0.5
"""Minutes in which a policy can be loaded, trained for a few steps and reported on."""

_began: list[float] = []


def begin_command() -> None:
    """The command begins now, before anything is imported that takes long."""
    _began[:] = [time.monotonic()]


def command_began() -> float:
    """When it began, on the clock of `time.monotonic`; now, where no command line did."""
    return _began[0] if _began else time.monotonic()


def check_minutes(minutes: float | None) -> None:
    """Refuses what is too short for a run.

    Args:
        minutes: For a whole run, `None` without a limit.

    Raises:
        ValueError: If it is less than `SHORTEST`, or no number.
    """
    if minutes is not None and not SHORTEST <= minutes < math.inf:
        raise ValueError(
            f"minutes must be at least {SHORTEST:g}, for start, training and report together, got {minutes:g}"
        )

"""How a command ends: one line on standard error, and one of three exit codes."""

from __future__ import annotations

import sys
from typing import NoReturn

FAILED = 1
"""What was asked for did not come out well: no score, a probe that succeeded, a full disk."""
WRONG_USAGE = 2
"""An argument, a file or a value that the user has to mend."""
UNDECIDED = 3
"""Audits that found nothing wrong, and could not tell that all is right."""


def fail(message: str, code: int = WRONG_USAGE) -> NoReturn:
    """Ends the process with one line on standard error.

    Args:
        message: What is wrong; line breaks become spaces.
        code: Exit status of the process.
    """
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)

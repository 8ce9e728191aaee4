"""How a command ends when an argument, a file or a value is wrong."""

from __future__ import annotations

import sys
from typing import NoReturn


def fail(message: str) -> NoReturn:
    """Ends the process with code 2 and one line on standard error."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)

"""Script by which a fresh interpreter becomes a sandbox worker: `python -I -B start.py '[search path]'`."""

from __future__ import annotations

import json
import sys


def begin() -> None:
    """Completes the module search path as the trainer has it and hands over to the worker."""
    sys.path += [entry for entry in json.loads(sys.argv[1]) if entry not in sys.path]
    from synthstats_lightning.sandbox.inside.worker import serve

    serve()


begin()

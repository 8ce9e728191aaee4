"""The seed of a run."""

from __future__ import annotations

import os


def default_seed() -> int:
    """What `seed_everything` was last called with (Lightning keeps it in `PL_GLOBAL_SEED`), otherwise 0."""
    return int(os.environ.get("PL_GLOBAL_SEED", "0"))

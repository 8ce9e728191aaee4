"""One node of a run under torchrun, with made-up scores: `... -m tests.ranks.node FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.ranks.run import fit, quiet

if __name__ == "__main__":
    quiet()
    fit(Path(sys.argv[1]), devices=1, steps=4, nodes=2)

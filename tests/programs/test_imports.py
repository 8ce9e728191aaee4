from __future__ import annotations

import subprocess
import sys


def test_room_needs_neither_torch_nor_pymc() -> None:
    code = (
        "import sys, synthstats_lightning.programs\n"
        "print([name for name in ('torch', 'pymc', 'pytensor', 'lightning') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"

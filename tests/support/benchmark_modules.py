"""The benchmarks' modules, for tests that run a part of a benchmark."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def benchmark_module(name: str) -> ModuleType:
    """Import a module of the benchmarks, which find each other by bare names."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))

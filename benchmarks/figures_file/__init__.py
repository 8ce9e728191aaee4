"""The file that a benchmark writes its figures to, looked at before hours are spent on them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def figures_file(text: str) -> Path:
    """The type of an option `--json`.

    Args:
        text: What the user gave.

    Raises:
        argparse.ArgumentTypeError: If no file can be written there.
    """
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; give a file in it")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return path

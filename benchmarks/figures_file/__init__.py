"""What benchmarks read of their command line, before hours are spent: options, and where figures go."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any


class Options(argparse.ArgumentParser):
    """A benchmark's parser: options by their whole names only, as the package's own commands take them.

    Args:
        *arguments: Those of `ArgumentParser`.
        **settings: Those of `ArgumentParser`.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **settings})


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

"""ArviZ, in whichever of its two lines is installed."""

from __future__ import annotations

import importlib
from typing import Any


def arviz_module() -> Any:
    """ArviZ, imported when it is first needed.

    ArviZ 0.23 notes in the user's cache folder, once a day, that it has warned of its next release. Of two
    processes that do so at the same moment one finds the file that it wanted to put in place gone, and its
    import fails; the next try finds the note.

    Returns:
        The module.

    Raises:
        ImportError: If ArviZ is not installed.
    """
    try:
        return importlib.import_module("arviz")
    except FileNotFoundError:
        return importlib.import_module("arviz")


def has_data_tree(az: Any) -> bool:
    """Whether this ArviZ keeps its groups in a `DataTree`, as it does from release 1 on.

    Args:
        az: The imported module.
    """
    return int(az.__version__.split(".")[0]) >= 1

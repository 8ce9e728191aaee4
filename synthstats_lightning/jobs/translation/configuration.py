"""Configurations as nested mappings: laid over one another, and set by dotted keys."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from synthstats_lightning.runtime.shipped import shipped_file

Configuration = dict[str, Any]


def shipped(*names: str) -> Configuration:
    """Configurations of the package, each laid over those before.

    Args:
        *names: What `--config` would be given, such as `quickstart` and `objective/gspo`.

    Raises:
        FileNotFoundError: If the package has no configuration of a name.
    """
    found: Configuration = {}
    for name in names:
        found = laid_over(found, _read(name))
    return found


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Configuration:
    """A configuration with another one over it, as the command line does it.

    Arguments of a class that is replaced by another are left behind.

    Args:
        below: What holds where the other says nothing.
        above: What goes over it.
    """
    other = "class_path" in above and above["class_path"] != below.get("class_path", above["class_path"])
    found = {} if other else dict(below)
    for key, value in above.items():
        old = found.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        found[key] = laid_over(old, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return found


def put(configuration: Configuration, path: str, value: Any) -> None:
    """Sets a value, and makes the sections that it needs.

    Args:
        configuration: Is changed in place.
        path: Keys from the outermost to the innermost, with dots between them.
        value: What it shall be.
    """
    *sections, last = path.split(".")
    place = configuration
    for section in sections:
        if not isinstance(place.get(section), dict):
            place[section] = {}
        place = place[section]
    place[last] = value


def get(configuration: Mapping[str, Any], path: str, default: Any = None) -> Any:
    """The value at a dotted key, or `default` where there is none.

    Args:
        configuration: Where to look.
        path: Keys from the outermost to the innermost, with dots between them.
        default: What is returned where there is no value.
    """
    found: Any = configuration
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return default
        found = found[part]
    return found


@cache
def _read(name: str) -> Configuration:
    path = shipped_file(name, ("", ".yaml"))
    if path is None:
        raise FileNotFoundError(f"the package has no configuration {name!r}")
    found: Configuration = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found

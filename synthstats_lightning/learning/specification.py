"""Objects as `class_path` and `init_args`, so that a checkpoint made from Python can rebuild them."""

from __future__ import annotations

import functools
import inspect
from dataclasses import asdict, is_dataclass
from typing import Any

Specification = dict[str, Any]


def specify(value: Any) -> Specification | None:
    """How jsonargparse would write an object in YAML.

    Args:
        value: A class, a `functools.partial` of a class, an instance whose constructor arguments are
            attributes of the same names, or `None`.

    Returns:
        The specification, or `None` where there is none: for `None` itself and for anonymous functions.
    """
    if value is None:
        return None
    if inspect.isclass(value):
        return {"class_path": _path(value)}
    if isinstance(value, functools.partial):
        if inspect.isclass(value.func) and not value.args:
            return {"class_path": _path(value.func), "init_args": dict(value.keywords)}
        return None
    if callable(value) and not hasattr(value, "forward"):
        return None
    names = [
        name
        for name, parameter in inspect.signature(type(value).__init__).parameters.items()
        if name != "self" and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    init_args = {name: _plain(getattr(value, name)) for name in names}
    return {"class_path": _path(type(value)), "init_args": init_args}


def check_specified(name: str, value: Any, specification: Any) -> None:
    """Refuses what has no specification, so that no checkpoint could name it.

    Args:
        name: Name of the argument.
        value: What was given.
        specification: What `specify` made of it.

    Raises:
        ValueError: If something was given that has none.
    """
    if value is not None and specification is None:
        raise ValueError(
            f"{name} must be a class or a functools.partial of one, so that checkpoints can name it;"
            f" got {value!r}"
        )


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"

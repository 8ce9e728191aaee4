"""The configurations that come with the package, and the files that they name."""

from __future__ import annotations

from pathlib import Path


def shipped_configs() -> Path:
    """The folder of configurations: inside the installed package, or beside it in a clone."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def shipped_file(name: str | Path, suffixes: tuple[str, ...] = ("",)) -> Path | None:
    """A file that the package ships, `None` if there is none of that name.

    Args:
        name: Relative to the folder of configurations, with or without `configs/` before it.
        suffixes: Endings that may be missing from the name, tried in order.
    """
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts:
        return None
    parts = relative.parts[1:] if relative.parts[:1] == ("configs",) else relative.parts
    for suffix in suffixes:
        path = shipped_configs().joinpath(*parts[:-1], f"{parts[-1]}{suffix}") if parts else None
        if path is not None and path.is_file():
            return path
    return None


def own_or_shipped(name: str | Path) -> Path:
    """The file of that name in the working directory, else the one that the package ships, else the name.

    Args:
        name: A path that a configuration names.
    """
    own = Path(name)
    return own if own.exists() else shipped_file(name) or own

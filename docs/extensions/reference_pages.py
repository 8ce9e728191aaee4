"""The reference of modules: a page a room, a section a module, all from docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "synthstats_lightning"
NOT_PUBLIC = {
    "sandbox/inside",
    "pool/reference",
    "tasks/reference",
    "policy/tiny",
    "policy/tiny_episodes",
    "policy/writer",
    "cli",
}
"""What runs as or beside a program, programs, weights, and the command line, which has a page of its own."""


def first_line(path: Path) -> str:
    """The first line of a module's docstring.

    Args:
        path: The module.
    """
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def modules(folder: Path) -> list[str]:
    """Dotted names of the modules in a folder of the package and below it, packages without code left out.

    Args:
        folder: Of the package.
    """
    found = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        if (
            any(relative.as_posix().startswith(f"{name}/") for name in NOT_PUBLIC)
            or path.name == "__main__.py"
        ):
            continue
        if path.name != "__init__.py":
            found.append(".".join(("synthstats_lightning", *relative.with_suffix("").parts)))
    return found


def room_pages() -> dict[str, str]:
    """Name of a page to its text: one for the root's modules and one for each room."""
    pages = {"root": _page("The root", [f"synthstats_lightning.{name}" for name in ("module", "datamodule")])}
    for folder in sorted(path.parent for path in PACKAGE.glob("*/__init__.py")):
        names = modules(folder)
        if names:
            pages[folder.name] = _page(folder.name, names, first_line(folder / "__init__.py"))
    return pages


def _page(title: str, names: list[str], text: str = "") -> str:
    lines = [f"# {title}", "", text, ""]
    for name in names:
        short = name.removeprefix("synthstats_lightning.")
        lines += [f"## {short}", "", "```{eval-rst}", f".. automodule:: {name}", "```", ""]
    return "\n".join(lines)


def index_page(pages: dict[str, str]) -> str:
    """The page that lists the others.

    Args:
        pages: See `room_pages`.
    """
    toctree = ["```{toctree}", ":maxdepth: 1", "", *pages, "```", ""]
    text = "Made from docstrings; rooms as in the [architecture](../../architecture.md)."
    return "\n".join(["# Modules", "", text, "", *toctree])


def rooms_list() -> str:
    """Every room and every room in it with the first line of its docstring, as the code has them."""
    lines = ["| room | what is in it |", "|---|---|"]
    for name in ("module", "datamodule"):
        lines.append(f"| `{name}.py` | {first_line(PACKAGE / f'{name}.py')} |")
    for path in sorted(PACKAGE.glob("*/__init__.py")) + sorted(PACKAGE.glob("*/*/__init__.py")):
        name = path.parent.relative_to(PACKAGE).as_posix()
        if first_line(path):
            lines.append(f"| `{name}/` | {first_line(path)} |")
    return "\n".join([*lines[:2], *sorted(lines[2:])]) + "\n"

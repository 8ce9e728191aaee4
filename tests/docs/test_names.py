"""Every name of the package that README and site mention exists, and so does what their Python imports."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, pages

DOTTED = re.compile(r"\bsynthstats_lightning(?:\.\w+)+(?![\w/-])")


def resolve(name: str) -> object:
    """The object of a dotted name.

    Args:
        name: Of a module, or of something in one.

    Raises:
        AttributeError: If there is none.
    """
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def mentioned(page: Path) -> set[str]:
    """Dotted names in a page's text and in the imports of its Python.

    Args:
        page: Markdown.
    """
    names = set(DOTTED.findall(page.read_text()))
    for text in blocks(page, "python"):
        try:
            tree = ast.parse(text)
        except SyntaxError:  # a piece of a table, which is no program
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("synthstats_lightning"):
                names |= {f"{node.module}.{item.name}" for item in node.names}
    return {name for name in names if not name.endswith((".py", ".md", ".yaml"))}


def test_names_are_found() -> None:
    assert resolve("synthstats_lightning.objectives.LogZ") is not None
    with pytest.raises(AttributeError):
        resolve("synthstats_lightning.objectives.NoSuchObjective")
    assert len(set().union(*map(mentioned, pages()))) > 20


@pytest.mark.parametrize(
    "page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix().replace("/", "|")
)
def test_names_exist(page: Path) -> None:
    for name in sorted(mentioned(page)):
        resolve(name)

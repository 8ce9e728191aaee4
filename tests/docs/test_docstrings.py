"""Docstrings help in a tooltip: what is said of an argument or attribute can be read on its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from docstring_parser import DocstringStyle, parse

from tests.docs.pages import ROOT

PACKAGE = ROOT / "synthstats_lightning"
ROOMS = sorted(
    path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
)
FEWEST_WORDS = 3
HANGING = ("Of ", "For ", "See ", "In ", "From ", "With ")
"""A first sentence that starts so and has no verb says nothing by itself."""
LONG_ENOUGH = 7
"""Words from which such a sentence says enough."""


def entries(path: Path) -> Iterator[tuple[str, str, str]]:
    """Owner, name and text of everything that a module's docstrings say under Args or Attributes.

    Args:
        path: The module.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for item in parse(ast.get_docstring(node) or "", DocstringStyle.GOOGLE).params:
                yield node.name, item.arg_name, " ".join((item.description or "").split())


def is_fragment(text: str) -> bool:
    """Whether a description says too little without the code around it.

    Args:
        text: Of one entry.
    """
    first = text.split(". ")[0].split("; ")[0]
    words = len(first.split())
    return len(text.split()) < FEWEST_WORDS or (first.startswith(HANGING) and words < LONG_ENOUGH)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("Of the sandbox.", True),
        ("See `Task`.", True),
        ("For its precision.", True),
        ("Of validation, test and prediction; its `min_new_tokens` is that of all samples.", True),
        ("The model.", True),
        ("Limits of the sandbox: memory, processor time, output.", False),
        ("Of texts of one canonical form keep all or the best.", False),
        ("Where the run's files go.", False),
    ],
)
def test_what_a_fragment_is(text: str, fragment: bool) -> None:
    assert is_fragment(text) is fragment


@pytest.mark.parametrize("room", ROOMS)
def test_no_fragments(room: str) -> None:
    paths = [PACKAGE / room] if room.endswith(".py") else sorted((PACKAGE / room).rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}: {owner}: {name}: {text}"
        for path in paths
        if "reference" not in path.parts
        for owner, name, text in entries(path)
        if is_fragment(text)
    ]
    assert not found, "\n".join(found)

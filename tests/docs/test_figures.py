"""The page of measured figures: every table is filled, and names scripts that exist."""

from __future__ import annotations

import importlib.util
import json

from tests.docs.pages import ROOT

FIGURES = ROOT / "docs" / "figures"


def page() -> str:
    """The page, as the site's build makes it."""
    specification = importlib.util.spec_from_file_location("make_figures", ROOT / "docs" / "make_figures.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    text: str = module.page()
    return text


def test_tables() -> None:
    text = page()
    assert "{" not in text
    for path in FIGURES.glob("*.json"):
        table = json.loads(path.read_text())
        assert f"## {table['title']}" in text
        for script in table["scripts"]:
            assert (ROOT / "benchmarks" / script).is_file(), script
        for row in table["rows"]:
            assert len(row["values"]) == len(table["columns"])
            assert set(row["recorded"]) == {"commit", "date"}


def test_values_are_those_of_the_benchmark() -> None:
    values = json.loads((FIGURES / "values" / "rooms.json").read_text())
    assert f"| lines of the README | {values['readme_lines']} | at most 200 |" in page()
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 200

"""What is logged is explained: every name of a metric in the code stands on the page of figures."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "statistics" / "figures.md").read_text()
GROUPS = "train|perf|sample|replay|fresh|balance|reward|failures|episode|unseen"
LITERAL = re.compile(rf"[\"']((?:{GROUPS})/[a-z_]+)(?:/\{{\w+\}})?[\"']")
FOLDERS = ("callbacks", "learning", "module.py")
NOT_LOGGED = {"replay/demonstrations"}


def logged() -> list[str]:
    """Names of metrics that the code writes out."""
    found: set[str] = set()
    for name in FOLDERS:
        path = ROOT / "synthstats_lightning" / name
        for file in [path] if path.is_file() else path.rglob("*.py"):
            found |= set(LITERAL.findall(file.read_text()))
    return sorted(found - NOT_LOGGED)


def test_names_are_found() -> None:
    assert {"train/loss", "perf/in_flight", "fresh/log_z_gap", "train/log_z"} <= set(logged())


@pytest.mark.parametrize("name", logged())
def test_name_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE or f"`{name}/TASK`" in PAGE

"""The configuration reference has every key that the parser takes, each with a default and a description."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest

from synthstats_lightning.cli.sections import SECTIONS
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def pages() -> Any:
    """The module that makes the page."""
    folder = str(ROOT / "docs" / "extensions")
    sys.path.insert(0, folder)
    try:
        return import_module("configuration_pages")
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize("section", SECTIONS)
def test_keys_are_those_of_the_parser(pages: Any, section: str) -> None:
    parsed = pages.section_keys()
    shown = pages.shown_keys(SECTIONS[section], section, parsed)
    tops = {key.name for key in shown if key.name.count(".") == 1}
    assert tops == {".".join(name.split(".")[:2]) for name in parsed if name.startswith(f"{section}.")}


def test_every_key_says_what_it_does(pages: Any) -> None:
    parsed = pages.section_keys()
    for _, text, classes in pages.sections():
        assert text
        for prefix, thing in classes:
            for key in pages.shown_keys(thing, prefix, parsed):
                assert key.default
                assert len(key.text.split()) > 1, f"{thing.__name__}: {key.name}: {key.text!r}"


def test_nested_settings_and_the_parser_s_own_defaults(pages: Any) -> None:
    page = pages.configuration_page()
    assert "| `reward.beta` | `1.0` |" in page
    assert "| `every_n_steps` | `null` |" in page  # of `metrics`, whose class has a number
    assert "| `transcripts` | `true` |" in page  # which no class has


def test_shipped_configurations(pages: Any) -> None:
    page = pages.shipped_page()
    for path in (ROOT / "configs").rglob("*.yaml"):
        assert f"### {path.relative_to(ROOT / 'configs').with_suffix('')}\n" in page

"""Every benchmark can be imported, and looks at the file for its figures before it runs."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from tests.support.benchmark_modules import BENCHMARKS, benchmark_module

WITH_FIGURES = sorted(
    str(path.relative_to(BENCHMARKS))
    for path in BENCHMARKS.rglob("*.py")
    if 'add_argument("--json"' in path.read_text()
)
LARGEST_FOLDER = 25
"""Files that a folder may have of its own."""


def test_headline_figures_have_a_script() -> None:
    assert len(WITH_FIGURES) >= 20


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_FIGURES)
def test_refuses_a_missing_folder_before_it_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend((BENCHMARKS / name).parent)  # as where it is run itself
    module = benchmark_module(Path(name).stem)
    monkeypatch.setattr(sys, "argv", [name, "--json", str(tmp_path / "missing" / "figures.json")])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert f"argument --json: there is no folder {tmp_path / 'missing'}" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_FIGURES)
def test_options_go_by_their_whole_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend((BENCHMARKS / name).parent)
    module = benchmark_module(Path(name).stem)
    monkeypatch.setattr(sys, "argv", [name, "--jso", str(tmp_path / "missing" / "figures.json")])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "unrecognized arguments: --jso" in said or "arguments are required" in said


def test_every_script_reads_its_options_by_the_same_parser() -> None:
    own = {"figures_file/__init__.py"}
    plain = {
        str(path.relative_to(BENCHMARKS))
        for path in BENCHMARKS.rglob("*.py")
        if "ArgumentParser(" in path.read_text()
    }
    assert plain - own == {}.keys()
    assert not benchmark_module("figures_file").Options().allow_abbrev


def test_folders_are_small_enough_to_look_through() -> None:
    folders = benchmark_module("rooms").folders()
    assert {folder: files for folder, files in folders.items() if files > LARGEST_FOLDER} == {}


def test_file_of_figures(tmp_path: Path) -> None:
    figures_file = benchmark_module("figures_file").figures_file
    found = tmp_path / "figures.json"
    assert figures_file(str(found)) == found
    found.write_text("{}")
    assert figures_file(str(found)) == found
    assert found.read_text() == "{}"
    with pytest.raises(ArgumentTypeError, match="is a folder"):
        figures_file(str(tmp_path))

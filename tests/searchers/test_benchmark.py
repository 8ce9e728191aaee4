"""The comparison's figures from cells that are made up."""

from __future__ import annotations

import json
import math
import sys

import pytest

from synthstats_lightning.cli.parser import find_config
from tests.support.benchmark_modules import benchmark_module


def row(log_z, found, size, seconds=1.0):
    return {
        "effective_sample_size": size,
        "log_z": log_z,
        "log_z_found": found,
        "best_elpd": 3.0,
        "held_out": None,
        "seconds": seconds,
    }


def test_figures_of_cells(tmp_path, monkeypatch):
    benchmark = benchmark_module("searchers")
    cells = {
        "sample_and_weight-dugongs-1000-0": row(-3.5, -4.0, 20.0),
        "sample_and_weight-dugongs-1000-1": row(-2.5, -4.0, 40.0),
        "evolution-dugongs-1000-0": row(None, -3.0, None, 5.0),
        "evolution-dugongs-1000-1": {"error": "no disk", "seconds": 1.0},
        "grpo-dugongs-1000-0": row(-4.0, -5.0, 3.0),
        "grpo-dugongs-1000-1": row(-4.0, -5.0, 3.0),
        # nothing to compare with
        "grpo-nile-1000-0": row(-4.0, -5.0, 1000.0),
        "grpo-dugongs-250-0": row(-4.0, -5.0, 1000.0),
    }
    figures = tmp_path / "figures.json"
    *in_folder, in_figures = cells
    for name in in_folder:
        (tmp_path / f"{name}.json").write_text(json.dumps(cells[name]))
    figures.write_text(json.dumps({"runs": {in_figures: cells[in_figures]}}))
    given = ["--folder", tmp_path, "--json", figures, "--picture", tmp_path / "figures.png", "--cells", "0"]
    monkeypatch.setattr(sys, "argv", ["searchers.py", *map(str, given)])
    benchmark.main()
    found = json.loads(figures.read_text())
    assert (found["done"], found["cells"]) == (8, 7 * 12 * 3 * 3)
    assert found["runs"] == cells
    assert found["by_method_and_budget"]["grpo"]["250"]["runs"] == 0
    rows = {method: budgets["1000"] for method, budgets in found["by_method_and_budget"].items()}
    assert rows["sample_and_weight"]["effective_sample_size"] == 30
    assert rows["sample_and_weight"]["log_z_error"] == pytest.approx(0.5)  # from -3, the largest sum
    assert rows["sample_and_weight"]["mass_found"] == pytest.approx(math.exp(-1))
    assert rows["grpo"]["ess_ratio_to_sampling"] == pytest.approx(0.1)
    assert rows["evolution"]["log_z_error"] is None
    assert (rows["evolution"]["runs"], rows["evolution"]["failed"]) == (1, 1)
    assert "ess_ratio_to_sampling" not in rows["evolution"]
    assert (tmp_path / "figures.png").stat().st_size > 1000


def test_log_z_of_a_task_is_the_mean_of_unbiased_estimates():
    benchmark = benchmark_module("searchers")
    cells = {
        benchmark.Cell("sample_and_weight", "nile", 250, seed): row(log_z, -9.0, 20.0)
        for seed, log_z in enumerate((-1.0, -5.0))
    }
    cells[benchmark.Cell("evolution", "nile", 250, 0)] = row(None, -8.0, None)
    assert benchmark.comparable(cells, [250]) == {("nile", 0)}
    exact = math.log((math.exp(-1) + math.exp(-5)) / 2)
    found = benchmark.summary(cells)["evolution"]["250"]
    assert found["mass_found"] == pytest.approx(math.exp(-8 - exact))


@pytest.mark.parametrize("policy", ["tiny", "writer"])
def test_every_cell_has_a_configuration_that_is_there(tmp_path, policy):
    benchmark = benchmark_module("searchers")
    entry = {"response": "y", "description": "Some."}
    (tmp_path / "index.json").write_text(json.dumps(dict.fromkeys(benchmark.OWN, entry)))
    for method in benchmark.METHODS:
        for task in (*benchmark.REAL, *benchmark.OWN, *benchmark.SIMULATED):
            configs, _ = benchmark.overlays(benchmark.Cell(method, task, 250, 0), tmp_path, policy)
            assert all(find_config(each) for each in configs if isinstance(each, str))


def test_a_name_is_that_of_its_cell():
    benchmark = benchmark_module("searchers")
    for method in benchmark.METHODS:
        cell = benchmark.Cell(method, "death_process", 1000, 2)
        assert benchmark.Cell.of_name(cell.name) == cell


def test_the_picture_compares_what_all_have_run(tmp_path):
    benchmark = benchmark_module("searchers")
    cells = {
        benchmark.Cell(method, task, budget, 0): row(-1.0, -2.0, float(size))
        for method in ("sample_and_weight", "grpo")
        for task, budget, size in [("nile", 250, 1), ("nile", 1000, 3), ("dugongs", 250, 500)]
    }
    table, drawn = benchmark.summary(cells), benchmark.summary(cells, over_budgets=True)
    assert table["grpo"]["250"]["effective_sample_size"] == 250.5
    assert drawn["grpo"]["250"]["effective_sample_size"] == 1.0
    benchmark.draw(cells, tmp_path / "figures.png")
    assert (tmp_path / "figures.png").stat().st_size > 1000

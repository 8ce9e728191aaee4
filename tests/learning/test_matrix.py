"""Precision × accumulation × objective × processes: training ends at the same target everywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from synthstats_lightning.testing.tabular_module import matrix_column

PRECISIONS = {"32-true": 0.02, "bf16-mixed": 0.02, "64-true": 0.02, "bf16-true": 0.05}
"""Total variation at most."""
STEPS = 1200
pytestmark = pytest.mark.filterwarnings("ignore")


def far(column: dict[str, float], precision: str) -> dict[str, float]:
    return {name: value for name, value in column.items() if not value <= PRECISIONS[precision]}


@pytest.mark.parametrize("precision", ["bf16-mixed", pytest.param("bf16-true", marks=pytest.mark.slow)])
def test_one_objective_reaches_its_target_in_low_precision(precision: str, tmp_path: Path) -> None:
    assert not far(matrix_column(precision, 2, 1, 400, str(tmp_path), ["RTB"]), precision)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_objective_reaches_its_target(precision: str, accumulate: int, tmp_path: Path) -> None:
    assert not far(matrix_column(precision, accumulate, 1, STEPS, str(tmp_path)), precision)


def in_process(rank: int, port: str, folder: str) -> None:
    """Every cell of two processes, in one process group."""
    torch.set_num_threads(1)
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": port}
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    cells = {
        f"{precision} {accumulate}": matrix_column(precision, accumulate, 2, STEPS, folder)
        for precision in PRECISIONS
        for accumulate in (1, 4)
    }
    if rank == 0:
        Path(folder, "cells.json").write_text(json.dumps(cells))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_objective_reaches_its_target_on_two_processes(tmp_path: Path) -> None:
    from tests.ranks.processes import free_port

    multiprocessing.spawn(in_process, args=(str(free_port()), str(tmp_path)), nprocs=2)
    cells = json.loads((tmp_path / "cells.json").read_text())
    assert len(cells) == 2 * len(PRECISIONS)
    print(json.dumps(cells, indent=2))
    wrong = {cell: far(column, cell.split()[0]) for cell, column in cells.items()}
    assert not any(wrong.values()), wrong

"""From source to audit: a program on a small task, its evidence summed over all data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.auditing.audit import Audit, audit_graph
from synthstats_lightning.scoring.prediction.recorded import spacing_of
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task, get_task


def audit_program(
    source: str,
    task: str | Task,
    sandbox: Sandbox,
    *,
    rows: int = 2,
    data_sets: int = 256,
    level: float = 0.999,
    settings: EngineSettings | None = None,
) -> Audit:
    """Audits a program on a few rows of a task.

    The program is built anew for a task of these rows. One that fits only the whole task (it holds a vector
    as long as the data, say) is audited on the first rows of the whole, the other rows integrated out.

    Args:
        source: Python source that builds one PyMC model of the task's response.
        task: A task or the name of a bundled one; no value of its response is used.
        sandbox: Where the program is built.
        rows: Rows of the data sets.
        data_sets: About how many data sets to score.
        level: Confidence of the interval.
        settings: How much work the engine spends on each data set, and what it accepts.

    Raises:
        ProgramFailure: If the program does not build, or cannot be scored on any data.
        ValueError: If a number is out of range.
    """
    task = get_task(task)
    if not 1 <= rows <= task.num_rows:
        raise ValueError(f"rows must be from 1 to the task's {task.num_rows}, got {rows}")
    schema, covariates = few_rows(task, rows)
    audit = partial(audit_graph, data_sets=data_sets, level=level, settings=settings)

    def spacing(graph: ModelGraph) -> float | None:
        return spacing_of(graph, schema.response_dtype, task.rounding)

    try:
        graph = parse_graph(sandbox.build(source, schema, covariates), schema)
        return audit(graph, covariates, rounding=spacing(graph))
    except ProgramFailure:
        graph = parse_graph(sandbox.build(source, task.schema, task.covariates), task.schema)
        return audit(graph, task.covariates, rows=rows, rounding=spacing(graph))


def few_rows(task: Task, rows: int) -> tuple[DataSchema, Mapping[str, NDArray[Any]]]:
    """Schema and covariates of a few rows of a task that differ as much as they can.

    Args:
        task: The task that the program is about.
        rows: How many: the first, then each time the one that differs in most columns from those before.
    """
    columns = [np.asarray(values) for values in task.covariates.values()]
    chosen = [0]
    while len(chosen) < rows:
        others = [row for row in range(task.num_rows) if row not in chosen]
        fresh = {row: sum(values[row] not in values[chosen] for values in columns) for row in others}
        middle = task.num_rows * len(chosen) // rows
        chosen.append(min(others, key=lambda row: (-fresh[row], abs(row - middle))))
    index = np.array(sorted(chosen))
    return replace(task.schema, num_rows=rows), {
        name: np.asarray(values)[index] for name, values in task.covariates.items()
    }

"""A task with rows added to it whose responses nobody knows, as a scoring process sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from synthstats_lightning.pool.program_worker import task_message
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.scoring.process.messages import TaskMessage
from synthstats_lightning.tasks import Task

Array = np.ndarray[Any, np.dtype[Any]]


def with_new_rows(task: Task, rows: Mapping[str, Array]) -> tuple[TaskMessage, TaskMessage]:
    """A task, and the same with further rows that it holds out.

    A column of whole numbers that new rows have fractions of is one of fractions in both.

    Args:
        task: The task that programs were fitted to.
        rows: Column name to values of the new rows, of every covariate.

    Returns:
        The task and the longer one. The new rows' responses are one of the task's own, and mean nothing.

    Raises:
        ValueError: If a covariate is missing, columns differ in length, or there is no row.
    """
    fitted = task_message(task)
    missing = [name for name in fitted.covariates if name not in rows]
    if missing:
        raise ValueError(f"new rows must hold {', '.join(fitted.covariates)}; missing: {', '.join(missing)}")
    lengths = {len(rows[name]) for name in fitted.covariates} or {len(next(iter(rows.values()), ()))}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"columns of new rows must be of one length, at least 1, got {sorted(lengths)}")
    number = lengths.pop()
    joined = {
        name: np.concatenate([values, np.asarray(rows[name])]) for name, values in fitted.covariates.items()
    }
    dtypes = {name: "int64" if values.dtype.kind in "biu" else "float64" for name, values in joined.items()}
    known = {name: fitted.covariates[name].astype(dtype) for name, dtype in dtypes.items()}
    joined = {name: values.astype(dtypes[name]) for name, values in joined.items()}
    response = np.concatenate([fitted.response, np.full(number, fitted.response.min())])
    held_out = task.held_out + number
    schema = replace(fitted.schema, columns=dtypes)
    before = replace(
        fitted,
        schema=schema,
        covariates=known,
        quantities=(),
        log_jacobian=None,  # of scores, and there are none
        fingerprint=data_fingerprint(known, fitted.response, 0, task.rounding, task.held_out),
    )
    after = replace(
        before,
        schema=replace(schema, num_rows=len(response)),
        covariates=joined,
        response=response,
        held_out=held_out,
        fingerprint=data_fingerprint(joined, response, 0, task.rounding, held_out),
    )
    return before, after

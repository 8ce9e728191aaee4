"""Predictions of new rows by the weighted programs of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.reports.mixture import mixture_columns, outside_range
from synthstats_lightning.reports.summaries import FormSummary
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.tasks import Task

COVERED = 0.99
"""Share of the weight that the programs that predict hold together, if `MAX_PROGRAMS` allow it."""
MAX_PROGRAMS = 40
MAX_DRAWS = 20_000_000
"""Most draws of all programs and rows together; more rows have fewer draws of each program."""
FEWEST_DRAWS = 100
FEW_EFFECTIVE = 50.0
"""Effective draws of a posterior, or draws asked for, of which the outer quantiles say little."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
WEIGHTS = ("evidence", "stacking")
Array = NDArray[Any]
ForecastRows = Callable[[str, Task, Mapping[str, Array], int], Future[tuple[Forecast, bool]]]
"""Starts the forecast of a program for new rows, as `ProgramScorer.forecast_rows` does."""


@dataclass(frozen=True)
class WeightedProgram:
    """A program of the set that predicts.

    Attributes:
        source: Source text of the program.
        summary: The model in one line.
        weight: Its weight, where all weights of the set sum to at most 1.
    """

    source: str
    summary: str
    weight: float


@dataclass(frozen=True)
class RowPredictions:
    """What a run's programs predict of new rows.

    Attributes:
        columns: Name to values `[rows]`: quantiles, mean and standard deviation, or probabilities, and
            `between_models`, the share of the variance between programs.
        response: Name of the response.
        programs: The programs that predict, with weights that sum to 1.
        notes: What the reader should know of the predictions, a sentence each.
        draws: Draws of each program's response `[draws, rows]`, in the order of `programs`.
    """

    columns: Mapping[str, Float[np.ndarray, " rows"]]
    response: str
    programs: tuple[WeightedProgram, ...]
    notes: tuple[str, ...] = ()
    draws: tuple[Float[np.ndarray, "_ rows"], ...] = field(default=(), repr=False)

    def to_pandas(self) -> Any:
        """The columns as a pandas table, a row for each new row.

        Raises:
            ImportError: If pandas is not installed.
        """
        import pandas

        return pandas.DataFrame(dict(self.columns))


def predicting_programs(forms: Sequence[FormSummary], weights: str) -> list[WeightedProgram]:
    """The programs that predict, largest weight first: as many as hold nearly all of the weight.

    Texts of one model count as one program.

    Args:
        forms: The forms of a run, with their programs.
        weights: `"evidence"`: each program's share of the posterior; `"stacking"`: the form's stacking
            weight, and within a form the shares.

    Raises:
        ValueError: If there is no such weighting, no program, or stacking weights are asked for and no form
            has any.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"weights must be {' or '.join(WEIGHTS)}, got {weights!r}")
    if weights == "stacking" and not any(form.stacking_weight for form in forms):
        raise ValueError("weights must be evidence for this run: no form has a leave-one-out score to stack")
    found: dict[str, WeightedProgram] = {}
    for form in forms:
        own = np.array([program.log_weight for program in form.programs])
        within = np.exp(own - np.logaddexp.reduce(own))
        total = form.share if weights == "evidence" else form.stacking_weight or 0.0
        for program, part in zip(form.programs, within, strict=True):
            key = program.canonical or program.source
            known = found[key].weight if key in found else 0.0
            found[key] = WeightedProgram(program.source, program.summary, known + total * float(part))
    scale = sum(item.weight for item in found.values())
    if not scale > 0:
        raise ValueError("the run has no program with a weight that could predict")
    ordered = sorted(found.values(), key=lambda item: -item.weight)
    kept: list[WeightedProgram] = []
    covered = 0.0
    for heaviest in ordered[:MAX_PROGRAMS]:
        if covered >= COVERED or heaviest.weight <= 0:
            break
        kept.append(replace(heaviest, weight=heaviest.weight / scale))
        covered += heaviest.weight / scale
    return kept


def predict_rows(
    task: Task,
    programs: Sequence[WeightedProgram],
    rows: Mapping[str, Array],
    forecast_rows: ForecastRows,
    *,
    quantiles: Sequence[float] = QUANTILES,
    draws: int = 1000,
    levels: Sequence[str] = (),
) -> RowPredictions:
    """Predicts new rows by a weighted set of programs, each given the task's data.

    Args:
        task: The task that the programs were fitted to.
        programs: The programs with their weights.
        rows: Column name to values of the new rows, encoded as the task's columns are.
        forecast_rows: What builds and computes, such as `ProgramScorer.forecast_rows`.
        quantiles: Levels from 0 to 1.
        draws: Draws of each program and row; fewer where there are very many rows.
        levels: Names of the values from 0 of a binary response.

    Raises:
        ValueError: If a column is missing, a quantile or number is out of range, or no program predicts.
    """
    if not all(0 <= level <= 1 for level in quantiles):
        raise ValueError(f"quantiles must be from 0 to 1, got {list(quantiles)}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    number = len(next(iter(rows.values()), ()))
    affordable = MAX_DRAWS // max(len(programs) * number, 1)
    if affordable < FEWEST_DRAWS:
        most = MAX_DRAWS // (FEWEST_DRAWS * len(programs))
        raise ValueError(
            f"new rows must be at most {most} at once for {len(programs)} programs, got {number}"
        )
    asked = [forecast_rows(program.source, task, rows, min(draws, affordable)) for program in programs]
    notes: list[str] = []
    kept: list[WeightedProgram] = []
    found: list[Float[np.ndarray, "_ rows"]] = []
    changed = thin = 0.0
    for program, future in zip(programs, asked, strict=True):
        try:
            forecast, is_same = future.result()
        except ProgramFailure as failure:
            share = f"{100 * program.weight:.2g} %"
            notes.append(f"a program of {share} of the weight predicts nothing: {failure.message}")
            continue
        kept.append(program)
        own = forecast.draws[:, task.held_out :]
        found.append(own if task.transform is None else task.transform.inverse(own))
        changed += 0.0 if is_same else program.weight
        thin += program.weight if forecast.effective_sample_size < FEW_EFFECTIVE else 0.0
    total = sum(program.weight for program in kept)
    if not total > 0:
        raise ValueError(f"no program of the run predicts new rows; {notes[0] if notes else 'there is none'}")
    if changed:
        notes.append(
            f"programs of {100 * changed:.3g} % of the weight compute something of all rows at once: for them"
            " the new rows count among the data"
        )
    if thin:
        notes.append(
            f"the posteriors of programs of {100 * thin:.3g} % of the weight rest on fewer than"
            f" {FEW_EFFECTIVE:g} effective draws: their intervals may be too narrow"
        )
    if min(draws, affordable) < FEW_EFFECTIVE:
        notes.append(
            f"each program and row has {min(draws, affordable)} draws: means and quantiles are rough, and the"
            " outer quantiles too narrow"
        )
    notes.insert(0, f"{_counted(len(kept))} of {100 * total:.3g} % of the weight")
    notes += outside_range(task.predictors, rows)
    normal = tuple(replace(program, weight=program.weight / total) for program in kept)
    weights = np.array([program.weight for program in normal])
    kind = "categorical" if task.ordered else task.response_kind
    columns = mixture_columns(found, weights, kind, quantiles, task.ordered or levels)
    return RowPredictions(columns, task.response, normal, tuple(notes), tuple(found))


def _counted(number: int) -> str:
    return "one program predicts," if number == 1 else f"{number} programs predict, together"

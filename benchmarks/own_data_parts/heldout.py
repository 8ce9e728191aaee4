"""What a run's programs predict of rows that are held out: the weighted set, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from synthstats_lightning import CSVTask, ProgramScorer, RunPosterior
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.reports.summaries import ProgramSummary
from synthstats_lightning.tasks.table_task import TableTask

SPLITS = 5
SHARE = 0.1
"""Of the rows, held out of each split."""
PROGRAMS = 16
"""Of the run, those of the largest weight."""
DRAWS = 1000
INTERVAL = (0.05, 0.95)


@dataclass(frozen=True)
class HeldOut:
    """Predictions of the held-out rows of all splits together.

    Attributes:
        set_minus_best: Log score of the weighted set minus that of the best single program, in nats: mean
            over the splits.
        standard_error: Of this mean over the splits, in nats; `None` with one.
        coverage: Share of the held-out responses within the set's intervals.
        rows: Number of held-out responses.
    """

    set_minus_best: float
    standard_error: float | None
    coverage: float
    rows: int


def held_out(
    posterior: RunPosterior, task: CSVTask, scorer: ProgramScorer, splits: int = SPLITS
) -> HeldOut | None:
    """Fits the run's programs to nine tenths of the rows and predicts the others, several times.

    Weights are those of the programs' prior times their evidence of the rows that each split fits. The best
    program of a split is that of the highest evidence of these rows.

    Args:
        posterior: Of the run.
        task: Its task.
        scorer: Fits and predicts.
        splits: How many times; more than ten hold rows out again.

    Returns:
        The predictions; `None` where no program predicts.
    """
    programs = _models(posterior)
    differences, inside = [], []
    for split in range(splits):
        part = _split(task, split)
        asked = [scorer.forecast(program.source, part, DRAWS) for program, _ in programs]
        weights, densities, draws = [], [], []
        for (_, log_prior), future in zip(programs, asked, strict=True):
            try:
                found = future.result()
            except ProgramFailure:
                continue
            weights.append((log_prior + found.evidence, found.evidence))
            densities.append(found.log_density)
            draws.append(found.draws)
        if not weights:
            continue
        log_weight, evidence = np.array(weights).T
        log_weight -= np.logaddexp.reduce(log_weight)
        density = np.stack(densities)
        together = np.logaddexp.reduce(log_weight[:, None] + density, axis=0).sum()
        differences.append(float(together - density[int(np.argmax(evidence))].sum()))
        response = part.data[part.response][-part.held_out :]
        inside += _inside(response, draws, np.exp(log_weight)).tolist()
    if not differences:
        return None
    several = len(differences) > 1
    error = float(np.std(differences, ddof=1) / len(differences) ** 0.5) if several else None
    return HeldOut(float(np.mean(differences)), error, float(np.mean(inside)), len(inside))


def _models(posterior: RunPosterior) -> list[tuple[ProgramSummary, float]]:
    """The models of the largest share, each with the log of the prior probability of all its texts."""
    texts: dict[str, list[ProgramSummary]] = {}
    for program in posterior.programs:
        texts.setdefault(program.canonical or program.source, []).append(program)
    models = sorted(texts.values(), key=lambda found: -sum(program.share for program in found))
    prior = [np.logaddexp.reduce([program.reference_log_prob for program in found]) for found in models]
    return [(found[0], float(log_prior)) for found, log_prior in zip(models, prior, strict=True)][:PROGRAMS]


def _split(task: CSVTask, split: int) -> TableTask:
    """The task with a tenth of its rows held out, drawn without replacement over the splits."""
    order = np.random.default_rng(0).permutation(task.num_rows)
    number = max(1, round(SHARE * task.num_rows))
    last = np.take(order, range(split * number, (split + 1) * number), mode="wrap")
    rows = np.concatenate([np.setdiff1d(order, last), last])
    data = {name: values[rows] for name, values in task.understood.data.items()}
    understood = replace(task.understood, data=data, rows=task.understood.rows[rows])
    seen = None if task.transform is None else task.transform.kind
    return TableTask(
        understood, task.description, f"{task.name}_{split}", held_out=number, response_transform=seen
    )


def _inside(
    response: Float[np.ndarray, " rows"],
    draws: list[Float[np.ndarray, "draws rows"]],
    weights: Float[np.ndarray, " models"],
) -> Float[np.ndarray, " rows"]:
    """Probability that each response lies within the set's interval; ties at its ends count in part.

    By the weighted share of draws below and at the response: for counts and binary responses a point that
    straddles an end counts with the part of its mass that is within.
    """
    below = sum(w * (d < response).mean(axis=0) for w, d in zip(weights, draws, strict=True))
    at = sum(w * (d == response).mean(axis=0) for w, d in zip(weights, draws, strict=True))
    low, high = INTERVAL
    mass = np.maximum(at, 1e-12)
    inside: np.ndarray = np.clip((np.minimum(below + mass, high) - np.maximum(below, low)) / mass, 0.0, 1.0)
    return inside

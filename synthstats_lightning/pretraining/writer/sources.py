"""Where examples come from: the grammars by name, and pools of rows that a seed and a number make."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from synthstats_lightning.policy.pointers.spelling import PointerSpelling
from synthstats_lightning.pretraining.writer.examples import Example, Written
from synthstats_lightning.pretraining.writer.narrow import SECTIONS as NARROW_SECTIONS
from synthstats_lightning.pretraining.writer.narrow import narrow_example
from synthstats_lightning.pretraining.writer.rows import WriterRow, writer_row
from synthstats_lightning.pretraining.writer.settings import Stage, WriterTraining
from synthstats_lightning.pretraining.writer.wide import wide_example
from synthstats_lightning.tasks.digest import SECTIONS

logger = logging.getLogger(__name__)
MOST_FAILURES = 20
"""Examples of a pool that may raise something, which are left out and said."""


class Pair(NamedTuple):
    """An accepted program with its request.

    Attributes:
        example: The request that it answers.
        program: It has a digest.
    """

    example: Example
    program: Written


def drawn_example(rng: Random, stage: Stage, programs: int, most_accepted: int) -> Example:
    """An example of a stage's grammar.

    Args:
        rng: Source of all randomness.
        stage: Which grammar, and how many covariates.
        programs: Programs that are tried at most, once each.
        most_accepted: Accepted ones after which no more are; at 0 none is tried.
    """
    if stage.grammar == "wide":
        return wide_example(rng, programs, most_accepted, max(stage.covariates))
    return narrow_example(rng, programs, most_accepted, stage.covariates)


def sections_of(stage: Stage) -> tuple[str, ...]:
    """Sections of the digests of a stage's grammar.

    Args:
        stage: Which grammar it is.
    """
    return SECTIONS if stage.grammar == "wide" else NARROW_SECTIONS


def pool_rows(
    training: WriterTraining, spelling: PointerSpelling, context: int, rank: int, number: int
) -> list[list[WriterRow]]:
    """Batches of a pool: the same for the same seed, rank and number.

    Args:
        training: Stages, seed and sizes.
        spelling: How everything is worded.
        context: Most ids of a row.
        rank: Number of the process.
        number: Number of the pool.

    Raises:
        Exception: What drawing an example raises, where it does so more than `MOST_FAILURES` times.
    """
    rng = Random(f"{training.seed}:{rank}:{number}")  # noqa: S311
    stage = training.stage_at(number * training.pool)
    rows: list[WriterRow] = []
    failures: Counter[str] = Counter()
    while len(rows) < training.pool * training.rows:
        try:
            example = drawn_example(rng, stage, training.programs, training.most_accepted)
        except Exception as error:
            # of one program among hundreds of thousands: hours of training are not lost
            failures[f"{type(error).__name__}: {error}"] += 1
            if failures.total() > MOST_FAILURES:
                raise
            continue
        row = writer_row(rng, spelling, example, training, stage, sections_of(stage), context)
        if row is not None:
            rows.append(row)
    for reason, times in failures.items():
        logger.warning("pool %d: %d requests left out, %s", number, times, reason)
    rows.sort(key=lambda each: len(each.row))
    batches = [rows[start : start + training.rows] for start in range(0, len(rows), training.rows)]
    rng.shuffle(batches)
    return batches


def fixed_pairs(training: WriterTraining, number: int) -> list[Pair]:
    """Simulated pairs of the last stage, one a request, that no training sees.

    Args:
        training: Stages and seed.
        number: How many pairs are wanted.
    """
    return list(_pairs(training, number))


def _pairs(training: WriterTraining, number: int) -> Iterator[Pair]:
    rng = Random(f"pairs:{training.seed}")  # noqa: S311
    found = 0
    while found < number:
        example = drawn_example(rng, training.stages[-1], training.programs, 1)
        accepted = [program for program in example.programs if program.digest is not None]
        if accepted:
            found += 1
            yield Pair(example, accepted[0])

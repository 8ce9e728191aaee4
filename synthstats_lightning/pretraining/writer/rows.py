"""Examples as packed rows: a request once, then blind and informed segments that see it and themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from synthstats_lightning.policy.pointers.spelling import PointerSpelling
from synthstats_lightning.policy.pointers.table import PointerTable, pointer_table
from synthstats_lightning.policy.pointers.vocabulary import END, PAD, PROGRAM
from synthstats_lightning.pretraining.batches import PackedBatch, Row, pack
from synthstats_lightning.pretraining.writer.examples import Example, Plan, Written, section_drop
from synthstats_lightning.pretraining.writer.plan import PlanClasses, PlanTargets
from synthstats_lightning.pretraining.writer.settings import Stage, WriterTraining
from synthstats_lightning.tasks.facts import Facts


class WriterRow(NamedTuple):
    """A row, and what its segments are.

    Attributes:
        row: Request and segments in ids.
        informed: Of each segment whether it has a digest.
        plans: Plan of each segment's program.
        table: Pointers of the request.
        kind: Kind of the response.
    """

    row: Row
    informed: list[bool]
    plans: list[Plan]
    table: PointerTable
    kind: str


@dataclass(frozen=True)
class WriterBatch:
    """Rows as tensors.

    Attributes:
        packed: Tokens, positions and what is predicted.
        allowed: Which tokens each row's programs may have.
        segment: Of each counted token the number of its segment, counted through all rows.
        starts: Row and place of each segment's program token, from which its plan is foretold.
        informed: Whether each segment has a digest.
        plans: What the plan head is to foretell.
    """

    packed: PackedBatch
    allowed: Bool[Tensor, "rows vocabulary"]
    segment: Int[Tensor, " counted"]
    starts: Int[Tensor, "segments 2"]
    informed: Bool[Tensor, " segments"]
    plans: PlanTargets


def segment_of(
    spelling: PointerSpelling, facts: Facts, table: PointerTable, source: str
) -> tuple[list[int], int]:
    """Ids of a program behind its digest, if it has one, and how many of them are given.

    Args:
        spelling: How it is worded.
        facts: The request, with the digest of an informed segment.
        table: Pointers of the request.
        source: The program that is to be written.
    """
    begin = [*spelling.digest(facts, table), spelling.ids[PROGRAM]]
    return [*begin, *spelling.program_with(source, table), spelling.ids[END]], len(begin)


def writer_row(
    rng: Random,
    spelling: PointerSpelling,
    example: Example,
    training: WriterTraining,
    stage: Stage,
    sections: tuple[str, ...],
    context: int,
) -> WriterRow | None:
    """A row of an example: a blind program in some rows, whether it was accepted or not, then informed ones.

    Args:
        rng: Source of all randomness.
        spelling: How everything is worded.
        example: A request with programs.
        training: How many programs enter.
        stage: How many are blind.
        sections: Sections of a digest that may be lost.
        context: Most ids of a row; segments beyond it are left out.

    Returns:
        The row; `None` where no segment is left.
    """
    table = pointer_table(example.facts, rng)
    chosen: list[Written] = []
    if rng.random() < stage.blind:
        chosen.append(example.programs[0]._replace(digest=None))
    accepted = [program for program in example.programs if program.digest is not None]
    chosen += accepted[: training.most_accepted]
    row = Row(spelling.request(example.facts, table), [], [])
    found = WriterRow(row, [], [], table, example.kind)
    for program in chosen:
        digest = program.digest
        if digest is not None:
            digest = section_drop(rng, digest, training.sections_lost, sections)
        ids, given = segment_of(spelling, replace(example.facts, digest=digest), table, program.source)
        if len(row) + len(ids) <= context and row.given is not None:
            row.programs.append(ids)
            row.given.append(given)
            found.informed.append(digest is not None)
            found.plans.append(program.plan)
    return found if row.programs else None


def pair_row(spelling: PointerSpelling, example: Example, program: Written) -> WriterRow:
    """A row of one accepted program twice: blind, and informed by all of its digest.

    Args:
        spelling: How everything is worded.
        example: The request that it answers.
        program: It has a digest.
    """
    table = pointer_table(example.facts)
    blind = segment_of(spelling, example.facts, table, program.source)
    informed = segment_of(spelling, replace(example.facts, digest=program.digest), table, program.source)
    request = spelling.request(example.facts, table)
    row = Row(request, [blind[0], informed[0]], [blind[1], informed[1]])
    return WriterRow(row, [False, True], [program.plan] * 2, table, example.kind)


def writer_batch(rows: list[WriterRow], spelling: PointerSpelling, classes: PlanClasses) -> WriterBatch:
    """Rows as one batch.

    Args:
        rows: At least one.
        spelling: How they are worded.
        classes: Classes of plans.
    """
    packed = pack([row.row for row in rows], spelling.ids[PAD])
    numbers = torch.full(packed.tokens.shape, -1)
    starts: list[tuple[int, int]] = []
    for index, row in enumerate(rows):
        place = len(row.row.request)
        for program, given in zip(row.row.programs, row.row.given or [], strict=True):
            numbers[index, place : place + len(program)] = len(starts)
            starts.append((index, place + given - 1))
            place += len(program)
    plans = classes.targets([(plan, row.table) for row in rows for plan in row.plans])
    informed = torch.tensor([each for row in rows for each in row.informed])
    allowed = spelling.allowed(packed.tokens)
    return WriterBatch(packed, allowed, numbers[packed.counted], torch.tensor(starts), informed, plans)

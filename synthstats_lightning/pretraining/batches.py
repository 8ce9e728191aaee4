"""Packed batches: one request and several programs for it share a row.

Every program of a row starts with its own program token at the position after the request, and sees the
request and itself only. So a row gives the log-probabilities that its programs have in rows of their own, but
computes the request once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from synthstats_lightning.pretraining.grammar import draw_example
from synthstats_lightning.pretraining.tokenizer import END, PAD, PROGRAM, TASK


class PackedBatch(NamedTuple):
    """Rows of one request and several programs.

    Attributes:
        tokens: Token ids, right-padded.
        positions: Position of each token in its own request-and-program text.
        visible: Whether a token (third axis) is seen by another (second axis).
        targets: The token that each position predicts.
        counted: Whether that prediction counts: program tokens and stop tokens only.
    """

    tokens: Int[Tensor, "batch time"]
    positions: Int[Tensor, "batch time"]
    visible: Bool[Tensor, "batch time time"]
    targets: Int[Tensor, "batch time"]
    counted: Bool[Tensor, "batch time"]


class Row(NamedTuple):
    """One request and its programs as tokens.

    Attributes:
        request: Task token and request.
        programs: Each from its program token, or what stands before it, to its stop token.
        given: Tokens of each program that are not predicted; by default the first.
    """

    request: list[int]
    programs: list[list[int]]
    given: list[int] | None = None

    def __len__(self) -> int:
        return len(self.request) + sum(len(program) for program in self.programs)


def pack(rows: Sequence[Row], pad: int) -> PackedBatch:
    """Packs rows into one batch.

    Args:
        rows: At least one row.
        pad: Token of the places to the right of shorter rows.
    """
    shape = (len(rows), max(len(row) for row in rows))
    tokens = torch.full(shape, pad)
    targets = torch.full(shape, pad)
    positions = torch.zeros(shape, dtype=torch.long)
    segments = torch.full(shape, -1)
    for index, row in enumerate(rows):
        start = len(row.request)
        tokens[index, :start] = torch.tensor(row.request)
        positions[index, :start] = torch.arange(start)
        segments[index, :start] = 0
        place = start
        for segment, program in enumerate(row.programs, start=1):
            stop = place + len(program)
            tokens[index, place:stop] = torch.tensor(program)
            first = 1 if row.given is None else row.given[segment - 1]
            targets[index, place + first - 1 : stop - 1] = torch.tensor(program[first:])
            positions[index, place:stop] = torch.arange(start, start + len(program))
            segments[index, place:stop] = segment
            place = stop
    query, key = segments[:, :, None], segments[:, None, :]
    causal = torch.ones(shape[1], shape[1], dtype=torch.bool).tril()
    # a padding token sees itself: a row of attention without any entry is not a number
    visible = causal & ((key == 0) | (key == query))
    return PackedBatch(tokens, positions, visible, targets, targets != pad)


def draw_rows(rng: Random, tokenizer: PreTrainedTokenizerFast, count: int, num_programs: int) -> list[Row]:
    """Draws data sets with programs from the grammar, as tokens."""
    examples = [draw_example(rng, num_programs) for _ in range(count)]
    requests = tokenizer([TASK + example.data.request for example in examples])["input_ids"]
    sources = [PROGRAM + program + END for example in examples for program in example.programs]
    programs = tokenizer(sources)["input_ids"]
    return [
        Row(request, programs[index * num_programs : (index + 1) * num_programs])
        for index, request in enumerate(requests)
    ]


def packed_batches(
    rng: Random,
    tokenizer: PreTrainedTokenizerFast,
    *,
    batch_size: int,
    num_programs: int,
    max_length: int,
    pool: int = 32,
) -> Iterator[PackedBatch]:
    """Batches without end, drawn as they are needed.

    Args:
        rng: Source of randomness.
        tokenizer: The tiny tokenizer.
        batch_size: Requests per batch.
        num_programs: Programs per request.
        max_length: Longest packed row; of longer rows the last programs are left out.
        pool: Batches that are drawn at once and sorted by length, so that a batch has rows of like length.
    """
    pad = tokenizer.convert_tokens_to_ids(PAD)
    while True:
        rows = []
        for row in draw_rows(rng, tokenizer, pool * batch_size, num_programs):
            while len(row) > max_length and len(row.programs) > 1:
                row.programs.pop()
            if len(row) <= max_length:
                rows.append(row)
        rows.sort(key=len)
        groups = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
        rng.shuffle(groups)
        for group in groups:
            yield pack(group, pad)

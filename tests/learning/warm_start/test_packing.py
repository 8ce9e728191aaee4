"""Batches of examples: every one once an epoch, within the limits, and the same after a resume."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from synthstats_lightning.learning.warm_start.encoding import EncodedExample
from synthstats_lightning.learning.warm_start.packing import ExampleLoader, packed


def examples(number: int = 40) -> list[EncodedExample]:
    draw = random.Random(1)
    return [
        EncodedExample((1,) * draw.randint(1, 9), (100 + row,) * draw.randint(1, 30)) for row in range(number)
    ]


def seen(loader: ExampleLoader) -> list[list[int]]:
    return [batch.program_ids[:, 0].tolist() for batch in loader]


@pytest.mark.parametrize(("rows", "tokens"), [(7, None), (100, 90), (3, 60), (1, 1)])
def test_limits_hold_and_nothing_is_lost(rows: int, tokens: int | None) -> None:
    given = examples()
    batches = packed(given, rows, tokens)
    assert sorted(place for batch in batches for place in batch) == list(range(len(given)))
    for batch in batches:
        longest = max(len(given[place]) for place in batch)
        assert len(batch) <= rows
        assert tokens is None or len(batch) == 1 or len(batch) * longest <= tokens


def test_batches_hold_what_was_given() -> None:
    given = [
        EncodedExample((1, 2), (5, 3)),
        EncodedExample((1,), (5, 3, 7, 8, 3), runs=(2, 1, 2)),
    ]
    (batch,) = ExampleLoader(given, 4, None, seed=None)
    assert batch.prompt_mask.sum(1).tolist() == [2, 1]
    assert batch.program_ids[0, :2].tolist() == [5, 3]
    assert batch.written.tolist() == [[True, True, False, False, False], [True, True, False, True, True]]
    assert batch.task_index.tolist() == [0, 0]
    assert torch.equal(batch.log_reward, torch.zeros(2))


def test_every_epoch_has_another_order_and_a_resumed_one_goes_on() -> None:
    loader = ExampleLoader(examples(), 4, None, seed=3)
    first, second = seen(loader), seen(loader)
    assert first != second
    assert Counter(map(tuple, first)) == Counter(map(tuple, second))
    again = ExampleLoader(examples(), 4, None, seed=3)
    seen(again)
    batches = iter(again)
    begun = [next(batches).program_ids[:, 0].tolist() for _ in range(4)]
    resumed = ExampleLoader(examples(), 4, None, seed=3)
    resumed.load_state_dict(again.state_dict())
    assert begun + seen(resumed) == second
    ended = ExampleLoader(examples(), 4, None, seed=3)
    seen(ended)
    after = ExampleLoader(examples(), 4, None, seed=3)
    after.load_state_dict(ended.state_dict())
    assert seen(after) == second
    assert seen(ExampleLoader(examples(), 4, None, seed=None)) == [
        [100 + place for place in batch] for batch in packed(examples(), 4, None)
    ]


def test_ranks_have_equally_many_batches_and_all_of_them() -> None:
    ranks = [ExampleLoader(examples(), 4, None, 3, rank, 3) for rank in range(3)]
    parts = [seen(loader) for loader in ranks]
    assert {len(part) for part in parts} == {len(ranks[0])} == {4}
    assert {row for part in parts for batch in part for row in batch} == {100 + row for row in range(40)}

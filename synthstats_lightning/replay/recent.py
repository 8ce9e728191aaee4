"""Recent samples: drawn evenly, and told the newest score of their text."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import TypeVar

import numpy as np

from synthstats_lightning.replay.trajectory import Trajectory, same_score, with_score

T = TypeVar("T")


def even_draw(items: Sequence[T], size: int, generator: np.random.Generator) -> list[T]:
    """Draws items so that each comes as often as any other, give or take one.

    Args:
        items: What is drawn from.
        size: Number of draws.
        generator: Source of randomness.

    Raises:
        LookupError: If there is no item.
    """
    if not items:
        raise LookupError("there is no recent sample: an objective on policy needs a round of programs")
    rounds = -(-size // len(items))
    order = np.concatenate([generator.permutation(len(items)) for _ in range(rounds)])
    return [items[place] for place in order[:size].tolist()]


def correct_scores(recent: MutableSequence[Trajectory], scored: Trajectory) -> None:
    """Gives the recent samples of a text its newest score, where it differs from theirs.

    Args:
        recent: The recent samples, which are changed in place.
        scored: A trajectory of the text with a settled score.
    """
    for place, item in enumerate(recent):
        same_text = item.program_ids == scored.program_ids and item.task_index == scored.task_index
        if same_text and not (item.settled and same_score(item, scored)):
            recent[place] = with_score(item, scored)

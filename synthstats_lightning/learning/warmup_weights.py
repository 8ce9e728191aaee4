"""What the parts of a mixture of warm-up and trained policy draw programs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.tasks import Prompt

TOLERANCE = 0.1
"""Nats, root mean square, by which what drew the warm-up and what is taken for it may differ: rounding."""


class WarmupWeights(NamedTuple):
    """Log-probabilities of programs, in nats.

    Attributes:
        own: Of the warm-up's programs, under the policy as it is now.
        first: Of the other programs, with which the warm-up draws them.
    """

    own: Float[np.ndarray, " warmup"]
    first: Float[np.ndarray, " others"]


def warmup_weights(
    module: SamplingModule,
    prompts: Sequence[Prompt],
    asked: Sequence[int],
    programs: Sequence[Sequence[int]],
    told: Sequence[float],
    drawing: SamplingSettings,
) -> WarmupWeights | None:
    """What the weights of warm-up and other programs as draws of one mixture need.

    Args:
        module: Whose policy wrote them.
        prompts: Of the tasks, as they are now.
        asked: Which prompt each program answers.
        programs: Token ids of the warm-up's programs, then of the others.
        told: Log-probability with which each of the warm-up's was drawn, in nats.
        drawing: How the warm-up was drawn.

    Returns:
        `None` where something else than the reference policy, given these prompts, has drawn the warm-up: a
        policy that began elsewhere.
    """
    number = len(told)
    first = module.weigh(prompts, asked, programs, drawing).double().cpu().numpy()
    if not np.sqrt(np.square(first[:number] - np.array(told)).mean()) <= TOLERANCE:
        return None
    own = module.weigh(prompts, asked[:number], programs[:number]).double().cpu().numpy()
    return WarmupWeights(own, first[number:])

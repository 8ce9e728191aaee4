"""Which of a policy's programs are scored, by what the data say of their structure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthstats_lightning.learning.screen import Screen, choose
from synthstats_lightning.policy import SampledPrograms
from synthstats_lightning.tasks import Task


def screened(
    samples: SampledPrograms, tasks: Sequence[Task], wanted: Sequence[int], generator: np.random.Generator
) -> dict[int, float]:
    """Rows of sampled programs that are chosen, and what that adds to the log-probability of each, in nats.

    Programs that did not stop have no score, and are chosen only where there is no other.

    Args:
        samples: Programs of a policy, blind or not.
        tasks: The tasks, in the order of the prompts.
        wanted: Programs a task; fewer where fewer have stopped.
        generator: Source of randomness.
    """
    prompts, stopped = samples.prompt_index.cpu().numpy(), samples.stopped.cpu().numpy()
    found: dict[int, float] = {}
    for place, (task, number) in enumerate(zip(tasks, wanted, strict=True)):
        rows = np.flatnonzero(prompts == place)
        if not len(rows) or not number:
            continue
        log_ratios = Screen(task).log_ratios([samples.sources[row] for row in rows])
        if stopped[rows].any():
            log_ratios[~stopped[rows]] = -np.inf
        chosen = choose(log_ratios, number, generator)
        found |= dict(zip(rows[chosen.rows].tolist(), chosen.log_ratio.tolist(), strict=True))
    return found

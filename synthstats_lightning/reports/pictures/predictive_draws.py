"""Draws of responses from single programs and from a weighted set of them, at own rows and at new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.columns import Array

DRAWS = 1000
"""Posterior draws of each program."""

Rows = Mapping[str, Array]
Posterior = Callable[[str, Task, int, Rows | None], PosteriorDraws]
"""From a program, a task, a number of draws and further rows to the draws, in one chain."""


@dataclass(frozen=True)
class ResponseDraws:
    """Posterior predictive draws of a program, or of a weighted set.

    Attributes:
        own: Of the data set's rows `[draws, rows]`.
        log_likelihood: Log density of each row that is neither shown nor held out `[draws, scored]`.
        new: Of the new rows `[draws, new]`: replicates, or for a binary response the probability of a 1.
    """

    own: Float[np.ndarray, "draws rows"]
    log_likelihood: Float[np.ndarray, "draws scored"]
    new: Float[np.ndarray, "draws new"]

    def without_new(self) -> ResponseDraws:
        """The same of the data set's rows alone."""
        return replace(self, new=self.new[:, :0])


def program_draws(posterior: Posterior, source: str, task: Task, new: Rows | None = None) -> ResponseDraws:
    """What one program predicts.

    Args:
        posterior: Such as `ProgramScorer.posterior`.
        source: Source text of the program.
        task: The data that it is fitted to.
        new: Every covariate's name to its values in the new rows.

    Raises:
        ProgramFailure: If the program does not build, has no posterior, or is another model with new rows.
    """
    rows = task.num_rows
    found = posterior(source, task, DRAWS, new or None)
    replicates = np.asarray(found.predictive[0], dtype=np.float64)
    density = np.asarray(found.log_likelihood[0], dtype=np.float64)
    later = replicates[:, rows:]
    if task.response_kind == "binary":
        # the log-likelihood of new rows is that of the smallest response
        probability = np.exp(density[:, rows - task.shown_rows :])
        later = probability if task.data[task.response].min() == 1 else 1 - probability
    scored = rows - task.shown_rows - task.held_out
    return ResponseDraws(replicates[:, :rows], density[:, :scored], later)


def mixed_draws(draws: Sequence[ResponseDraws], shares: Sequence[float]) -> ResponseDraws:
    """Draws of a weighted set: of each program as many as its share says.

    Args:
        draws: Of each program, at least one, with equally many draws each.
        shares: Non-negative weights of the programs, which need not sum to 1.
    """
    weight = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    number = len(draws[0].own)
    ends = np.rint(np.cumsum(weight) * number).astype(int)
    parts = [(each, slice(start, end)) for each, start, end in zip(draws, [0, *ends], ends, strict=False)]
    return ResponseDraws(
        np.concatenate([each.own[part] for each, part in parts]),
        np.concatenate([each.log_likelihood[part] for each, part in parts]),
        np.concatenate([each.new[part] for each, part in parts]),
    )

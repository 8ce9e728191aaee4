"""What experiments of an episode were expected to tell of the parameters of a program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.tasks.experiments.episode import ExperimentEpisode
from synthstats_lightning.tasks.experiments.messages import stacked


class DesignValue(NamedTuple):
    """Expected information gain of one experiment, when it was chosen, in nats.

    Attributes:
        gain: Of the chosen design, given the experiments before it.
        standard_error: Monte-Carlo standard error of `gain`, over simulated responses.
        best: The largest of the chosen design and the alternatives.
        regret: `best - gain`, at least 0; the largest of several noisy estimates is too large on average.
    """

    gain: float
    standard_error: float
    best: float
    regret: float


def design_values(
    scorer: ProgramScorer,
    episode: ExperimentEpisode,
    source: str | None = None,
    *,
    alternatives: int = 20,
    outer: int = 500,
    inner: int = 20,
    seed: int = 0,
) -> list[DesignValue]:
    """Judges the experiments of an episode by the program that it submitted.

    Each is compared, given the experiments before it, with random designs of the environment, the same ones
    for every experiment. See `ProgramScorer.information_gain` for the estimator.

    Args:
        scorer: Builds the program, and has its posteriors.
        episode: An episode with at least one experiment.
        source: The program; by default the one that was submitted.
        alternatives: Number of random designs that each experiment is compared with.
        outer: Simulated responses of each estimate.
        inner: Parameter draws for the marginal density of each.
        seed: Seeds the choice of the alternatives.

    Returns:
        One value an experiment, in order.

    Raises:
        ValueError: If nothing was submitted and no program is given, or `alternatives` is negative.
        ProgramFailure: If the program has no posterior, or its response's rows depend on each other.
    """
    program = episode.program if source is None else source
    if not program:
        raise ValueError("the episode submitted no program: give one as source")
    if alternatives < 0:
        raise ValueError(f"alternatives must be at least 0, got {alternatives}")
    task, simulator = episode.task, episode.task.simulator
    rng = np.random.default_rng(seed)
    others = [simulator.covariates(simulator.random_design(rng)) for _ in range(alternatives)]
    futures = []
    for place, chosen in enumerate(episode.observed):
        covariates = [{name: chosen[name] for name in simulator.columns[:-1]}, *others]
        # responses of designs that are only considered do not matter, but a task needs some
        rows = [
            {**each, simulator.response: np.zeros_like(chosen[simulator.response])} for each in covariates
        ]
        data = stacked([*episode.observed[:place], *rows], simulator.columns)
        considered = task.holding_out(data, len(rows) * simulator.rows_per_design)
        futures.append(scorer.information_gain(program, considered, simulator.rows_per_design, outer, inner))
    values = []
    for future in futures:
        gains = future.result()
        gain, best = float(gains.value[0]), float(gains.value.max())
        values.append(DesignValue(gain, float(gains.standard_error[0]), best, best - gain))
    return values

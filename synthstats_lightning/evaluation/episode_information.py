"""What the experiments of episodes were expected to tell of an environment's parameters."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable

import numpy as np

from synthstats_lightning.evaluation.information_gain import expected_information_gain
from synthstats_lightning.evaluation.latent_particles import ImpossibleResponseError, LatentParticles
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks.experiments.episode import ExperimentEpisode

PRIOR_DRAWS = 4_000
"""Draws that the coordinates of the moves are made of."""
KEPT = 10_000
"""Series of experiments that are remembered."""


class EpisodeInformation:
    """Expected information gain of each experiment of an episode, given those before it.

    What is known of the latents comes from the environment's own prior and likelihood, by weighted particles;
    the gain of a design is estimated by nested Monte Carlo. All series of experiments of an instance share
    their random numbers, so that what an episode was expected to find out is a function of its experiments so
    far and of nothing that follows: a potential.

    Args:
        particles: Weighted draws of the latents.
        outer: Simulated responses of each estimate.
        inner: Draws for the marginal density of each.
        seed: Seed of the random numbers that all episodes share.

    Raises:
        ValueError: If a number is below 2.
    """

    def __init__(self, particles: int = 500, outer: int = 200, inner: int = 20, seed: int = 0) -> None:
        for name, value in {"particles": particles, "outer": outer, "inner": inner}.items():
            if value < 2:
                raise ValueError(f"{name} must be at least 2, got {value}")
        self.particles = particles
        self.outer = outer
        self.inner = inner
        self.seed = seed
        self._known: OrderedDict[Hashable, tuple[float, ...]] = OrderedDict()

    def gains(self, episode: ExperimentEpisode) -> tuple[float, ...]:
        """One number a turn, in nats: 0 where the turn was no experiment.

        From a response on that no draw of the latents deems possible, as in an environment without noise,
        gains are 0.

        Args:
            episode: What was done so far.
        """
        experiments = iter(self._of_experiments(episode))
        return tuple(next(experiments) if turn.kind == "observe" else 0.0 for turn in episode.turns)

    def _of_experiments(self, episode: ExperimentEpisode) -> tuple[float, ...]:
        responses = [rows[name].tobytes() for rows in episode.observed for name in sorted(rows)]
        key = (episode.task, tuple(responses))
        if key not in self._known:
            self._known[key] = self._computed(episode)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _computed(self, episode: ExperimentEpisode) -> tuple[float, ...]:
        simulator = episode.task.simulator
        rng = np.random.default_rng(Stream.INFORMATION_GAIN.at(self.seed))
        latents = LatentParticles(
            simulator,
            rng,
            particles=self.particles,
            prior_draws=PRIOR_DRAWS,
            independent=simulator.independent_latents,
        )
        found: list[float] = []
        for rows in episode.observed:
            covariates = {name: values for name, values in rows.items() if name != simulator.response}
            draws = latents.draw(self.outer * (1 + self.inner))
            gain = expected_information_gain(
                simulator, draws, [covariates], rng, outer=self.outer, inner=self.inner
            )
            value = float(gain.value[0])
            # the estimate of a design that tells nothing may be below, and there is none without noise
            found.append(max(value, 0.0) if math.isfinite(value) else 0.0)
            try:
                latents.update(covariates, rows[simulator.response])
            except ImpossibleResponseError:
                break
        return (*found, *[0.0] * (len(episode.observed) - len(found)))

"""Experiments on one instance of an environment, and what each of them could have told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from synthstats_lightning.evaluation.information_gain import expected_information_gain, regret
from synthstats_lightning.evaluation.latent_particles import LatentParticles
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks.simulators import Design, Simulator
from synthstats_lightning.tasks.simulators.arrays import Array


@dataclass(frozen=True)
class Experiments:
    """Experiments in the order in which they were made.

    Attributes:
        designs: The design of each experiment.
        results: Rows of each: column name to values, the response among them.
    """

    designs: tuple[Design, ...]
    results: tuple[dict[str, Array], ...]

    def rows(self, budget: int) -> dict[str, Array]:
        """Rows of the first `budget` experiments together; of all if there are fewer.

        Args:
            budget: Number of experiments, at least 1.
        """
        first = self.results[:budget]
        return {name: np.concatenate([result[name] for result in first]) for name in first[0]}


Chooser = Callable[[Simulator, Experiments], Design]
"""From a simulator and the experiments so far to the next design; it must not look at the latents."""


def run_experiments(simulator: Simulator, count: int, choose: Chooser | None = None) -> Experiments:
    """Makes experiments on the simulator's present instance.

    Args:
        simulator: A simulator that has an instance, after `reset`.
        count: How many; fewer are made where the environment has no more designs.
        choose: Chooses each design; random designs of the instance's own stream by default.

    Raises:
        DesignError: If a chosen design is refused.
    """
    made = Experiments((), ())
    if choose is None:
        designs = iter(simulator.random_designs(_affordable(simulator, count), simulator.design_rng))

        def choose(simulator: Simulator, so_far: Experiments) -> Design:
            return next(designs)

    for _ in range(_affordable(simulator, count)):
        design = simulator.validate(choose(simulator, made))
        result = simulator.observe(design)
        made = Experiments((*made.designs, design), (*made.results, result))
    return made


def design_regrets(
    simulator: Simulator, experiments: Experiments, seed: int, settings: EvaluationSettings
) -> list[float]:
    """How much less than the best of some random designs each experiment was expected to tell, in nats.

    Before each experiment the expected information gain about the latents, given all experiments before it,
    is estimated for `eig_candidates` random designs and for the one that was made. What is known of the
    latents comes from the environment's own prior and likelihood, whatever the program was.

    Args:
        simulator: The environment; its instance does not matter.
        experiments: As they were made.
        seed: Of the candidates and of all draws.
        settings: How much work the estimates are.

    Returns:
        One number for each experiment, at least 0; too large on average by about the estimates' noise.

    Raises:
        ImpossibleResponseError: For an environment without noise, whose responses have no density: predators
            and prey in the variant `boxing_gym`.
    """
    rng = np.random.default_rng(Stream.INFORMATION_GAIN.at(seed))
    particles = LatentParticles(
        simulator, rng, particles=settings.eig_particles, independent=simulator.independent_latents
    )
    draws = settings.eig_outer * (1 + settings.eig_inner)
    regrets = []
    for position, (design, result) in enumerate(zip(experiments.designs, experiments.results, strict=True)):
        candidates = [*_candidates(simulator, experiments.designs[:position], rng, settings), design]
        gain = expected_information_gain(
            simulator,
            particles.draw(draws),
            [simulator.covariates(candidate) for candidate in candidates],
            rng,
            outer=settings.eig_outer,
            inner=settings.eig_inner,
        )
        regrets.append(regret(gain, len(candidates) - 1))
        covariates = {name: values for name, values in result.items() if name != simulator.response}
        particles.update(covariates, result[simulator.response])
    return regrets


def _candidates(
    simulator: Simulator, used: tuple[Design, ...], rng: np.random.Generator, settings: EvaluationSettings
) -> list[Design]:
    if simulator.repeatable:
        return [simulator.random_design(rng) for _ in range(settings.eig_candidates)]
    free = [design for design in simulator.all_designs() if design not in used]
    return [free[index] for index in rng.permutation(len(free))[: settings.eig_candidates]]


def _affordable(simulator: Simulator, count: int) -> int:
    return count if simulator.repeatable else min(count, len(simulator.all_designs()))

"""Particles of programs, resampled by evidence and rewritten by the policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from synthstats_lightning.searchers.proposal import Proposal, Scored
from synthstats_lightning.searchers.searcher import Estimate, Searcher

BISECTIONS = 60
"""Halvings of the interval in which the next inverse temperature lies."""

LogWeights = Float[np.ndarray, " particles"]


class ModelSMC(Searcher):
    """Sequential Monte Carlo over programs, from prior to prior times evidence, by powers of the evidence.

    After ModelSMC (Wahl and others, arXiv 2602.18266), with the policy's prefix resampling for a rewriting by
    instructions, because its weights are known: every particle is cut at a place that is drawn uniformly, the
    policy writes another end, and Metropolis and Hastings decide between the two by the powers of their
    evidences, by prior over policy, and by the numbers of their cuts. That leaves each tempered posterior as
    it is, so that the product of the mean weights estimates Z without bias for given temperatures;
    temperatures that are chosen by the effective sample size, as here, leave a bias of the order of one over
    the particles. The first particles are exact draws of the policy, weighted by prior over policy. What
    remains of the budget at temperature 1 goes to further such moves, and to no estimate.

    Where the budget ends on the way, the last whole set of particles is weighted by the rest of the evidence
    at once, which is as valid, and as noisy as that power is large.

    Args:
        num_particles: How many particles there are.
        ess_share: Share of the particles that the effective sample size keeps from one temperature to the
            next, between 0 and 1.

    Raises:
        ValueError: If a number is out of range.
    """

    log_z_from: ClassVar[str] = (
        "sequential Monte Carlo: the mean weights of each temperature; the standard error leaves out what"
        " particles of one ancestor have in common"
    )
    shares_from: ClassVar[str] = (
        "every distinct program of the search by prior times evidence, the exact ratios of what was found;"
        " what none has met is in no share"
    )

    def __init__(self, num_particles: int = 64, ess_share: float = 0.5) -> None:
        if num_particles < 2:
            raise ValueError(f"num_particles must be at least 2, got {num_particles}")
        if not 0 < ess_share < 1:
            raise ValueError(f"ess_share must be between 0 and 1, got {ess_share}")
        self.num_particles, self.ess_share = num_particles, ess_share
        self.beta = 0.0
        self.particles: list[Scored] = []
        self._log_weight: LogWeights = np.zeros(0)
        self._log_z, self._variance = 0.0, 0.0
        self._drawn: list[Scored] = []

    def ask(self) -> list[Proposal]:
        """First draws of the policy, until one has a score; then another end for every particle."""
        if not self.particles:
            missing = self.num_particles - len(self._drawn)
            return self.writer.draw(missing if missing > 0 else self.num_particles)
        self._next_temperature()
        return self.rewritten([each.proposal for each in self.particles])

    def tell(self, scored: Sequence[Scored]) -> None:
        """Takes the first particles, or decides between the present ones and theirs with other ends.

        Moves that the budget has cut off do not happen.

        Args:
            scored: What was asked for.
        """
        if not self.particles:
            self._drawn += scored
            if len(self._drawn) >= self.num_particles and self._valid(self._drawn):
                self.particles, self._drawn = self._drawn, []
                self._log_weight = _first_weights(self.particles)
            return
        for place, found in enumerate(scored):
            if math.log(1.0 - self.random.random()) < self._log_acceptance(self.particles[place], found):
                self.particles[place] = found

    def estimate(self) -> Estimate:
        """Log Z by the temperatures so far and, short of the last, by the rest of the evidence at once."""
        particles, log_weight = self.particles, self._log_weight
        if not particles:
            if not self._valid(self._drawn):
                return Estimate()
            particles, log_weight = self._drawn, _first_weights(self._drawn)
        rest = log_weight + (1.0 - self.beta) * _evidence(particles)
        value, variance = _log_mean(rest)
        by_program: dict[tuple[int, ...], float] = {}
        for each, own in zip(particles, np.exp(rest - rest.max()), strict=True):
            key = each.proposal.program_ids
            by_program[key] = by_program.get(key, 0.0) + float(own)
        size = _effective_size(np.log(np.maximum(list(by_program.values()), 1e-300)))
        return Estimate(self._log_z + value, math.sqrt(self._variance + variance), size)

    def _next_temperature(self) -> None:
        """Raises the power of the evidence as far as the effective sample size allows, and resamples."""
        if self.beta >= 1:
            return
        evidence = _evidence(self.particles)
        first = self.ess_share * _effective_size(self._log_weight)
        step = 1.0 - self.beta
        if _effective_size(self._log_weight + step * evidence) < first:
            low, high = 0.0, step
            for _ in range(BISECTIONS):
                middle = 0.5 * (low + high)
                if _effective_size(self._log_weight + middle * evidence) < first:
                    high = middle
                else:
                    low = middle
            step = high
        weighted = self._log_weight + step * evidence
        self.beta = 1.0 if step >= 1.0 - self.beta else self.beta + step
        value, variance = _log_mean(weighted)
        self._log_z += value
        self._variance += variance
        share = np.exp(weighted - weighted.max())
        self.particles = [self.particles[place] for place in self._systematic(share / share.sum())]
        self._log_weight = np.zeros(len(self.particles))

    def _systematic(self, share: Float[np.ndarray, " particles"]) -> list[int]:
        number = len(share)
        points = (np.arange(number) + self.random.random()) / number
        found = np.minimum(np.searchsorted(np.cumsum(share), points, side="right"), number - 1)
        return [int(place) for place in found]

    def _log_acceptance(self, old: Scored, new: Scored) -> float:
        """Log of the ratio of Metropolis and Hastings: the common beginning cancels in prior over policy."""
        if not math.isfinite(new.log_evidence):
            return -math.inf
        ratios = [each.proposal.reference_log_prob - each.proposal.log_prob for each in (new, old)]
        cuts = [math.log(self.cuts(each.proposal.program_ids)) for each in (old, new)]
        gained = self.beta * (new.log_evidence - old.log_evidence)
        return gained + ratios[0] - ratios[1] + cuts[0] - cuts[1]

    @staticmethod
    def _valid(scored: Sequence[Scored]) -> bool:
        return any(math.isfinite(each.log_evidence) for each in scored)


def _first_weights(particles: Sequence[Scored]) -> LogWeights:
    """Prior over policy of exact draws; those without a score have no weight."""
    ratio = [each.proposal.reference_log_prob - each.proposal.log_prob for each in particles]
    alive = [math.isfinite(each.log_evidence) for each in particles]
    return np.where(alive, ratio, -np.inf)


def _evidence(particles: Sequence[Scored]) -> LogWeights:
    """Log evidences, 0 in place of none: such particles have no weight."""
    found = np.array([each.log_evidence for each in particles])
    return np.where(np.isfinite(found), found, 0.0)


def _log_mean(log_weight: LogWeights) -> tuple[float, float]:
    """Log of the mean weight, and the relative variance of that mean."""
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    mean = weight.mean()
    variance = weight.var(ddof=1) / len(weight) / mean**2 if len(weight) > 1 else 0.0
    return float(top + np.log(mean)), float(variance)


def _effective_size(log_weight: LogWeights) -> float:
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / np.square(weight).sum())

"""Settings of the scoring engine, and the clock that enforces its time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, get_args

from synthstats_lightning.programs.failure import OUT_OF_TIME, FailureCategory, ProgramFailure

ENGINE_VERSION = "45"
"""Part of every cache key and of no seed: raise it when a change may move a score."""

LastScore = Literal["evidence", "elpd", "heldout_lpd"]
"""Scores in the order in which they are computed, each with random numbers that follow those of the last."""
MAY_BE_ZERO = ("adaptation_rounds", "heldout_fraction", "heldout_seed", "memorised_bits")
"""Settings for which 0 has a meaning."""


OVERRUN = 2
"""Times the time limit that processor time may be, where nothing is counted."""
MANY_ROWS = 2_000
"""Beyond so many rows they are evaluated in parts, and draws are fewer."""
MOST_NUMBERS = 45_000_000
"""Draws times rows of the largest table of densities that is kept then."""
MOST_DENSITIES = 4_000_000
"""Densities of rows that the last draws take together, where one draw takes several of each row."""
ENOUGH_DRAWS = 1_000
"""Draws that make an error of some hundredths of a nat, so that no fewer are made for that reason."""
FEWEST_DRAWS = 500
"""Rows are too many where fewer draws fit into such a table."""
CHEAP_DRAWS = 2_000
"""Draws instead where rows depend on each other, and yet are dealt with together in little time."""
LIGHTER_TAILS = 10
"""Degrees of freedom of proposals for a posterior that is nearly normal: in many dimensions heavier tails
take most of the draws."""
STRAIGHT_SHARE = 0.5
"""Share of the effective sample size asked for at which a proposal for it is adapted no more: in many
dimensions it is as good as it gets after few rounds."""
DEAR_SHARE = 0.35
"""The same where each density is a search of its own."""
STRAIGHT_ROUNDS = 8
"""Most rounds that adapt it: beyond, in many dimensions, components only take the place of others."""
STRAIGHT_GROWTH = 3
"""Times as many draws that its leave-one-out takes at most."""
STRAIGHT_SE = 0.1
"""Standard error of elpd, in nats, below which it takes no more draws."""
FEWEST_PRIOR_DRAWS = 128


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How much work the engine spends on one program, and what it accepts.

    Attributes:
        prior_draws: Draws from the prior among which starts are chosen, in particles.
        starts: Starting points of the search for modes, in points.
        search_growth: Most starts of a search over those of the first, and the square of how many times
            more prior draws. They grow where modes seem to be missing, and where importance sampling fails,
            often for modes that were missed.
        newton_iterations: Limit of the search for modes, in iterations (each is two batched density calls).
        newton_tolerance: A start has converged when its predicted gain falls below this, in nats.
        degrees_of_freedom: Degrees of freedom of the Student-t components of the proposal, a whole number.
        prior_fraction: Share of the first proposal's draws that come from the prior; it bounds the importance
            weights of any model with a bounded likelihood.
        adaptation_draws: Draws of each round that adapts the proposal, in particles.
        adaptation_rounds: Most rounds that adapt the proposal; their draws shape it and are then discarded.
        good_ess_fraction: Effective sample size over draws at which adaptation stops.
        importance_draws: Draws of the final importance sampler, in particles.
        importance_attempts: Importance samplers before annealing, each adapted by the rejected one's draws.
        min_ess_fraction: Smallest accepted effective sample size over draws.
        islands: Independent populations of the bridging SMC; their spread gives its standard error.
        island_particles: Particles of each population.
        smc_ess_fraction: Effective sample size over particles that fixes the next temperature.
        smc_moves: HMC trajectories of each particle at each temperature.
        smc_leapfrog: Leapfrog steps of each trajectory.
        smc_max_temperatures: Limit of temperatures of one annealing run.
        smc_attempts: Most annealing runs of one effort; each adds its islands to those of the ones before.
        smc_growth: Work of each effort of annealing over that of the one before it.
        smc_work: Most evaluations of particles times rows and parameters that the third effort may be
            foreseen to take; the second is made whatever it takes.
        max_evidence_se: Largest standard error over islands of the log evidence that is accepted, in nats.
        max_drift: Largest difference between the evidences of two efforts that is accepted whatever their
            standard errors, in nats.
        max_fold_se: Largest accepted standard error of an exact leave-one-out refit by annealing, in nats.
        max_annealed_se: Largest accepted Monte-Carlo standard error of the elpd of annealed particles, refits
            included, in nats.
        refit_pareto_k: Rows of larger Pareto k, or one above `min(1 - 1/log10 S, 0.7)`, are refitted exactly:
            between 0.6 and 0.7 a row of much leverage may be half a nat off, and from 0.55 on many rows are a
            little, all in one direction.
        refit_se: So are rows of larger Monte-Carlo standard error, in nats, where that of their sum exceeds
            `max_elpd_se`.
        max_elpd_se: Monte-Carlo standard error of elpd, in nats, above which leave-one-out is repeated with
            more draws.
        loo_growth: Most draws of the repetition over those of the first.
        fold_draws: Draws of each exact leave-one-out refit, in particles.
        fold_attempts: Rounds of adaptation of a refit before it is annealed.
        heldout_fraction: Share of the scored rows that `heldout_lpd` predicts from the others; 0 for no such
            score.
        heldout_seed: Seed of the choice of these rows, which is the same for every program of a task.
        memorised_bits: Evidence that a program's constants repeat the response, in bits beyond chance, from
            which it fails as memorised (see `scoring.memorising`); 0 for no such check.
        last_score: The last score that is computed, of `"evidence"`, `"elpd"` and `"heldout_lpd"` in this
            order; those before it are the same, bit for bit, as where all are. All are with `None`; a run's
            `ProgramScoring` then has them computed up to the one that its reward counts.
        time_limit: Limit of one program, in seconds of one core. Annealing is counted in operations, so that
            no load of the machine decides; at twice the limit of the scoring thread's processor time anything
            ends. Beyond either the score is a failure.
    """

    prior_draws: int = 1024
    starts: int = 14
    search_growth: int = 16
    newton_iterations: int = 25
    newton_tolerance: float = 1e-2
    degrees_of_freedom: int = 5
    prior_fraction: float = 0.1
    adaptation_draws: int = 600
    adaptation_rounds: int = 14
    good_ess_fraction: float = 0.65
    importance_draws: int = 4000
    importance_attempts: int = 3
    min_ess_fraction: float = 0.1
    islands: int = 8
    island_particles: int = 128
    smc_ess_fraction: float = 0.5
    smc_moves: int = 2
    smc_leapfrog: int = 8
    smc_max_temperatures: int = 40
    smc_attempts: int = 4
    smc_growth: int = 4
    smc_work: int = 100_000_000
    max_evidence_se: float = 0.1
    max_drift: float = 0.15
    max_fold_se: float = 0.25
    max_annealed_se: float = 0.3
    refit_pareto_k: float = 0.55
    refit_se: float = 0.02
    max_elpd_se: float = 0.08
    loo_growth: int = 8
    fold_draws: int = 1000
    fold_attempts: int = 8
    heldout_fraction: float = 0.2
    heldout_seed: int = 0
    memorised_bits: float = 20.0
    last_score: LastScore | None = None
    time_limit: float = 10.0

    def __post_init__(self) -> None:
        if self.last_score is not None and self.last_score not in get_args(LastScore):
            raise ValueError(
                f"last_score must be one of {get_args(LastScore)} or None, got {self.last_score!r}"
            )
        for name in self.__slots__:
            if name == "last_score":
                continue
            value = getattr(self, name)
            if name in MAY_BE_ZERO:
                if value < 0:
                    raise ValueError(f"{name} must be 0 or more, got {value}")
            elif not value > 0:
                raise ValueError(f"{name} must be above 0, got {value}")
        for name in (
            "heldout_fraction",
            "prior_fraction",
            "good_ess_fraction",
            "min_ess_fraction",
            "smc_ess_fraction",
        ):
            if not getattr(self, name) < 1:
                raise ValueError(f"{name} must be below 1, got {getattr(self, name)}")
        for name in ("starts", "islands"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, got {getattr(self, name)}")
        for name in ("adaptation_draws", "importance_draws", "fold_draws"):
            if getattr(self, name) < 100:
                raise ValueError(f"{name} must be at least 100, got {getattr(self, name)}")

    def computes(self, score: LastScore) -> bool:
        """Whether a score is computed.

        Args:
            score: The name of the score.
        """
        order = get_args(LastScore)
        return self.last_score is None or order.index(score) <= order.index(self.last_score)

    def for_rows(self, rows: int, coupled: bool = False, each: int = 1) -> EngineSettings:
        """The same settings with fewer draws where rows are many, or each is dear.

        Tables of draws and rows are then kept within `MOST_NUMBERS`. Posteriors given thousands of rows are
        narrow, so that fewer draws from the prior say as much of where they are.

        Args:
            rows: Rows of the response.
            coupled: Whether they depend on each other given the parameters: a block was integrated out, the
                others are few, and each density of a row takes much.
            each: How many densities of a row it takes to know that of one draw, 0 where far fewer than one.

        Raises:
            ProgramFailure: `SCORER_LIMIT` where rows are more than memory has room for.
        """
        if rows <= MANY_ROWS:
            draws = self.importance_draws
            if rows and each > 1:
                draws = min(draws, max(MOST_DENSITIES // (rows * each), ENOUGH_DRAWS))
            if draws == self.importance_draws:
                return self
            share = draws / self.importance_draws
            return replace(
                self,
                prior_draws=min(self.prior_draws, max(int(share * self.prior_draws), FEWEST_PRIOR_DRAWS)),
                importance_draws=draws,
                fold_draws=min(self.fold_draws, draws),
            )
        most = MOST_NUMBERS // rows
        if most < FEWEST_DRAWS:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{rows} rows, more than {MOST_NUMBERS // FEWEST_DRAWS}, the most that fit into memory",
            )
        fewest = FEWEST_DRAWS if each else CHEAP_DRAWS
        importance_draws = min(self.importance_draws, fewest if coupled else most, most)
        return replace(
            self,
            prior_draws=min(self.prior_draws, max(most // 8, FEWEST_PRIOR_DRAWS)),
            importance_draws=importance_draws,
            loo_growth=max(1, min(self.loo_growth, most // importance_draws)),
            fold_draws=min(self.fold_draws, importance_draws),
        )

    def for_straight(self, dear: bool = False) -> EngineSettings:
        """The same settings for a posterior that is nearly normal, about a mode that is known.

        Args:
            dear: Whether each density is a search of its own.
        """
        return replace(
            self,
            starts=max(self.starts // 2, 2),
            degrees_of_freedom=max(self.degrees_of_freedom, LIGHTER_TAILS),
            good_ess_fraction=(DEAR_SHARE if dear else STRAIGHT_SHARE) * self.good_ess_fraction,
            adaptation_rounds=min(self.adaptation_rounds, STRAIGHT_ROUNDS),
            loo_growth=min(self.loo_growth, STRAIGHT_GROWTH),
            max_elpd_se=max(self.max_elpd_se, STRAIGHT_SE),
        )

    def up_to(self, score: LastScore) -> EngineSettings:
        """The same settings with a last score, unless they have one.

        Args:
            score: The name of the last score that is needed.
        """
        return self if self.last_score is not None else replace(self, last_score=score)


class Deadline:
    """A limit of work that estimators check between batched density calls, in one thread.

    Annealing, where all but a few of the dear programs take their time, is counted: beside other processes it
    takes more processor time, and on another machine another. Of the rest the clock says only when
    `OVERRUN` times the limit is over.

    Args:
        seconds: Processor time from now, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._counted = 0.0
        self._wall = time.perf_counter()
        self._processor = time.thread_time()

    @property
    def elapsed(self) -> float:
        """Wall-clock seconds since the start."""
        return time.perf_counter() - self._wall

    def check(self, stage: str) -> None:
        """Raises if time is over.

        Args:
            stage: The estimator at work, named in the failure.

        Raises:
            ProgramFailure: `SCORER_LIMIT`.
        """
        if time.thread_time() - self._processor > OVERRUN * self.seconds:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{OUT_OF_TIME} of {self.seconds:g} s reached {OVERRUN} times over during {stage}",
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Makes it the limit of what is evaluated meanwhile, so that a single long call ends in time, too."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    def spend(self, seconds: float, stage: str) -> None:
        """Counts work, and raises if it is more than there may be.

        Args:
            seconds: What it takes, of `numerics.counted_time`.
            stage: The estimator that is about to do it.

        Raises:
            ProgramFailure: `SCORER_LIMIT`.
        """
        self._counted += seconds
        if self._counted > self.seconds:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"{stage} needs more work than the time limit of {self.seconds:g} s, counted in operations",
            )


_RUNNING: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def check_running() -> None:
    """Raises if the time of the deadline that runs is over, between parts of one evaluation.

    Raises:
        ProgramFailure: `SCORER_LIMIT`.
    """
    deadline = _RUNNING.get()
    if deadline is not None:
        deadline.check("the evaluation of densities")

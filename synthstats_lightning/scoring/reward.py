"""From a score to the log reward that objectives see."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.runtime.single_precision import is_finite
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.terms import Likelihood, RewardTerm

PARTS = ("score", "format", "length", "parameters", "looking")
"""What a log reward is blended from besides the reference log-probability and terms; see `Reward.parts`."""
STAGES = (
    {FailureCategory.TRUNCATED, FailureCategory.TURNS, FailureCategory.EXPERIMENTS},
    {FailureCategory.SYNTAX},
    {
        FailureCategory.RAISED,
        FailureCategory.TIMEOUT,
        FailureCategory.MEMORY,
        FailureCategory.CPU,
        FailureCategory.KILLED,
        FailureCategory.OUTPUT,
    },
    {FailureCategory.BAD_GRAPH, FailureCategory.UNSUPPORTED},
)
"""Failures by the stage that a program did not pass: ending, parsing, running, being a model of the language;
any other failure is one of the last stage, having a score."""

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Reward:
    """Log reward of a program: its tempered score above a baseline, plus the reference prior.

    `log R = max(beta (score - baseline) - length_weight * tokens - parameter_weight * parameters, floor)
    + prior_weight * log p_reference(program | prompt)`, and with
    `log_reward_failure - format_weight * (share of stages not passed)` in place of the first term for a
    program without a score. With `beta = prior_weight = 1`, the defaults, and no other weight the target is
    the Bayesian posterior over programs with the language model as prior. `terms` add nats of other things
    to the first term; the target is then no posterior, which the report says. At equal reference probability
    a failed program is below every valid one, by at least `floor - log_reward_failure`.

    The floor and the reward of failures are training aids. In a run both count from the log evidence of the
    whole policy class instead of from the baseline (see `TemperedReward`), so that what they give to
    programs which the posterior does not has at most `exp(floor)` of the mass; what a run reports has neither
    (`log_target`).

    Attributes:
        beta: Inverse temperature of the score, above 0.
        prior_weight: Weight of the reference log-probability, 0 or more.
        floor: Smallest score term of a valid program while the policy learns, in nats, at most 0.
        log_reward_failure: Score term of every failed program while the policy learns, in nats, below
            `floor`.
        score: Which score counts: `"evidence"`, `"elpd"` or `"heldout_lpd"`.
        format_weight: Loss of a failed program, in nats, 0 or more, times the share of the five stages that
            it did not pass (ending, parsing, running, being a model, having a score): near misses are worth
            more.
        length_weight: Loss for each token of a valid program, in nats, 0 or more: a geometric prior of the
            length.
        parameter_weight: Loss for each unconstrained parameter of a valid program, in nats, 0 or more. The
            evidence has its own Occam factor; this is for `elpd`.
        terms: What else counts of a valid program, each with a weight in nats. `Likelihood`, which is always
            there, with weight 1 unless it is among them, is the score itself.
        term_weights: With `"nats"` weights are what they are; with `"shares"` they sum to 1, and the
            likelihood has what the others leave: 0.7 beside an `LLMVerifier` of weight 0.3.
    """

    beta: float = 1.0
    prior_weight: float = 1.0
    floor: float = -20.0
    log_reward_failure: float = -25.0
    score: Literal["evidence", "elpd", "heldout_lpd"] = "evidence"
    format_weight: float = 0.0
    length_weight: float = 0.0
    parameter_weight: float = 0.0
    terms: Collection[RewardTerm] = ()
    term_weights: Literal["nats", "shares"] = "nats"

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        check_terms(self.terms, self.term_weights)
        weights = ("prior_weight", "format_weight", "length_weight", "parameter_weight")
        for name in ("beta", "floor", "log_reward_failure", *weights):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}")
        if self.beta <= 0:
            raise ValueError(f"beta must be above 0, got {self.beta}")
        for name in weights:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.floor > 0:
            raise ValueError(f"floor must be at most 0, the baseline's own score term, got {self.floor}")
        if self.log_reward_failure >= self.floor:
            raise ValueError(
                f"log_reward_failure must be below floor={self.floor}, got {self.log_reward_failure}"
            )
        if self.score not in ("evidence", "elpd", "heldout_lpd"):
            raise ValueError(f"score must be 'evidence', 'elpd' or 'heldout_lpd', got {self.score!r}")

    @property
    def judged(self) -> tuple[RewardTerm, ...]:
        """The terms but the likelihood: those that have values of their own."""
        return tuple(term for term in self.terms if not isinstance(term, Likelihood))

    @property
    def likelihood_weight(self) -> float:
        """How much the tempered score counts."""
        for term in self.terms:
            if isinstance(term, Likelihood):
                return term.weight
        others = sum(term.weight for term in self.judged)
        return 1.0 - others if self.term_weights == "shares" else 1.0

    def no_posterior(self) -> str:
        """Why terms make the target no posterior over programs; empty if they do not."""
        if self.likelihood_weight == 1 and not any(term.weight for term in self.judged):
            return ""
        counts = [f"the likelihood with weight {self.likelihood_weight:g}"]
        counts += [f"{term.name} with {term.weight:g}" for term in self.judged]
        return (
            f"the target of training is no posterior over programs: it has {', '.join(counts)}; shares here"
            " are by prior times evidence alone"
        )

    def value(self, score: Score) -> float:
        """The score that counts, NaN where there is none."""
        value = getattr(score, self.score) if score.scored else None
        return math.nan if value is None else float(value)

    def parts(
        self, score: Score, baseline: float, num_tokens: int = 0, looking: float = 0.0
    ) -> tuple[float, ...]:
        """What the log reward of one program is blended from, unweighted and untempered: `PARTS`, then terms.

        `score`: nats above the baseline, -inf if there is none. `format`: 0 for a valid program, else minus
        the share of stages not passed, down to -1. `length`: minus the tokens. `parameters`: minus the
        unconstrained parameters. `looking`: as given; it counts on the way to the target only.

        Args:
            score: The program's score, possibly failed.
            baseline: The score of the task's baseline program, in nats.
            num_tokens: The program's length in tokens, stop token included.
            looking: Log-probability under the reference policy given the proposal's prompt minus that given
                the prior's, in nats; 0 where the prompts are one.

        Raises:
            ValueError: If `baseline` is not finite.
        """
        if not math.isfinite(baseline):
            raise ValueError(f"baseline must be finite, got {baseline}")
        value = self.value(score) - baseline
        valid = bool(is_finite(value))
        passed = next((n for n, stage in enumerate(STAGES) if score.failure in stage), len(STAGES))
        share = 0.0 if valid else passed / (len(STAGES) + 1) - 1
        parameters = score.num_parameters or 0
        terms = (score.terms.get(term.key, 0.0) if valid else 0.0 for term in self.judged)
        counts = -float(num_tokens), -float(parameters)
        return value if valid else -math.inf, share, *counts, float(looking), *terms

    def origin(self) -> float:
        """From where floor and failures count, in nats above the baseline's tempered score."""
        return 0.0

    def prior(self, parts: FloatArray, reference_log_prob: FloatArray) -> FloatArray:
        """What `prior_weight` weighs: the reference log-probabilities `[programs]`, in nats.

        Args:
            parts: What `parts` returned, `[programs, parts]`.
            reference_log_prob: Reference log-probabilities `[programs]`.
        """
        return np.asarray(reference_log_prob, dtype=np.float64)

    def blend(
        self, parts: FloatArray, reference_log_prob: FloatArray | None = None, floored: bool = True
    ) -> FloatArray:
        """Log rewards `[programs]` from untempered parts `[programs, parts]`, in nats above `origin`.

        Args:
            parts: What `parts` returned, with or without the terms, which then count 0; a score that is not
                finite as float32, or makes a log reward that is not, is a failure.
            reference_log_prob: Reference log-probabilities `[programs]`; not needed if `prior_weight` is 0.
            floored: Whether valid programs have at least `floor`, as the policy learns it.

        Raises:
            ValueError: If parts are missing, or a reference log-probability is missing or not finite while it
                counts.
        """
        parts = np.asarray(parts, dtype=np.float64)
        if parts.shape[-1] < len(PARTS):
            raise ValueError(
                f"parts must be {', '.join(PARTS)} and terms, got {parts.shape[-1]} numbers each"
            )
        score, form, length, parameters, _, *terms = np.moveaxis(parts, -1, 0)
        valid = is_finite(score)
        # a difference of finite scores may still overflow
        with np.errstate(over="ignore"):
            gained = self.beta * self.likelihood_weight * np.where(valid, score, 0.0)
        if self.length_weight or self.parameter_weight:
            gained = gained + self.length_weight * length + self.parameter_weight * parameters
        for term, value in zip(self.judged, terms, strict=bool(terms)):
            gained = gained + term.weight * value
        gained = gained - self.origin()
        blended = np.maximum(gained, self.floor) if floored else gained
        failed = self.log_reward_failure + self.format_weight * form
        blended = np.where(valid & is_finite(blended), blended, failed)
        if self.prior_weight == 0:
            return blended
        if reference_log_prob is None:
            raise ValueError(
                f"reference_log_prob is needed where prior_weight is not 0 (it is {self.prior_weight})"
            )
        if not np.isfinite(reference_log_prob).all():
            raise ValueError(f"reference_log_prob must be finite, got {reference_log_prob}")
        return blended + self.prior_weight * self.prior(parts, reference_log_prob)

    def log_reward(
        self, score: Score, baseline: float, reference_log_prob: float = 0.0, num_tokens: int = 0
    ) -> float:
        """Log reward of one program, in nats.

        Args:
            score: The program's score, possibly failed.
            baseline: The score of the task's baseline program, in nats.
            reference_log_prob: `log p_reference(program | prompt)`, in nats.
            num_tokens: The program's length in tokens; needed where `length_weight` is not 0.

        Raises:
            ValueError: If `baseline` is not finite, or `reference_log_prob` is not while it counts.
        """
        parts = np.array([self.parts(score, baseline, num_tokens)])
        return float(self.blend(parts, np.array([reference_log_prob]))[0])

    def log_target(
        self,
        score: Score,
        baseline: float,
        reference_log_prob: float = 0.0,
        num_tokens: int = 0,
        looking: float = 0.0,
    ) -> float:
        """As `log_reward`, without the floor: what a run reports of a program that has a score.

        Args:
            score: The program's score; the log reward of a failed one is a constant and no part of a target.
            baseline: The score of the task's baseline program, in nats.
            reference_log_prob: `log p_reference(program | prompt)`, in nats.
            num_tokens: The program's length in tokens; needed where `length_weight` is not 0.
            looking: As in `parts`; it counts on the way to the target only.

        Raises:
            ValueError: As `log_reward`.
        """
        parts = np.array([self.parts(score, baseline, num_tokens, looking)])
        return float(self.blend(parts, np.array([reference_log_prob]), floored=False)[0])

    def log_rewards(
        self,
        scores: Sequence[Score],
        baseline: float | FloatArray,
        reference_log_prob: FloatArray | None = None,
        num_tokens: Sequence[int] | None = None,
    ) -> FloatArray:
        """Log rewards of many programs `[programs]`, in nats.

        Args:
            scores: The programs' scores.
            baseline: Baseline score, one for all or one for each.
            reference_log_prob: Reference log-probabilities `[programs]`; not needed if `prior_weight` is 0.
            num_tokens: Each program's length in tokens; needed where `length_weight` is not 0.

        Raises:
            ValueError: If a baseline is not finite, or a reference log-probability is missing or not finite
                while it counts.
        """
        baselines = np.broadcast_to(np.asarray(baseline, dtype=np.float64), len(scores)).tolist()
        tokens = [0] * len(scores) if num_tokens is None else num_tokens
        rows = [self.parts(*row) for row in zip(scores, baselines, tokens, strict=True)]
        return self.blend(np.array(rows).reshape(-1, len(PARTS) + len(self.judged)), reference_log_prob)

    def from_values(
        self, values: FloatArray, baseline: float | FloatArray, reference_log_prob: FloatArray | None = None
    ) -> FloatArray:
        """Log rewards of score values alone; NaN and infinities are failures. See `log_rewards`."""
        baseline = np.asarray(baseline, dtype=np.float64)
        if not np.isfinite(baseline).all():
            raise ValueError(f"baseline must be finite, got {baseline}")
        valid = is_finite(values)
        # a difference of finite scores may still overflow
        with np.errstate(over="ignore"):
            score = np.where(valid, np.where(valid, values, baseline) - baseline, -np.inf)
        parts = np.zeros((*score.shape, len(PARTS)))
        parts[..., 0] = score
        parts[..., 1] = np.where(is_finite(score), 0.0, -1 / (len(STAGES) + 1))
        return self.blend(parts, reference_log_prob)


def check_terms(terms: Collection[RewardTerm], term_weights: str) -> None:
    """Refuses terms that cannot be told apart, or weights that are no shares where they are to be.

    Args:
        terms: The terms of a reward.
        term_weights: `"nats"` or `"shares"`.

    Raises:
        ValueError: If a name is taken twice, or the weights do not sum to 1 where they must.
    """
    names = [term.name for term in terms]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"terms must have different names, got {', '.join(sorted(twice))} more than once")
    if term_weights not in ("nats", "shares"):
        raise ValueError(f"term_weights must be 'nats' or 'shares', got {term_weights!r}")
    if term_weights == "nats":
        return
    total = sum(term.weight for term in terms)
    whole = any(isinstance(term, Likelihood) for term in terms)
    least = min((term.weight for term in terms), default=0.0)
    if least < 0 or total > 1 + 1e-9 or (whole and total < 1 - 1e-9):
        raise ValueError(
            f"weights of terms must be 0 or more and sum to 1 where term_weights is 'shares', got {total:g}"
        )

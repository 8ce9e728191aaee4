"""The mass of a posterior over programs: what was found, exactly, and an estimate of what was not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from synthstats_lightning.metrics import effective_sample_size
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.search_outcome import TaskOutcome

Values = Float[np.ndarray, " programs"]


class Draws(NamedTuple):
    """How often each program was drawn, and from what, for the estimate of what was never drawn.

    Attributes:
        number: Draws of all programs, failed ones too.
        counts: Draws of each program.
        single: Whether that one draw is all that the run has seen of the program.
        log_prob: Log-probability of drawing it, in nats.
        fresh: Whether they are those of the report, of the trained policy at temperature 1 and of the prior,
            whose probability is exact.
    """

    number: int
    counts: Values
    single: Bool[np.ndarray, " programs"]
    log_prob: Values
    fresh: bool


class Masses(NamedTuple):
    """How much of a target's mass each program stands for.

    Attributes:
        log_found: Log of the target of each program, in nats: what was found, exactly.
        log_mass: The same with the unseen mass that a program seen once stands for.
        unseen: Share of all mass that is on programs never seen.
        log_total: Log of all mass, in nats.
        log_total_se: Standard error of it, in nats.
        effective_sample_size: How many draws of equal weight would tell as much of what is unseen.
    """

    log_found: Values
    log_mass: Values
    unseen: float
    log_total: float
    log_total_se: float
    effective_sample_size: float


def draws_of(records: Sequence[ProgramRecord], scored: Sequence[ProgramRecord], *, fresh: bool) -> Draws:
    """What the records say of the sampling.

    Args:
        records: All of a task, failures too.
        scored: Those whose mass is asked for, in order.
        fresh: Whether to count the samples that were drawn after training; otherwise all samples count.
    """
    number = sum(record.fresh if fresh else record.count for record in records)
    count = np.array([record.fresh if fresh else record.count for record in scored], dtype=np.float64)
    single = np.array([record.count == 1 for record in scored], dtype=bool) & (count == 1)
    drawn = [record.drawn_log_prob if fresh else record.log_prob for record in scored]
    log_prob = np.array(drawn, dtype=np.float64)
    return Draws(number, count, single, log_prob, fresh)


def estimate_masses(log_target: Values, draws: Draws) -> Masses:
    """Adds up a target over distinct programs, with an estimate of what no draw has met.

    The programs that were seen count exactly, once each. What was not seen is estimated from those seen once:
    leaving such a draw out, its program would be new, and the importance weight of the draw over the number
    of draws estimates without bias the mass that the others leave unseen. With equal weights this is Good's
    and Turing's estimate (Good 1953), and with weights it holds for draws from different policies too.
    Weights are cut at the square root of the number of draws times their mean (Ionides 2008), so that no one
    draw decides a share.

    Args:
        log_target: Log of prior times evidence, or of another target, of each program, in nats.
        draws: How the programs were sampled.
    """
    log_found = np.asarray(log_target, dtype=np.float64)
    top = log_found.max()
    found = np.exp(log_found - top)
    extra = np.zeros_like(found)
    size, error = float("nan"), float("inf")
    if draws.number > 0 and draws.counts.any():
        log_weight = log_found - top - draws.log_prob
        drawn = draws.counts > 0
        size = _effective_size(log_weight[drawn], draws.counts[drawn])
        # the largest weight that counts is relative to a total that holds the cut weights: to a fixed point
        total = found.sum()
        for _ in range(50):
            largest = np.sqrt(draws.number) * total
            weight = np.exp(np.minimum(log_weight, np.log(largest)))
            extra = np.where(draws.single, weight / draws.number, 0.0)
            before, total = total, found.sum() + extra.sum()
            if np.isclose(before, total, rtol=1e-9):
                break
        square = np.where(draws.single, weight**2, 0.0).sum() / draws.number
        error = float(np.sqrt(max(square - extra.sum() ** 2, 0.0) / draws.number) / total)
    mass = found + extra
    total = mass.sum()
    with np.errstate(divide="ignore"):
        log_mass = top + np.log(mass)
    return Masses(log_found, log_mass, float(extra.sum() / total), float(top + np.log(total)), error, size)


def found_alone(masses: Masses) -> Masses:
    """The same without the unseen mass on the programs that were seen once: what was found, and nothing else.

    Few effective draws say how much is unseen at best roughly, and not at all where it lies: one draw of a
    large weight would give its own form most of it. The estimate of the total and of what is unseen stay.

    Args:
        masses: What `estimate_masses` returned.
    """
    return masses._replace(log_mass=masses.log_found)


def searched_masses(masses: Masses, found: TaskOutcome | None) -> Masses:
    """The same with what a search itself says of all mass; NaN where it says nothing, and of what is unseen.

    Args:
        masses: The masses of the programs that were found.
        found: How the search went.
    """
    found = found or TaskOutcome()
    unknown = float("nan")
    values = (found.log_z, found.log_z_se, found.effective_sample_size)
    log_z, error, size = (unknown if value is None else value for value in values)
    return masses._replace(unseen=unknown, log_total=log_z, log_total_se=error, effective_sample_size=size)


def _effective_size(log_weight: Values, count: Values) -> float:
    """Kish's size of draws of which each program has so many."""
    repeated = np.repeat(log_weight, count.astype(np.int64))
    return effective_sample_size(repeated)

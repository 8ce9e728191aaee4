"""What simulated data say of the program that made them, and how much of it a writer has: in nats.

The gain of looking is a lower bound of the mutual information of program and data given the request. That is
the mean of `log p(data | program) - log p(data)` over simulated pairs, of which the first is the program's
evidence and the second the log Z of its data set, by importance sampling with the writer's own programs.
Where these miss good programs log Z comes out low and the information high. What a writer falls short by, the
mean of `log p(program | data) - log q(program | data)`, is the same less the gain.

The same weighted programs say whether the posterior is calibrated (simulation-based calibration, Talts et
al., arXiv 1804.06788, over features of programs): a feature that they give a share of 30 % should be the
making program's in three of ten such data sets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from language_models.zero_shot_parts.simulated import CALIBRATED, MADE_SEED, PROGRAMS_A_PAIR, STAGES, bands
from language_models.zero_shot_parts.weighted import Weighted, weighted

from synthstats_lightning import ProgramScorer
from synthstats_lightning.policy import Policy, SampledPrograms, SamplingSettings
from synthstats_lightning.pretraining.writer.plan import OTHER, PlanClasses
from synthstats_lightning.pretraining.writer.pupil import Pupil
from synthstats_lightning.pretraining.writer.rows import pair_row, writer_batch
from synthstats_lightning.pretraining.writer.settings import WriterTraining
from synthstats_lightning.pretraining.writer.sources import Pair, fixed_pairs
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks.facts import Facts

AT_ONCE = 100
"""Programs of one pass."""
OTHERS = 1 << 20
"""Added to the step of programs that nothing weighs."""


class Told(NamedTuple):
    """What programs of one data set tell of one feature of the program that made it.

    Attributes:
        own: Whether that program has it.
        picking: Its share among other programs of the writer, which are not scored.
        plain: Its share among the writer's programs.
        weighted: Its share by their weights.
        plain_variance: Of own less plain.
        weighted_variance: Of own less weighted.
    """

    own: bool
    picking: float
    plain: float
    weighted: float
    plain_variance: float
    weighted_variance: float


def information(policy: Policy, pairs: int, programs: int, tokens: int, time_limit: float) -> dict[str, Any]:
    """Information in simulated data about their program, and a writer's gain on the same pairs.

    A data set takes half a minute to some minutes: some of its programs are dear to score.

    Args:
        policy: A writer.
        pairs: How many data sets.
        programs: Of the writer for each, which log Z is estimated from.
        tokens: Most tokens of a program.
        time_limit: Processor seconds of a score.

    Returns:
        `simulated_information_nats` and its standard error, `information_gain_nats`, the gain on the same
        pairs, `information_shortfall_nats`, the difference, and `information_pairs`, those whose program has
        a score. Of the same data sets `calibration_plain` and `calibration_weighted`, by feature a list of
        bands, with `..._worst_z` the largest size of a band's difference over its standard deviation, and
        `information_ess`, the median effective sample size of the weighted programs.
    """
    made = fixed_pairs(WriterTraining(STAGES, seed=MADE_SEED + 2), pairs)
    settings = EngineSettings(last_score="evidence", time_limit=time_limit)
    found: list[tuple[float, float]] = []
    told: list[list[Told]] = []
    sizes: list[float] = []
    with ProgramScorer(settings=settings) as scorer:
        for place, pair in enumerate(made):
            if pair.program.data is None:
                continue
            score = scorer.score(pair.program.source, pair.program.data)
            if score.evidence is None:
                continue
            facts = replace(pair.example.facts, digest=pair.program.digest)
            prompt = policy.spelling.prompt("", "", False, "digest", facts)
            prior = policy.spelling.prompt("", "", False, "", pair.example.facts)

            def drawn(
                number: int,
                step: int,
                prompt: list[int] = prompt,
                prior: list[int] = prior,
                facts: Facts = facts,
            ) -> SampledPrograms:
                settings = SamplingSettings(max_new_tokens=tokens)
                return policy.sample(
                    [prompt], number, settings, MADE_SEED, step=step, prior_prompts=[prior], facts=[facts]
                )

            starts = range(0, programs, AT_ONCE)
            samples = [drawn(min(AT_ONCE, programs - start), place * programs + start) for start in starts]
            others = drawn(PROGRAMS_A_PAIR, OTHERS + place).sources
            weights = weighted(samples, pair.program.data, scorer)
            log_z = weights.log_z[0]
            if np.isfinite(log_z):
                found.append((score.evidence - log_z, _gain(policy, pair)))
                columns = [column.name for column in facts.columns]
                told.append(_told(pair.program.source, others, weights, columns))
                sizes.append(weights.effective_sample_size)
                nats, gained = found[-1]
                print(f"{place + 1} of {len(made)}: {nats:.2f} nats, gain {gained:.2f}", flush=True)
    if not found:
        return {"information_pairs": 0}
    nats, gained = np.array(found).T
    return {
        "simulated_information_nats": float(nats.mean()),
        "simulated_information_se": float(nats.std() / len(nats) ** 0.5),
        "information_gain_nats": float(gained.mean()),
        "information_shortfall_nats": float((nats - gained).mean()),
        "information_pairs": len(found),
        "information_ess": float(np.median(sizes)),
        **_calibration(told),
    }


def _told(source: str, others: list[str], weights: Weighted, columns: list[str]) -> list[Told]:
    found = []
    for feature in CALIBRATED:
        has = np.array([feature.of(text, columns) for text in weights.sources], dtype=np.float64)
        plain, share = float(has.mean()), float(weights.shares @ has)
        noise = float(weights.shares**2 @ (has - share) ** 2)
        picking = float(np.mean([feature.of(text, columns) for text in others]))
        own = feature.of(source, columns)
        variance = plain * (1.0 - plain)
        found.append(
            Told(own, picking, plain, share, variance * (1.0 + 1.0 / len(has)), share * (1.0 - share) + noise)
        )
    return found


def _calibration(told: list[list[Told]]) -> dict[str, Any]:
    """Bands of all features, before and after weighting; `told` is of each data set, of each feature."""
    plain, weighted = {}, {}
    for feature, of_feature in zip(CALIBRATED, zip(*told, strict=True), strict=True):
        own, picking, *rest = (np.array(values) for values in zip(*of_feature, strict=True))
        before, after, before_variance, after_variance = rest
        plain[feature.name] = bands(own, picking, before, before_variance)
        weighted[feature.name] = bands(own, picking, after, after_variance)
    return {
        "calibration_plain_worst_z": _worst(plain),
        "calibration_weighted_worst_z": _worst(weighted),
        "calibration_plain": plain,
        "calibration_weighted": weighted,
    }


def _worst(found: dict[str, list[dict[str, float]]]) -> float:
    return max(abs(band["z"]) for own in found.values() for band in own)


@torch.no_grad()
def _gain(policy: Policy, pair: Pair) -> float:
    """Of the log-probability of one program by looking."""
    nothing = PlanClasses((OTHER,), (OTHER,), (OTHER,))
    pupil = Pupil(policy.language_model, nothing)
    batch = writer_batch([pair_row(policy.spelling, *pair)], policy.spelling, nothing)
    log_probs, _ = pupil(batch, "fp32")
    blind, informed = torch.zeros(2).index_add(0, batch.segment, log_probs).tolist()
    return informed - blind

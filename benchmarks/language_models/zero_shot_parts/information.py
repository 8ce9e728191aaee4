"""What simulated data say of the program that made them, and how much of it a writer has: in nats.

The gain of looking is a lower bound of the mutual information of program and data given the request. That is
the mean of `log p(data | program) - log p(data)` over simulated pairs, of which the first is the program's
evidence and the second the log Z of its data set, by importance sampling with the writer's own programs.
Where these miss good programs log Z comes out low and the information high. What a writer falls short by, the
mean of `log p(program | data) - log q(program | data)`, is the same less the gain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from language_models.zero_shot_parts.simulated import MADE_SEED, STAGES
from language_models.zero_shot_parts.weighted import weighted

from synthstats_lightning import ProgramScorer
from synthstats_lightning.policy import Policy, SamplingSettings
from synthstats_lightning.pretraining.writer.plan import OTHER, PlanClasses
from synthstats_lightning.pretraining.writer.pupil import Pupil
from synthstats_lightning.pretraining.writer.rows import pair_row, writer_batch
from synthstats_lightning.pretraining.writer.settings import WriterTraining
from synthstats_lightning.pretraining.writer.sources import Pair, fixed_pairs
from synthstats_lightning.scoring.settings import EngineSettings

AT_ONCE = 100
"""Programs of one pass."""


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
        a score.
    """
    made = fixed_pairs(WriterTraining(STAGES, seed=MADE_SEED + 2), pairs)
    settings = EngineSettings(last_score="evidence", time_limit=time_limit)
    found: list[tuple[float, float]] = []
    with ProgramScorer(settings=settings) as scorer:
        for number, pair in enumerate(made):
            if pair.program.data is None:
                continue
            score = scorer.score(pair.program.source, pair.program.data)
            if score.evidence is None:
                continue
            facts = replace(pair.example.facts, digest=pair.program.digest)
            prompt = policy.spelling.prompt("", "", False, "digest", facts)
            prior = policy.spelling.prompt("", "", False, "", pair.example.facts)
            samples = [
                policy.sample(
                    [prompt],
                    min(AT_ONCE, programs - start),
                    SamplingSettings(max_new_tokens=tokens),
                    MADE_SEED,
                    step=number * programs + start,
                    prior_prompts=[prior],
                    facts=[facts],
                )
                for start in range(0, programs, AT_ONCE)
            ]
            log_z = weighted(samples, pair.program.data, scorer).log_z[0]
            if np.isfinite(log_z):
                found.append((score.evidence - log_z, _gain(policy, pair)))
                told, gained = found[-1]
                print(f"{number + 1} of {len(made)}: {told:.2f} nats, gain {gained:.2f}", flush=True)
    if not found:
        return {"information_pairs": 0}
    told, gained = np.array(found).T
    return {
        "simulated_information_nats": float(told.mean()),
        "simulated_information_se": float(told.std() / len(told) ** 0.5),
        "information_gain_nats": float(gained.mean()),
        "information_shortfall_nats": float((told - gained).mean()),
        "information_pairs": len(found),
    }


@torch.no_grad()
def _gain(policy: Policy, pair: Pair) -> float:
    """Of the log-probability of one program by looking."""
    nothing = PlanClasses((OTHER,), (OTHER,), (OTHER,))
    pupil = Pupil(policy.language_model, nothing)
    batch = writer_batch([pair_row(policy.spelling, *pair)], policy.spelling, nothing)
    log_probs, _ = pupil(batch, "fp32")
    blind, informed = torch.zeros(2).index_add(0, batch.segment, log_probs).tolist()
    return informed - blind

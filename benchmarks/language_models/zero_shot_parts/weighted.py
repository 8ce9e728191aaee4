"""Programs that a policy writes without training, with their importance weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from synthstats_lightning import ProgramScorer, Score
from synthstats_lightning.policy import Policy, SampledPrograms, SamplingSettings
from synthstats_lightning.tasks import Prompt, Task, task_prompt
from synthstats_lightning.tasks.proposal import looking


@dataclass(frozen=True)
class Weighted:
    """Independent programs of one policy and what they weigh.

    Attributes:
        sources: Their texts.
        scores: Their scores.
        log_weight: Prior times evidence over the probability that they were written with, in nats; -inf of
            what has no score.
    """

    sources: list[str]
    scores: list[Score]
    log_weight: Float[np.ndarray, " programs"]

    @property
    def scored_share(self) -> float:
        """Share of the programs that have a score."""
        return float(np.isfinite(self.log_weight).mean())

    @property
    def shares(self) -> Float[np.ndarray, " programs"]:
        """Weights that sum to 1; zeros where nothing has a score."""
        if not np.isfinite(self.log_weight).any():
            return np.zeros(len(self.log_weight))
        return np.exp(self.log_weight - np.logaddexp.reduce(self.log_weight))

    @property
    def effective_sample_size(self) -> float:
        """Of the self-normalised weights, in programs."""
        total = float((self.shares**2).sum())
        return 1.0 / total if total else 0.0

    @property
    def log_z(self) -> tuple[float, float]:
        """Log of the mean weight and its standard error by the delta method, in nats."""
        number = len(self.log_weight)
        value = float(np.logaddexp.reduce(self.log_weight)) - np.log(number)
        relative = self.shares * number
        return float(value), float(np.sqrt(np.mean((relative - 1.0) ** 2) / max(number - 1, 1)))

    def best(self, number: int) -> list[str]:
        """Texts of the largest weight, each once.

        Args:
            number: How many at most.
        """
        order = [int(row) for row in np.argsort(-self.log_weight) if np.isfinite(self.log_weight[row])]
        return list(dict.fromkeys(self.sources[row] for row in order))[:number]


def written(
    policy: Policy, task: Task, number: int, proposal: str, tokens: int, seed: int = 0, batch: int = 100
) -> list[SampledPrograms]:
    """Independent programs of a policy at temperature 1.

    Args:
        policy: Who writes.
        task: What about.
        number: How many programs.
        proposal: What the prompt shows: `"nothing"` for the prior's own programs.
        tokens: Most tokens of a program.
        seed: Seed of the programs.
        batch: Programs at once.
    """
    prompt = task_prompt(looking(task, proposal))
    ids, prior = _ids(policy, prompt), _ids(policy, prompt.prior)
    settings = SamplingSettings(max_new_tokens=tokens)
    return [
        policy.sample(
            [ids],
            min(batch, number - start),
            settings,
            seed,
            step=start,
            prior_prompts=[prior],
            facts=[prompt.facts],
        )
        for start in range(0, number, batch)
    ]


def _ids(policy: Policy, prompt: Prompt) -> list[int]:
    return policy.encode_prompt(*prompt)


def weighted(samples: Sequence[SampledPrograms], task: Task, scorer: ProgramScorer) -> Weighted:
    """Scores programs and weighs them.

    Args:
        samples: Programs of one policy and prompt.
        task: What they are scored on.
        scorer: Scores them by their evidence.
    """
    sources = [source for each in samples for source in each.sources]
    whole = np.concatenate([each.stopped.numpy() for each in samples])
    ratio = np.concatenate([(each.reference_log_prob - each.log_prob).double().numpy() for each in samples])
    scores = [future.result() for future in [scorer.submit(source, task) for source in sources]]
    evidence = [
        score.evidence if score.scored and score.evidence is not None else -np.inf for score in scores
    ]
    return Weighted(sources, scores, np.where(whole, ratio + np.array(evidence), -np.inf))


def figures(found: Weighted, blind: Weighted) -> dict[str, Any]:
    """What the programs of one data set give.

    Args:
        found: Programs of the proposal.
        blind: As many of the prior.
    """
    log_z, error = found.log_z
    blind_log_z, blind_error = blind.log_z
    ratio = found.effective_sample_size / max(blind.effective_sample_size, 1e-9)
    known = bool(np.isfinite([log_z, blind_log_z]).all())
    evidence = [score.evidence for score in found.scores if score.scored and score.evidence is not None]
    failures: dict[str, int] = {}
    for score in found.scores:
        if not score.scored:
            failures[str(score.failure)] = failures.get(str(score.failure), 0) + 1
    return {
        "scored_share": found.scored_share,
        "ess": found.effective_sample_size,
        "ess_blind": blind.effective_sample_size,
        "ratio": ratio,
        "log_z": log_z if known else None,
        "log_z_se": error if known else None,
        "log_z_difference": log_z - blind_log_z if known else None,
        "log_z_difference_se": float(np.hypot(error, blind_error)) if known else None,
        "best_evidence": max(evidence, default=None),
        "median_evidence": float(np.median(evidence)) if evidence else None,
        "blind_scored_share": blind.scored_share,
        "failures": failures,
    }

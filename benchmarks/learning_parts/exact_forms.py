"""Shares by form of a run on the grammar of real programs, against their exact enumeration."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from learning_parts.exact_grammar import TASK, grammar, whole_scores
from learning_parts.exact_programs import train_on_grammar

from synthstats_lightning import RunPosterior, load_posterior
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.scoring.score import Score

ROUND, FRESH = 40, 2000
"""Programs that are drawn in each round of training, and at its end."""
OUTSIDE = ProgramRecord(
    TASK, "pass", Score.failed(FailureCategory.RAISED, "not of the grammar"), 0.0, -1.0, -1.0
)


def form_shares(
    steps: int, seed: int, cache_file: Path, num_workers: int, limit: int | None
) -> dict[str, dict[str, float]]:
    """Largest error of a share by form: of training's samples, and of these and fresh ones.

    Trajectory balance is trained as in `train_on_grammar`, towards a quarter of the evidence; the posterior
    that is reported has all of it, under a uniform prior over the grammar. What the policy draws is drawn
    from its exact probabilities, what it gives to programs outside of the grammar included. The records are
    written and read as a run's are.

    Args:
        steps: Training steps.
        seed: Of everything random.
        cache_file: Of scores.
        num_workers: That score.
        limit: Only so many programs of the grammar.

    Returns:
        By kind of sample: `worst` (share), `log_z_error` (nats, of the estimate), `unseen_error` (share),
        `effective_sample_size` and `forms`.
    """
    found = whole_scores(cache_file, num_workers, limit)
    sources = [program.source for program in grammar()[: len(found)]]
    prior = -np.log(len(found))
    everything = [
        ProgramRecord(TASK, source, score, 0.0, prior, prior)
        for source, score in zip(sources, found, strict=True)
    ]
    listed = {item.source: item.form for item in RunPosterior.from_records(TASK, everything).programs}
    evidence = np.array([score.evidence for score in found], dtype=np.float64)
    log_z = np.logaddexp.reduce(prior + evidence)
    weight = np.exp(prior + evidence - log_z)
    generator = np.random.default_rng(seed)
    rounds: list[np.ndarray] = []
    train_on_grammar(
        "TB", steps, seed, cache_file, num_workers, limit, lambda log_prob: rounds.append(log_prob.numpy())
    )

    def records(policies: Sequence[np.ndarray], number: int, fresh: bool, into: ProgramRecords) -> None:
        for policy in policies:
            inside = np.exp(policy)
            counts = generator.multinomial(number, [*inside, max(0.0, 1 - inside.sum())])
            for place in np.flatnonzero(counts):
                for _ in range(counts[place]):
                    drawn = OUTSIDE
                    if place < len(found):
                        own = found[place], 0.0, float(policy[place]), prior, 1, int(fresh)
                        drawn = ProgramRecord(TASK, sources[place], *own)
                    into.add(drawn)

    def compared(run: ProgramRecords) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            run.write(Path(folder) / "programs.jsonl")
            posterior = load_posterior(folder)
        assert isinstance(posterior, RunPosterior)
        seen = {item.source for item in posterior.programs}
        unseen = sum(w for w, source in zip(weight, sources, strict=True) if source not in seen)
        shares = {form.key: form.share for form in posterior.forms}
        exact = exact_shares(listed, dict(zip(sources, weight.tolist(), strict=True)))
        return {
            "worst": max(abs(shares.get(key, 0.0) - share) for key, share in exact.items()),
            "log_z_error": posterior.estimate.log_z - float(log_z),
            "unseen_error": posterior.estimate.unseen_mass - float(unseen),
            "effective_sample_size": posterior.estimate.effective_sample_size,
            "forms": float(len(exact)),
        }

    run = ProgramRecords()
    records(rounds, ROUND, False, run)
    training = compared(run)
    records(rounds[-1:], FRESH, True, run)
    return {"of training": training, "and fresh": compared(run)}


def exact_shares(form: Mapping[str, str], weight: Mapping[str, float]) -> dict[str, float]:
    """Posterior mass of each form.

    Args:
        form: Program to its form's key.
        weight: Program to its posterior mass.
    """
    shares: dict[str, float] = defaultdict(float)
    for source, mass in weight.items():
        shares[form[source]] += mass
    return dict(shares)

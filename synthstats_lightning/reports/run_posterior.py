"""The run's posterior: every distinct program that was scored, weighted by prior times evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from synthstats_lightning.metrics import effective_number
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import StructureShare, grouped_shares


def record_shares(records: Sequence[ProgramRecord]) -> list[StructureShare]:
    """Groups a run's distinct programs by structure, largest share first.

    This is the posterior over the programs that the run has found: what it has not found has no share.

    Args:
        records: One entry a distinct program; those without an evidence have no weight.
    """
    scored = [record for record in records if record.score.evidence is not None]
    return grouped_shares(scored, posterior_log_weights(scored)) if scored else []


def posterior_log_weights(records: Sequence[ProgramRecord]) -> Float[np.ndarray, " programs"]:
    """Log of prior times evidence of programs with an evidence, in nats.

    Args:
        records: Distinct programs of one task.
    """
    return np.array([record.reference_log_prob + (record.score.evidence or 0.0) for record in records])


def record_metrics(records: Sequence[ProgramRecord]) -> dict[str, float]:
    """Summary of a run's distinct programs of one task.

    Args:
        records: One entry a distinct program.

    Returns:
        `programs` (distinct), `samples`, `valid_rate` (of the samples), `log_z_found` (log of the summed
        rewards of the distinct programs in nats, which log Z of the reward is at least; -inf without any)
        and, with an evidence, `evidence` and `elpd` (means by posterior share), `best_evidence`, `best_elpd`,
        `structures`, `effective_structures` (exponential of the entropy of their shares) and
        `top_structure_share`.
    """
    samples = sum(record.count for record in records)
    scored = [record for record in records if record.score.evidence is not None]
    metrics = {
        "programs": float(len(records)),
        "samples": float(samples),
        "valid_rate": sum(record.count for record in scored) / samples if samples else 0.0,
        "log_z_found": float(np.logaddexp.reduce([record.log_reward for record in records])),
    }
    if not scored:
        return metrics
    evidence = np.array([record.score.evidence for record in scored])
    elpd = np.array([np.nan if r.score.elpd is None else r.score.elpd for r in scored])
    log_weight = posterior_log_weights(scored)
    weight = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    share = np.array([item.posterior_share for item in record_shares(scored)])
    metrics |= {
        "evidence": float(weight @ evidence),
        "best_evidence": float(evidence.max()),
        "structures": float(len(share)),
        "effective_structures": effective_number(share),
        "top_structure_share": float(share.max()),
    }
    if (there := np.isfinite(elpd)).any():
        metrics["elpd"] = float(weight[there] @ elpd[there] / weight[there].sum())
        metrics["best_elpd"] = float(elpd[there].max())
    return metrics

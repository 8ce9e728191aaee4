"""What a set of freshly sampled programs says of the policy, and a run's records of the posterior."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from synthstats_lightning.learning.tempering import log_target_ratio
from synthstats_lightning.metrics import effective_number, importance_log_z
from synthstats_lightning.objectives import Objective
from synthstats_lightning.reports.records import ProgramRecord


def log_target_ratios(
    records: Sequence[ProgramRecord], objective: Objective | None = None, *, of_policy: bool = False
) -> Float[np.ndarray, " programs"]:
    """Log importance weights of records of one task, in nats: log of the target minus that of their drawing.

    A program without a score is no part of the target, whatever the objective saw of it: its weight is 0.

    Args:
        records: One entry a sample.
        objective: Of the run, which says what the target is; by default it is the reward.
        of_policy: Whether log π is taken off, whoever drew the samples.
    """
    names = ("log_prob" if of_policy else "drawn_log_prob", "log_reward", "reference_log_prob")
    columns = np.array([[getattr(record, name) for record in records] for name in names], dtype=np.float64)
    log_prob, log_reward, reference = columns
    scored = np.array([record.score.scored for record in records], dtype=np.bool_)
    ratio: Float[np.ndarray, " programs"] = log_target_ratio(objective, log_prob, log_reward, reference)
    return np.where(scored, ratio, -np.inf)


def merged_records(ranks: Sequence[Mapping[int, list[ProgramRecord]]]) -> dict[int, list[ProgramRecord]]:
    """Task index to the records of all ranks.

    Args:
        ranks: Task index to records, of every rank.
    """
    merged: dict[int, list[ProgramRecord]] = {}
    for rank in ranks:
        for index, records in rank.items():
            merged.setdefault(index, []).extend(records)
    return merged


class StructureShare(NamedTuple):
    """All programs of one structure.

    Attributes:
        structure: Hash of the structure.
        posterior_share: Self-normalised weight of its programs: of samples, the share that programs of this
            structure have of the target distribution; of a run's records, their share of what was found.
        num_programs: Of this structure among the samples, or among the distinct programs of the run.
        best: Its program of the highest evidence.
    """

    structure: str
    posterior_share: float
    num_programs: int
    best: ProgramRecord


def grouped_shares(
    records: Sequence[ProgramRecord], log_weight: Float[np.ndarray, " programs"]
) -> list[StructureShare]:
    """Groups weighted programs by structure, largest share first.

    Args:
        records: At least one; those that have no evidence keep their share, and are in no group.
        log_weight: Of each, up to a common constant.
    """
    if log_weight.max() == -np.inf:
        return []
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    shares: dict[str, float] = {}
    counts: Counter[str] = Counter()
    best: dict[str, ProgramRecord] = {}
    for record, share in zip(records, weight, strict=True):
        key = record.score.structure
        if key is None or record.score.evidence is None:
            continue
        shares[key] = shares.get(key, 0.0) + float(share)
        counts[key] += 1
        if key not in best or record.score.evidence > (best[key].score.evidence or -np.inf):
            best[key] = record
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return [StructureShare(key, share, counts[key], best[key]) for key, share in ordered]


def evaluation_metrics(
    records: Sequence[ProgramRecord],
    log_z: float,
    objective: Objective | None = None,
    others: Sequence[ProgramRecord] = (),
) -> dict[str, float]:
    """Summary of freshly sampled programs of one task.

    Args:
        records: One entry a sample of the policy.
        log_z: Learned log Z of the task, in nats.
        objective: Of the run, which says what the target is; by default it is the reward.
        others: One entry a sample of the prior or of the warm-up. Together with those of the policy they are
            draws of a mixture, whose probability their records know; only importance sampling takes them in.

    Returns:
        `valid_rate`, `log_reward` (of all samples), `unique_rate` and `effective_sample_size` (of all, the
        others too); with a scored sample also `evidence` and `elpd` (means over scored samples, no elpd
        where none was computed), `structures` (distinct, over scored samples), `effective_structures`
        (exponential of their entropy), `top_structure_share` (of all samples), `residual_std` (over scored
        samples) with the quantiles `residual_q05` and `residual_q95`, between which nine tenths of them lie
        whatever a single program does, `log_z_importance` with `log_z_importance_se` (the others too), and
        `log_z_gap`.
        Where there are others, also `effective_sample_size_of_policy`, by log π and without them.
    """
    scored = [record for record in records if record.score.scored]
    log_weight = log_target_ratios(records, objective, of_policy=True)
    estimate = importance_log_z(log_target_ratios([*records, *others], objective))
    metrics = {
        "valid_rate": len(scored) / len(records),
        "log_reward": float(np.mean([record.log_reward for record in records])),
        "effective_sample_size": estimate.effective_sample_size,
        "unique_rate": len({record.source for record in records}) / len(records),
    }
    if others:
        metrics["effective_sample_size_of_policy"] = importance_log_z(log_weight).effective_sample_size
    if scored:
        residual = log_z - log_weight[np.isfinite(log_weight)]
        metrics |= {
            "residual_std": float(residual.std()),
            "residual_q05": float(np.quantile(residual, 0.05)),
            "residual_q95": float(np.quantile(residual, 0.95)),
            "log_z_importance": estimate.value,
            "log_z_gap": log_z - estimate.value,
        }
        if len(records) > 1:
            metrics["log_z_importance_se"] = estimate.standard_error
    if scored:
        counts = np.array(list(Counter(record.score.structure for record in scored).values()))
        metrics |= {
            "evidence": float(
                np.mean([record.score.evidence for record in scored if record.score.evidence is not None])
            ),
            "structures": float(len(counts)),
            "effective_structures": effective_number(counts),
            "top_structure_share": float(counts.max() / len(records)),
        }
        if elpd := [record.score.elpd for record in scored if record.score.elpd is not None]:
            metrics |= {"elpd": float(np.mean(elpd)), "best_elpd": float(np.max(elpd))}
    return metrics


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


POLICY = "policy"
"""What a run's own policy is called."""


def by_origin(records: Sequence[ProgramRecord]) -> dict[str, dict[str, Any]]:
    """What distinct programs of one task come to, by where they come from.

    Args:
        records: One entry a distinct program.

    Returns:
        By origin, the policy first: `programs`, `scored`, `best_evidence` (nats; `None` without any) and
        `posterior_share` (of the run's posterior, by prior times evidence). Nothing where the policy has
        written all.
    """
    if not any(record.origin for record in records):
        return {}
    weighed = [record for record in records if record.score.evidence is not None]
    log_weight = posterior_log_weights(weighed)
    weight = np.exp(log_weight - np.logaddexp.reduce(log_weight)) if weighed else np.zeros(0)
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(["", *(record.origin for record in records)]):
        own = [record for record in records if record.origin == name]
        evidence = [record.score.evidence for record in own if record.score.evidence is not None]
        here = [record.origin == name for record in weighed]
        found[name or POLICY] = {
            "programs": len(own),
            "scored": sum(record.score.scored for record in own),
            "best_evidence": max(evidence, default=None),
            "posterior_share": float(weight[here].sum()),
        }
    return found


def origin_lines(records: Sequence[ProgramRecord]) -> list[str]:
    """The same in sentences, a line each.

    Args:
        records: One entry a distinct program.
    """
    lines = []
    for name, figures in by_origin(records).items():
        best = figures["best_evidence"]
        said = "" if best is None else f", best evidence {best:.2f}"
        lines.append(
            f"from {name}: {figures['programs']} programs, {figures['scored']} scored{said},"
            f" {figures['posterior_share']:.1%} of the run's posterior"
        )
    return lines

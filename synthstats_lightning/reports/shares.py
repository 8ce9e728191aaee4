"""What a set of freshly sampled programs says of the policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from synthstats_lightning.metrics import effective_number, importance_log_z
from synthstats_lightning.objectives import Objective, ObjectiveInputs, TrajectoryBalance
from synthstats_lightning.reports.records import ProgramRecord


def log_target_ratios(
    records: Sequence[ProgramRecord], objective: Objective | None = None
) -> Float[np.ndarray, " programs"]:
    """Log importance weights of records of one task, in nats: log of the target minus log π.

    Args:
        records: One entry a sample.
        objective: Of the run, which says what the target is; by default it is the reward.
    """
    names = ("log_prob", "log_reward", "reference_log_prob")
    columns = [[getattr(record, name) for record in records] for name in names]
    log_prob, log_reward, reference = torch.tensor(columns, dtype=torch.float64)
    inputs: ObjectiveInputs = {
        "task_index": torch.zeros(len(records), dtype=torch.int64),
        "reference_log_prob": reference,
        "stored_reference_log_prob": reference,
    }
    ratio = (objective or TrajectoryBalance()).log_target_ratio(log_prob, log_reward, inputs)
    values: Float[np.ndarray, " programs"] = ratio.numpy()
    return values


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


def structure_shares(
    records: Sequence[ProgramRecord], objective: Objective | None = None
) -> list[StructureShare]:
    """Groups scored samples by structure, largest posterior share first.

    Args:
        records: One entry a sample: a program that was sampled twice appears twice.
        objective: Of the run, which says what the target is; by default it is the reward.
    """
    if not records:
        return []
    return grouped_shares(records, log_target_ratios(records, objective))


def grouped_shares(
    records: Sequence[ProgramRecord], log_weight: Float[np.ndarray, " programs"]
) -> list[StructureShare]:
    """Groups weighted programs by structure, largest share first.

    Args:
        records: At least one; those that have no evidence keep their share, and are in no group.
        log_weight: Of each, up to a common constant.
    """
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
    records: Sequence[ProgramRecord], log_z: float, objective: Objective | None = None
) -> dict[str, float]:
    """Summary of freshly sampled programs of one task.

    Args:
        records: One entry a sample.
        log_z: Learned log Z of the task, in nats.
        objective: Of the run, which says what the target is; by default it is the reward.

    Returns:
        `valid_rate` (of all samples), `log_reward` (mean over all samples), `evidence` and `elpd` (mean over
        scored
        samples), `structures` (distinct, over scored samples), `effective_structures` (exponential of their
        entropy), `top_structure_share` (of all samples), `residual_std`, `log_z_importance`, `log_z_gap`.
    """
    scored = [record for record in records if record.score.scored]
    log_reward = np.array([record.log_reward for record in records])
    log_weight = log_target_ratios(records, objective)
    estimate = importance_log_z(log_weight)
    metrics = {
        "valid_rate": len(scored) / len(records),
        "log_reward": float(log_reward.mean()),
        "residual_std": float((log_z - log_weight).std()),
        "log_z_importance": estimate.value,
        "log_z_importance_se": estimate.standard_error,
        "log_z_gap": log_z - estimate.value,
        "effective_sample_size": estimate.effective_sample_size,
        "unique_rate": len({record.source for record in records}) / len(records),
    }
    if scored:
        counts = np.array(list(Counter(record.score.structure for record in scored).values()))
        metrics |= {
            "evidence": float(
                np.mean([record.score.evidence for record in scored if record.score.evidence is not None])
            ),
            "elpd": float(np.mean([record.score.elpd for record in scored if record.score.elpd is not None])),
            "best_elpd": float(
                np.max([record.score.elpd for record in scored if record.score.elpd is not None])
            ),
            "structures": float(len(counts)),
            "effective_structures": effective_number(counts),
            "top_structure_share": float(counts.max() / len(records)),
        }
    return metrics

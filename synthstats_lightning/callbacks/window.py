"""What a run's sampling and scoring came to since the last log, over all ranks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lightning.pytorch import LightningModule

from synthstats_lightning.callbacks.program_queue import QueueSums, queue_metrics
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.distributed import added_up

ON_THE_BAR = {
    "perf/programs_per_second": "programs/s",
    "sample/valid_rate": "valid",
    "sample/log_reward": "reward",
    "sample/evidence": "evidence",
}
"""Metrics that the progress bar shows, and their names there."""


class TaskSums(NamedTuple):
    """What one rank adds to the metrics of one task.

    Attributes:
        programs: Scored, or failed.
        scored: Number of these programs that have a score.
        log_reward: Sum over all, in nats.
    """

    programs: int
    scored: int
    log_reward: float


class TermSums(NamedTuple):
    """What one rank adds to the metrics of one term of the reward.

    Attributes:
        programs: Scored programs with a value.
        value: Sum of their values, before the term's weight.
    """

    programs: int
    value: float


class WindowSums(NamedTuple):
    """What one rank adds to the metrics of all.

    Attributes:
        elapsed: Seconds since the last log.
        sampling_seconds: Seconds of these that sampling took.
        programs: Scored, or failed.
        evidences: Programs with an evidence.
        evidence: Sum of their evidence, in nats.
        log_reward: Sum over all programs, in nats.
        copying: Programs that repeat values of the response.
        structures: Hashes of the scored programs' structures.
        in_flight: Programs that wait for a score now.
        restarts: Worker processes that were replaced since the run began.
        failures: Category to number of programs since the run began.
        tasks: What each task adds, by name.
        queue: What the queue of programs in flight adds.
        trained: Trajectories in batches since the run began.
        scored: Programs with a score or a failure since the run began.
        terms: What each term of the reward adds, by its name.
    """

    elapsed: float
    sampling_seconds: float
    programs: int
    evidences: int
    evidence: float
    log_reward: float
    copying: int
    structures: frozenset[str]
    in_flight: int
    restarts: int
    failures: Mapping[str, int]
    tasks: Mapping[str, TaskSums]
    queue: QueueSums = QueueSums()
    trained: int = 0
    scored: int = 0
    terms: Mapping[str, TermSums] = {}


class Window:
    """What happened on this rank since the last time metrics were logged."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.sampling_seconds = 0.0
        self.records: list[ProgramRecord] = []

    def sums(self, in_flight: int, restarts: int, failures: Mapping[str, int]) -> WindowSums:
        """This rank's part.

        Args:
            in_flight: Programs that wait for a score.
            restarts: Worker processes that were replaced.
            failures: Category to number of programs.
        """
        records = self.records
        evidence = [record.score.evidence for record in records if record.score.evidence is not None]
        structures = (record.score.structure for record in records if record.score.scored)
        return WindowSums(
            elapsed=time.perf_counter() - self.started,
            sampling_seconds=self.sampling_seconds,
            programs=len(records),
            evidences=len(evidence),
            evidence=sum(evidence),
            log_reward=sum(record.log_reward for record in records),
            copying=sum(record.score.literal_copies > 0 for record in records),
            structures=frozenset(name for name in structures if name is not None),
            in_flight=in_flight,
            restarts=restarts,
            failures=dict(failures),
            tasks=self._task_sums(),
            terms=self._term_sums(),
        )

    def _term_sums(self) -> dict[str, TermSums]:
        values: dict[str, list[float]] = {}
        for record in self.records:
            for key, value in record.score.terms.items():
                values.setdefault(key.partition("@")[0], []).append(value)
        return {name: TermSums(len(found), sum(found)) for name, found in values.items()}

    def _task_sums(self) -> dict[str, TaskSums]:
        by_task: dict[str, list[ProgramRecord]] = {}
        for record in self.records:
            by_task.setdefault(record.task, []).append(record)
        return {
            task: TaskSums(
                len(records),
                sum(record.score.scored for record in records),
                sum(record.log_reward for record in records),
            )
            for task, records in by_task.items()
        }


def window_metrics(ranks: Sequence[WindowSums]) -> dict[str, float]:
    """Metrics of all ranks together: what one process would say that had seen the programs of all.

    Args:
        ranks: The sums of every rank.

    Returns:
        `perf/programs_per_second`, `perf/sampling_share`, `perf/in_flight`, `perf/worker_restarts`,
        `failures/CATEGORY`, `replay/ratio` (trajectories trained on per scored program, since the run began)
        and what `queue_metrics` says; with programs also `sample/valid_rate`,
        `sample/log_reward` (nats) and `sample/literal_copies`; with an evidence also `sample/evidence` (nats)
        and `sample/structure_rate`; with programs of several tasks also `sample/valid_rate/TASK`,
        `sample/log_reward/TASK` (nats) and `sample/programs/TASK`; with terms of the reward also `terms/NAME`
        (mean value) and `terms/NAME_programs` (how many have one).
    """
    total = added_up(ranks)
    metrics = {
        # the ranks' windows are of the same time
        "perf/programs_per_second": total.programs / (total.elapsed / len(ranks)),
        "perf/sampling_share": total.sampling_seconds / total.elapsed,
        "perf/in_flight": float(total.in_flight),
        "perf/worker_restarts": float(total.restarts),
    }
    metrics |= queue_metrics(total.queue, total.elapsed)
    if total.scored:
        metrics["replay/ratio"] = total.trained / total.scored
    metrics |= {f"failures/{category}": float(count) for category, count in total.failures.items()}
    for name, term in sorted(total.terms.items()):
        metrics[f"terms/{name}"] = term.value / term.programs
        metrics[f"terms/{name}_programs"] = float(term.programs)
    if not total.programs:
        return metrics
    metrics |= {
        "sample/valid_rate": total.evidences / total.programs,
        "sample/log_reward": total.log_reward / total.programs,
        "sample/literal_copies": total.copying / total.programs,
    }
    if total.evidences:
        metrics |= {
            "sample/evidence": total.evidence / total.evidences,
            "sample/structure_rate": len(total.structures) / total.evidences,
        }
    return metrics | _task_metrics(total.tasks)


def log_metrics(module: LightningModule, metrics: Mapping[str, float]) -> None:
    """Logs metrics, some of them on the progress bar too.

    Args:
        module: The run's module, which logs them.
        metrics: By name; the same on all ranks.
    """
    for name, value in metrics.items():
        module.log(name, value)
        if name in ON_THE_BAR:
            module.log(ON_THE_BAR[name], value, prog_bar=True, logger=False)


def _task_metrics(tasks: Mapping[str, TaskSums]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, sums in sorted(tasks.items()) if len(tasks) > 1 else ():
        metrics[f"sample/valid_rate/{name}"] = sums.scored / sums.programs
        metrics[f"sample/log_reward/{name}"] = sums.log_reward / sums.programs
        metrics[f"sample/programs/{name}"] = float(sums.programs)
    return metrics

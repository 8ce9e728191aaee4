"""Whether training comes to its target, stays diverse, and learns from what is still current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.learning.loops import is_log_step
from synthstats_lightning.metrics import (
    GroupedVariance,
    ImportanceLogZ,
    Moments,
    PrefixCollapse,
    StructureDiversity,
)
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import on_policy
from synthstats_lightning.replay import Trajectory, TrajectoryBatch, collate, composition, empty_batch
from synthstats_lightning.reports.shares import log_target_ratios
from synthstats_lightning.runtime.distributed import gather_objects
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.scoring.reward import Reward

PROGRAMS_PER_PASS = 32


class TrainingMetrics(Callback):
    """Logs how balanced the policy is, what it writes, and what it learns from; over all ranks together.

    With every log: `balance/residual_mean` and `balance/residual_std` (nats; log Z minus
    `Objective.log_target_ratio` of the replayed programs since the last log), `replay/drawn_age` (training
    steps since they were sampled), and what `ReplayBuffer.composition` says of the buffers of all ranks
    together, as `replay/…`: a program that several of them hold counts as often.

    Every `every_n_steps`, from fresh programs at temperature 1: `fresh/log_ratio_variance` (nats²; of
    `Objective.log_target_ratio` within a task, 0 at the target), `fresh/log_z_importance/TASK` (nats; log Z
    by importance sampling) with its error `fresh/log_z_importance_se/TASK` and
    `fresh/effective_sample_size/TASK` (programs),
    `fresh/log_z_gap/TASK` (nats; log Z as learned when the programs were drawn, minus that),
    `fresh/valid_rate`, `fresh/structures`, `fresh/effective_structures`, `fresh/top_mass` (share of the
    commonest `top`), `fresh/tokens` and `fresh/length_drift` (tokens; mean length, and by how much it exceeds
    that of the first round), `fresh/stop_drift` (nats; mean over prefixes of log π(stop) minus the
    reference's: above 0 programs tend to end early, below 0 to go on), `fresh/prefix_collapse_K` (probability
    that two programs begin with the same K tokens).

    Fresh programs are scored by the workers of `ProgramScoring` while training goes on, and logged when the
    last has its score, at the latest when the next round is due; on several ranks always then, so that all
    log at the same step. Training never waits for them, unless it is synchronous: what has no score by then
    is left out.

    Args:
        every_n_steps: Training steps between rounds of fresh programs; 0 is never, and with `None` nothing
            at all is logged.
        num_programs: Fresh programs per task, round and rank.
        top: Structures whose mass is logged.
        prefix_lengths: Tokens of the prefixes that are compared.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        num_programs: int = 64,
        top: int = 5,
        prefix_lengths: Sequence[int] = (8, 32, 64),
    ) -> None:
        if every_n_steps is not None and every_n_steps < 0:
            raise ValueError(f"every_n_steps must be at least 0, got {every_n_steps}")
        if num_programs < 2:
            raise ValueError(f"num_programs must be at least 2, got {num_programs}")
        self.every_n_steps = every_n_steps
        self.num_programs = num_programs
        self.diversity = StructureDiversity(top)
        self.prefixes = PrefixCollapse(prefix_lengths)
        self.residual, self.age = Moments(), Moments()
        self.tokens, self.stop_drift = Moments(), Moments()
        self._first_length: float | None = None
        self._pending: list[PendingProgram] = []
        self._learned: list[float] = []
        self._rewards: list[Reward] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Moves the metrics to where processes exchange their sums.

        Raises:
            TypeError: If there is no `GFlowNetModule` or no `ProgramScoring` in the run.
        """
        _, module = scoring_and_module(trainer, pl_module, self)
        metrics = self.diversity, self.prefixes, self.residual, self.age, self.tokens, self.stop_drift
        for metric in metrics:
            metric.to(module.device)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Takes in a replayed batch; logs, and draws fresh programs, when it is time."""
        if self.every_n_steps is None:
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        step, ended = trainer.global_step, module.ended_step(trainer)
        self._take(module, batch, step - ended)
        if not ended:
            return
        if is_log_step(trainer):
            self._log_replay(scoring, trainer, module)
        due = self.every_n_steps > 0 and step % self.every_n_steps == 0
        if self._pending and (due or (trainer.world_size == 1 and _all_done(self._pending))):
            self._log_fresh(scoring, module)
        if due:
            settings, stream = on_policy(module.sampling), Stream.TRAINING_METRICS.at(step)
            self._pending = scoring.scorer.sample(trainer, module, self.num_programs, settings, stream)
            self._learned = module.log_z.per_task().tolist()
            self._rewards = [scoring.tempering.plain(task) for task in range(len(self._learned))]
            if scoring.synchronous:
                self._log_fresh(scoring, module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forgets a round that training did not wait for."""
        self._pending = []

    def _take(self, module: GFlowNetModule, batch: TrajectoryBatch, step: int) -> None:
        if module.batch_residual is not None:
            # a batch with a number that is not finite is no step, see `SkippedSteps`
            self.residual.update(module.batch_residual[module.batch_residual.isfinite()])
        self.age.update(step - batch.step)

    def _log_replay(self, scoring: ProgramScoring, trainer: Trainer, module: GFlowNetModule) -> None:
        residual, age = self.residual.compute(), self.age.compute()
        values = {
            "balance/residual_mean": residual.mean,
            "balance/residual_std": residual.std,
            "replay/drawn_age": age.mean,
        }
        contents = gather_objects(scoring.buffer(trainer).contents(trainer.global_step))
        stored = composition(contents)
        _log(module, values | {f"replay/{name}": value for name, value in stored.items()})
        self.residual.reset()
        self.age.reset()

    def _log_fresh(self, scoring: ProgramScoring, module: GFlowNetModule) -> None:
        programs = self._scored(scoring)
        if not sum(gather_objects(len(programs))):
            return
        tasks = [task.name for task in scoring.scorer.tasks]
        records = [scoring.record(item, self._rewards[item.task_index]) for item in programs]
        task_index = [item.task_index for item in programs]
        index = torch.tensor(task_index, dtype=torch.int64, device=module.device)
        log_weight = torch.from_numpy(log_target_ratios(records, module.objective)).to(module.device)
        importance = ImportanceLogZ(len(tasks)).to(module.device)
        variance = GroupedVariance(len(tasks)).to(module.device)
        importance.update(log_weight, index)
        counted = log_weight.isfinite()  # failed programs are no part of the target
        variance.update(log_weight[counted], index[counted])
        structures = [record.score.structure if record.score.scored else None for record in records]
        self.diversity.update(structures, index.tolist())
        self._take_tokens(scoring, module, programs)
        estimate, diversity = importance.compute(), self.diversity.compute()
        values: dict[str, Any] = {f"fresh/{name}": value for name, value in diversity._asdict().items()}
        # of one task torchmetrics makes numbers without an axis
        log_z, error, size, _ = (column.reshape(-1) for column in estimate)
        for number, task in enumerate(tasks):
            values[f"fresh/effective_sample_size/{task}"] = size[number]
            if not bool(log_z[number].isfinite()):
                continue  # no program has a score
            values[f"fresh/log_z_importance/{task}"] = log_z[number]
            values[f"fresh/log_z_importance_se/{task}"] = error[number]
            values[f"fresh/log_z_gap/{task}"] = self._learned[number] - log_z[number]
        for length, value in zip(self.prefixes.lengths, self.prefixes.compute().reshape(-1), strict=True):
            values[f"fresh/prefix_collapse_{length}"] = value
        tokens = float(self.tokens.compute().mean)
        self._first_length = tokens if self._first_length is None else self._first_length
        values["fresh/log_ratio_variance"] = variance.compute()
        values["fresh/tokens"] = tokens
        values["fresh/length_drift"] = tokens - self._first_length
        values["fresh/stop_drift"] = self.stop_drift.compute().mean
        _log(module, values)
        for metric in (self.diversity, self.prefixes, self.tokens, self.stop_drift):
            metric.reset()

    def _scored(self, scoring: ProgramScoring) -> list[PendingProgram]:
        """The fresh programs that are logged; workers pass over the others from now on."""
        programs, self._pending = self._pending, []
        if scoring.synchronous:
            return programs
        done = [item.score.done() for item in programs]
        for item, is_done in zip(programs, done, strict=True):
            if not is_done:
                scoring.scorer.withdraw(item)
        return [item for item, is_done in zip(programs, done, strict=True) if is_done]

    def _take_tokens(
        self, scoring: ProgramScoring, module: GFlowNetModule, programs: list[PendingProgram]
    ) -> None:
        encode = module.loaded_policy.encode_prompt
        prompts = {number: tuple(encode(*prompt)) for number, prompt in enumerate(scoring.scorer.prompts)}
        priors = {
            number: tuple(encode(*prompt.prior))
            for number, prompt in enumerate(scoring.scorer.prompts)
            if prompt.data
        }
        rows = [Trajectory(item.task_index, item.program_ids, 0.0, 0.0, runs=item.runs) for item in programs]
        if not rows:
            # lists of every rank must hold a tensor, or the metric's ranks would not meet
            none = empty_batch().to(module.device)
            self.prefixes.update(none.program_ids, none.program_mask, none.task_index)
        for start in range(0, len(rows), PROGRAMS_PER_PASS):
            part = rows[start : start + PROGRAMS_PER_PASS]
            batch = collate(part, prompts, prior_prompts=priors).to(module.device)
            self.tokens.update(batch.written.sum(1))
            self.prefixes.update(batch.program_ids, batch.program_mask, batch.task_index)
            self.stop_drift.update(stop_drift(module, batch))

    def state_dict(self) -> dict[str, Any]:
        """The length from which the drift is counted."""
        return {"first_length": self._first_length}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` saved."""
        self._first_length = state_dict["first_length"]


@torch.no_grad()
def stop_drift(module: GFlowNetModule, batch: TrajectoryBatch) -> Tensor:
    """Log π(stop) minus that of the reference policy, in nats, at every prefix where stopping is allowed.

    Args:
        module: Whose policy it is.
        batch: Fresh programs with their prompts.

    Returns:
        One number for each token of each program, in one row.
    """
    policy, minimum = module.loaded_policy, module.sampling.min_new_tokens
    given = batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask
    options: dict[str, Any] = {"min_new_tokens": minimum, "own_mask": batch.own_mask}
    with policy.evaluating():
        own = policy.token_and_stop_log_probs(*given, **options).stop
        prior_ids, prior_mask = batch.prior_prompts
        given = prior_ids, batch.program_ids, batch.program_mask, prior_mask
        with policy.reference():
            reference = policy.token_and_stop_log_probs(*given, **options).stop
    return (own - reference)[batch.written & own.isfinite() & reference.isfinite()]


def _all_done(programs: list[PendingProgram]) -> bool:
    return all(item.score.done() for item in programs)


def _log(module: GFlowNetModule, values: dict[str, Any]) -> None:
    """The values are the same on every rank, where other callbacks may decide by them."""
    for name, value in values.items():
        module.log(name, value, batch_size=1)

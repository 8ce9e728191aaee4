"""The top row of the design's flow: sample programs, have them scored, feed the replay buffer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from synthstats_lightning.callbacks.beginnings import draw_beginnings
from synthstats_lightning.callbacks.demonstrations import add_demonstrations
from synthstats_lightning.callbacks.evaluation import evaluation_metrics
from synthstats_lightning.callbacks.records import ProgramRecord, ProgramRecords
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.confinement import Level, check_level
from synthstats_lightning.distributed import gather_objects, own_state
from synthstats_lightning.module import PROGRAMS, GFlowNetModule
from synthstats_lightning.policy import SampledPrograms, SamplingSettings, annealed
from synthstats_lightning.policy.sampling import stream_seed
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.replay import Demonstration, ReplayBuffer
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.schedule import RewardSchedule
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task

REROLL_STREAM = 2**44
"""Programs with rewritten ends come from streams that nothing else uses."""


class ProgramScoring(Callback):
    """Samples programs from the policy, scores them in worker processes and adds them to the replay buffer.

    By default training never waits for scores: whatever is finished after a training step joins the buffer.
    With
    `synchronous` every step's programs are scored before the next step, which makes runs exactly repeatable.

    Args:
        reward: From a score to what the objective sees.
        programs_per_step: Programs sampled per task and sampling round.
        every_n_steps: Training steps between sampling rounds.
        warmup_programs: Programs per task that are scored before the first training step.
        synchronous: Whether a sampling round waits for its scores.
        max_in_flight: Programs that may wait for a score; a sampling round is skipped while more do.
        num_workers: Sandbox workers, each with a single-threaded scoring process; by default one less than
            the
            cores this process may use, at least one.
        sampling: Temperature, exploration and length of training samples; the module's own by default.
        anneal_steps: Training steps over which the temperature of training samples goes, linearly, from that
            of `sampling` to the module's own, and its other exploration to none; 0 keeps them.
        reward_schedule: How `beta` and `prior_weight` of the reward come to their final values; they have
            them from the start by default.
        reroll_fraction: Share of a sampling round, from 0 to 1, that are good programs of the buffer with
            their ends written anew: drawn by reward priority, cut at a uniformly drawn token. For balance
            objectives; 0 by default.
        limits: Of the sandbox.
        sandbox: How strictly the kernel confines programs: `strict`, `standard` (interpreter's files may be
            read), `plus` (namespaces as well) or `none` (not at all, with a warning).
        engine: Of the scoring engine.
        score_cache: File of scores, made if need be, that outlives the run and that several runs on one
            machine may share: an equal program of an equal task is scored once. None by default.
        buffer: The replay buffer; by default the data module's `buffer`.
        tasks: The tasks; by default the data module's `tasks`.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self,
        reward: Reward | None = None,
        programs_per_step: int = 64,
        every_n_steps: int = 1,
        warmup_programs: int = 128,
        synchronous: bool = False,
        max_in_flight: int = 256,
        num_workers: int | None = None,
        sampling: SamplingSettings | None = None,
        anneal_steps: int = 0,
        reward_schedule: RewardSchedule | None = None,
        reroll_fraction: float = 0.0,
        limits: SandboxLimits | None = None,
        sandbox: Level = "strict",
        engine: EngineSettings | None = None,
        score_cache: str | None = None,
        buffer: ReplayBuffer | None = None,
        tasks: Sequence[Task] | None = None,
    ) -> None:
        for name, value in {
            "programs_per_step": programs_per_step,
            "every_n_steps": every_n_steps,
            "warmup_programs": warmup_programs,
            "max_in_flight": max_in_flight,
            "num_workers": 1 if num_workers is None else num_workers,
        }.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if anneal_steps < 0:
            raise ValueError(f"anneal_steps must be at least 0, got {anneal_steps}")
        if not 0 <= reroll_fraction <= 1:
            raise ValueError(f"reroll_fraction must be from 0 to 1, got {reroll_fraction}")
        self.reward = reward or Reward()
        self.reward_schedule = reward_schedule or RewardSchedule()
        self.reward_schedule.at(self.reward, 0)  # what it cannot start from is an error here
        self.reroll_fraction = reroll_fraction
        self.programs_per_step = programs_per_step
        self.every_n_steps = every_n_steps
        self.warmup_programs = warmup_programs
        self.synchronous = synchronous
        self.max_in_flight = max_in_flight
        self.num_workers = num_workers
        self.sampling = sampling
        self.anneal_steps = anneal_steps
        self.limits = limits
        self.sandbox = check_level(sandbox)
        self.engine = engine
        self.score_cache = score_cache
        self.records = ProgramRecords()
        self.failures: Counter[FailureCategory] = Counter()
        self._given_buffer = buffer
        self._given_tasks = tasks
        self._scorer: SampleScorer | None = None
        self._pending: list[PendingProgram] = []
        self._restored: list[tuple[Any, ...]] = []
        self._present = self.reward
        self._sharing: ReplayBuffer | None = None
        self._stream = 0
        self._evaluated: dict[int, list[ProgramRecord]] = {}
        self._window = _Window()

    @property
    def scorer(self) -> SampleScorer:
        """The workers and what they score.

        Raises:
            RuntimeError: Outside of a run.
        """
        if self._scorer is None:
            raise RuntimeError("the scoring workers run only between setup and teardown")
        return self._scorer

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Starts the workers and scores each task's baseline program.

        Raises:
            TypeError: If the module is not a `GFlowNetModule`, or neither the arguments nor the data module
                give
                tasks.
            RuntimeError: If a baseline program has no score.
        """
        _module(pl_module)
        tasks = self._given_tasks
        if tasks is None:
            tasks = getattr(getattr(trainer, "datamodule", None), "tasks", None)
        if tasks is None:
            raise TypeError(
                "ProgramScoring needs `tasks`: pass them, or use a data module with that attribute"
            )
        buffer = self._given_buffer
        if buffer is None:
            buffer = getattr(getattr(trainer, "datamodule", None), "buffer", None)
        self._sharing = buffer if buffer is not None and buffer.multiplicity == "program" else None
        if self._scorer is None and stage != "predict":
            self._scorer = SampleScorer(
                tasks, self.reward, self.num_workers, self.limits, self.engine, self.sandbox, self.score_cache
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends the workers."""
        self.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Ends the workers."""
        self.close()

    def close(self) -> None:
        """Ends every worker process; safe to call twice."""
        if self._scorer is not None:
            self._scorer.close()
            self._scorer = None

    # --- training

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Registers prompts, takes up what a checkpoint left without a score, and fills the buffer."""
        module = _module(pl_module)
        buffer = self.buffer(trainer)
        for index, prompt in enumerate(self.scorer.prompts):
            buffer.register_prompt(index, module.loaded_policy.encode_prompt(prompt.rules, prompt.request))
        for record in self.records:
            self.scorer.remember(record)
        self._pending += [self.scorer.resubmit(*fields) for fields in self._restored]
        self._restored = []
        self._retemper(trainer)
        given: list[Demonstration] = getattr(getattr(trainer, "datamodule", None), "demonstrations", [])
        for record in add_demonstrations(
            given, self.scorer, module, buffer, self._present, trainer.global_step
        ):
            self.records.add(record)
        missing = self.warmup_programs - buffer.added // len(self.scorer.tasks)
        if missing > 0:
            self._sample_round(trainer, module, missing)
            self._harvest(trainer, wait=True)
        self._window = _Window()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Takes finished scores into the buffer and samples the next programs."""
        module = _module(pl_module)
        self._retemper(trainer)
        self._harvest(trainer, wait=False)
        if trainer.global_step % self.every_n_steps == 0 and len(self._pending) <= self.max_in_flight:
            self._sample_round(trainer, module, self.programs_per_step)
            self._harvest(trainer, wait=self.synchronous)
        if trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
            self._log_window(module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Waits for the programs that are still being scored, so that none is lost."""
        if not trainer.interrupted:
            self._harvest(trainer, wait=True)
        self._present = self.reward

    def record(self, program: PendingProgram) -> ProgramRecord:
        """Waits for a program's score and rewards it as the objective would at present.

        Its log reward is that of the present temperature, and shared among spellings where the buffer says
        so; that of `records` is of the final temperature and never shared.

        Args:
            program: The program.
        """
        if self._present == self.reward:
            record = self.scorer.record(program)
        else:
            record = self.scorer.record(program, self._present)
        if self._sharing is not None:
            canonical = record.score.canonical if record.score.scored else None
            record.log_reward -= self._sharing.log_spellings(program.task_index, canonical or "")
        return record

    def _retemper(self, trainer: Trainer) -> None:
        present = self.reward_schedule.at(self.reward, trainer.global_step)
        if present != self._present:
            self._present = present
            self.buffer(trainer).retemper(present.blend)

    def buffer(self, trainer: Trainer) -> ReplayBuffer:
        """The buffer that programs go to.

        Args:
            trainer: Whose data module has it, unless it was given.

        Raises:
            TypeError: If there is none.
        """
        buffer = self._given_buffer
        if buffer is None:
            buffer = getattr(getattr(trainer, "datamodule", None), "buffer", None)
        if buffer is None:
            raise TypeError(
                "ProgramScoring needs `buffer`: pass it, or use a data module with that attribute"
            )
        return buffer

    def _sample_round(self, trainer: Trainer, module: GFlowNetModule, num_samples: int) -> None:
        started = time.perf_counter()
        step, buffer, tasks = trainer.global_step, self.buffer(trainer), len(self.scorer.tasks)
        settings = self._training_settings(module.sampling, step)
        programs: list[PendingProgram] = []
        rerolled = round(self.reroll_fraction * num_samples)
        if rerolled:
            stream = REROLL_STREAM + self._stream
            generator = np.random.default_rng(stream_seed(module.seed, module.global_rank, stream))
            shortest = module.sampling.min_new_tokens
            beginnings = draw_beginnings(buffer, tasks, rerolled, shortest, generator)
            beginnings = [item for item in beginnings if len(item[1]) < settings.max_new_tokens]
            if beginnings:
                programs += self.scorer.reroll(trainer, module, beginnings, settings, stream)
                num_samples -= rerolled
        if num_samples:
            programs += self.scorer.sample(trainer, module, num_samples, settings, self._stream)
        self._pending += [program._replace(step=step) for program in programs]
        self._stream += 1
        self._window.sampling_seconds += time.perf_counter() - started

    def _training_settings(self, final: SamplingSettings, step: int) -> SamplingSettings:
        if self.sampling is None or not self.anneal_steps:
            return self.sampling or final
        return annealed(self.sampling, final.temperature, step / self.anneal_steps)

    def _harvest(self, trainer: Trainer, wait: bool) -> None:
        buffer = self.buffer(trainer)
        waiting = []
        for program in self._pending:
            if not (wait or program.score.done()):
                waiting.append(program)
                continue
            record = self.scorer.record(program)
            buffer.add(self.scorer.trajectory(program, record.score, self._present))
            self.records.add(record)
            self._window.records.append(record)
            if record.score.failure is not None:
                self.failures[record.score.failure] += 1
        self._pending = waiting

    def _log_window(self, module: GFlowNetModule) -> None:
        window, self._window = self._window, _Window()
        elapsed = time.perf_counter() - window.started
        programs = len(window.records)
        self._log(module, "perf/programs_per_second", programs / elapsed, bar="programs/s")
        module.log("perf/sampling_share", window.sampling_seconds / elapsed)
        module.log("perf/in_flight", float(len(self._pending)))
        module.log("perf/worker_restarts", float(self.scorer.pool.worker_restarts))
        for category, count in self.failures.items():
            module.log(f"failures/{category}", float(count))
        for name, way in asdict(self.reward_schedule).items():
            if way is not None:
                module.log(f"reward/{name}", getattr(self._present, name))
        if not programs:
            return
        evidence = [record.score.evidence for record in window.records if record.score.evidence is not None]
        self._log(module, "sample/valid_rate", len(evidence) / programs, bar="valid")
        log_reward = float(np.mean([record.log_reward for record in window.records]))
        self._log(module, "sample/log_reward", log_reward, bar="reward")
        copying = sum(record.score.literal_copies > 0 for record in window.records)
        module.log("sample/literal_copies", copying / programs)
        if evidence:
            self._log(module, "sample/evidence", float(np.mean(evidence)), bar="evidence")
            structures = {record.score.structure for record in window.records if record.score.scored}
            module.log("sample/structure_rate", len(structures) / len(evidence))

    @staticmethod
    def _log(module: GFlowNetModule, name: str, value: float, bar: str) -> None:
        """To the logger under the full name, to the progress bar under a short one."""
        module.log(name, value)
        module.log(bar, value, prog_bar=True, logger=False)

    # --- evaluation

    def evaluate(
        self, trainer: Trainer, module: GFlowNetModule, num_samples: int, stream: int
    ) -> dict[int, list[ProgramRecord]]:
        """Samples fresh programs at the module's own sampling settings and scores them.

        Args:
            trainer: For its precision.
            module: Whose policy is evaluated.
            num_samples: Programs a task.
            stream: Number of the random stream.

        Returns:
            Task index to one record a sample.
        """
        return self._by_task(self.scorer.sample(trainer, module, num_samples, module.sampling, stream))

    def _by_task(self, programs: list[PendingProgram]) -> dict[int, list[ProgramRecord]]:
        rows: dict[int, list[ProgramRecord]] = {}
        for program in programs:
            rows.setdefault(program.task_index, []).append(self.record(program))
        return rows

    def _collect(self, outputs: SampledPrograms) -> None:
        for index, records in self._by_task(self.scorer.submit(outputs)).items():
            self._evaluated.setdefault(index, []).extend(records)

    def _log_evaluation(self, pl_module: LightningModule, stage: str) -> None:
        module = _module(pl_module)
        evaluated, self._evaluated = self._evaluated, {}
        for index, records in sorted(evaluated.items()):
            suffix = f"/{self.scorer.tasks[index].name}" if len(self.scorer.tasks) > 1 else ""
            metrics = evaluation_metrics(records, module.learned_log_z(index))
            named = {f"{stage}/{name}{suffix}": value for name, value in metrics.items()}
            module.log_dict(named, sync_dist=True, batch_size=1)
            failures = Counter(record.score.failure for record in records if record.score.failure is not None)
            for category, count in failures.items():
                rank_zero_info(f"{stage}{suffix}: {count} of {len(records)} programs failed: {category}")

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Scores a batch of fresh programs."""
        self._collect(outputs[PROGRAMS])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs `val/...`."""
        self._log_evaluation(pl_module, "val")

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Scores a batch of fresh programs."""
        self._collect(outputs[PROGRAMS])

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs `test/...`."""
        self._log_evaluation(pl_module, "test")

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """Stream, records and, of every rank, programs in flight, in primitive types."""
        return {
            "stream": self._stream,
            "records": self.records.to_json_lines(),
            "failures": {str(category): count for category, count in self.failures.items()},
            "in_flight": gather_objects([_plain(item) for item in self._pending]),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` saved."""
        self._stream = state_dict["stream"]
        self.records = ProgramRecords.from_json_lines(state_dict["records"])
        self.failures = Counter(
            {FailureCategory(key): count for key, count in state_dict["failures"].items()}
        )
        self._restored = list(own_state(state_dict["in_flight"], "programs in flight"))


class _Window:
    """What happened since the last time metrics were logged."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.sampling_seconds = 0.0
        self.records: list[ProgramRecord] = []


def _plain(item: PendingProgram) -> tuple[Any, ...]:
    """What `SampleScorer.resubmit` takes."""
    ids = list(item.program_ids)
    return (item.task_index, item.source, ids, item.log_prob, item.reference_log_prob, item.step)


def _module(pl_module: LightningModule) -> GFlowNetModule:
    if not isinstance(pl_module, GFlowNetModule):
        raise TypeError(f"ProgramScoring needs a GFlowNetModule, got {type(pl_module).__name__}")
    return pl_module

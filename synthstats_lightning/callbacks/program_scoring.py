"""The top row of the design's flow: sample programs, have them scored, feed the replay buffer."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from synthstats_lightning.callbacks.agreement import check_agreement
from synthstats_lightning.callbacks.allocation import allocated
from synthstats_lightning.callbacks.course.prompt_examples import show_examples
from synthstats_lightning.callbacks.course.reward_tempering import RewardTempering
from synthstats_lightning.callbacks.course.warmup_draws import WarmupDraws
from synthstats_lightning.callbacks.demonstrations import add_demonstrations, given_demonstrations
from synthstats_lightning.callbacks.exchange import BufferExchange
from synthstats_lightning.callbacks.findings.unscored import check_scored
from synthstats_lightning.callbacks.prefixes import draw_prefixes
from synthstats_lightning.callbacks.program_evaluation import ProgramEvaluation
from synthstats_lightning.callbacks.program_queue import ProgramQueue, Stale
from synthstats_lightning.callbacks.replay_ratio import ReplayRatio
from synthstats_lightning.callbacks.round_settings import check_counts, round_settings
from synthstats_lightning.callbacks.run_parts import (
    gflownet_module,
    register_prompts,
    required_buffer,
    run_buffer,
    run_folder,
    run_tasks,
    run_workers,
)
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.callbacks.window import Window, log_metrics, window_metrics
from synthstats_lightning.confinement import Level, check_level
from synthstats_lightning.learning.loops import is_ending, is_log_step
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.policy.sampling import stream_seed
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.replay import ReplayBuffer
from synthstats_lightning.reports.journal import RecordJournal
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.runtime.distributed import gather_objects, own_share, rank_and_size
from synthstats_lightning.runtime.interrupts import interruptible
from synthstats_lightning.runtime.random_state import random_state, set_random_state
from synthstats_lightning.runtime.rank_watch import RankWatch
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.schedule import ADAPTIVE, RewardSchedule
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task


class ProgramScoring(ProgramEvaluation):
    """Samples programs from the policy, scores them in worker processes and adds them to the replay buffer.

    By default training runs beside scoring: whatever is finished after a training step joins the buffer, and
    training waits only where it is ahead of the scores by more than `max_replay_ratio` allows. With
    `synchronous` a round's programs are scored before the next step: runs are exactly repeatable.

    For objectives on policy (GRPO, GSPO, RLOO) each round is drawn at temperature 1, without exploration, and
    training waits for its scores and learns from it alone.

    Args:
        reward: From a score to what the objective sees.
        programs_per_step: Programs sampled per task and sampling round; their mean over tasks where the data
            module has `task_weights`.
        every_n_steps: Training steps between sampling rounds.
        warmup_programs: Programs per task that are scored before the first training step.
        synchronous: Whether a sampling round waits for its scores.
        max_in_flight: Programs that may wait for a score; a sampling round is skipped while more do.
        max_age: Training steps after which a sampled program is stale; never by default.
        stale: Whether a stale program is dropped (`"drop"`), or stored and replayed less (`"store"`).
        drain_seconds: How long the end of training waits for the programs that are still being scored.
        num_workers: Sandbox workers of each process of the run, each with a single-threaded scoring process;
            by default one less than the process's share of the machine's cores, at least one.
        sampling: Temperature, exploration and length of training samples; the module's own by default.
        anneal_steps: Training steps over which the temperature of training samples goes, linearly, from that
            of `sampling` to the module's own, and its other exploration to none; 0 keeps them.
        reward_schedule: How `beta` and `prior_weight` of the reward come to their final values; by default
            `beta` as the spread of the scores allows, and `prior_weight` has it from the start.
        prefix_resampling_fraction: Share of a sampling round, from 0 to 1, that goes on from prefixes of good
            programs of the buffer, cut at a uniformly drawn token; for balance objectives.
        limits: What the sandbox lets a program use: memory, processor time, wall time, output.
        sandbox: How strictly the kernel confines programs: `strict`, `standard` (interpreter's files may be
            read), `plus` (namespaces as well) or `none` (not at all, with a warning).
        engine: Work on a program, and what is accepted; by default up to the score that the reward counts.
        score_cache: File of scores that outlives the run and that other runs may share; none by default.
        buffer: The replay buffer; by default the data module's `buffer`.
        tasks: The tasks; by default the data module's `tasks`.
        exchange_every_n_steps: On several processes, training steps between exchanges of what their buffers
            have stored since; 0 is never: each draws from its own shard.
        executor: Where programs are scored instead of on this machine, such as `executors.DaskExecutor`;
            `num_workers` has no effect then.
        max_records: Distinct programs whose scores are kept for `programs.jsonl`, and so that they are not
            computed again; beyond it the worst go.
        max_replay_ratio: Trajectories that training may take per scored program, on each process and since
            the run began. Where scoring falls behind, training waits, so that what is learned depends on how
            many programs were scored and not on what else the machine did; rounds are sampled meanwhile. By
            default the schedule's own ratio, so that a round that a full queue puts off is made up for;
            `.inf` never waits.
        require_scored: Whether a run ends at once, with a table of what became of its programs, where none
            of the warm-up, and none that it was given, has a score.
        warmup_candidates: Programs per task that are drawn for the warm-up, of which `warmup_programs` are
            scored, those of a structure that a digest of the data speaks for above all (`learning.screen`);
            weights stay exact. 0, and objectives on policy, score all that are drawn.
        max_programs: If given, distinct programs of all tasks that may be scored, failed ones too, shared by
            the processes; those of the report, and given ones, come on top. When they are used up, training
            goes on with what there is; with objectives on policy it ends. Not for episodes.

    Raises:
        ValueError: If a number is out of range.
    """

    scorer_type: type[SampleScorer] = SampleScorer

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
        reward_schedule: RewardSchedule = ADAPTIVE,
        prefix_resampling_fraction: float = 0.0,
        limits: SandboxLimits | None = None,
        sandbox: Level = "strict",
        engine: EngineSettings | None = None,
        score_cache: str | None = None,
        buffer: ReplayBuffer | None = None,
        tasks: Sequence[Task] | None = None,
        exchange_every_n_steps: int = 0,
        executor: Executor | None = None,
        max_age: int | None = None,
        stale: Stale = "store",
        drain_seconds: float = 300.0,
        max_records: int = 50_000,
        max_replay_ratio: float | None = None,
        require_scored: bool = True,
        warmup_candidates: int = 0,
        max_programs: int | None = None,
    ) -> None:
        candidates = {"warmup_candidates": warmup_candidates}
        check_counts(
            at_least_one={
                "programs_per_step": programs_per_step,
                "every_n_steps": every_n_steps,
                "warmup_programs": warmup_programs,
                "num_workers": num_workers,
                "max_programs": max_programs,
            },
            at_least_zero={"anneal_steps": anneal_steps, "drain_seconds": drain_seconds, **candidates},
            shares={"prefix_resampling_fraction": prefix_resampling_fraction},
        )
        super().__init__()
        self.reward = reward or Reward()
        self.reward_schedule = reward_schedule
        self.reward_schedule.at(self.reward, 0)  # what it cannot start from is an error here
        self.prefix_resampling_fraction = prefix_resampling_fraction
        self.programs_per_step = programs_per_step
        self.every_n_steps = every_n_steps
        self.warmup_programs = warmup_programs
        self.warmup_candidates = warmup_candidates
        self.max_programs = max_programs
        self.synchronous = synchronous
        self.drain_seconds = drain_seconds
        self.num_workers = num_workers
        self.sampling = sampling
        self.anneal_steps = anneal_steps
        self.limits = limits
        self.sandbox = check_level(sandbox)
        self.engine = engine
        self.score_cache = score_cache
        self.executor = executor
        self.exchange = BufferExchange(exchange_every_n_steps)
        self.max_records = max_records
        self.require_scored = require_scored
        self.journal = RecordJournal(ProgramRecords(capacity=max_records))
        self.failures: Counter[FailureCategory] = Counter()
        self._given_buffer = buffer
        self.given_tasks = tasks
        self._scorer: SampleScorer | None = None
        self.queue = ProgramQueue(max_in_flight, max_age, stale)
        self.warmup_draws = WarmupDraws()
        self.replay = ReplayRatio(max_replay_ratio)
        self._random_state: dict[str, Any] | None = None
        self.tempering = RewardTempering(self.reward, self.reward_schedule)
        self._sharing: ReplayBuffer | None = None
        self._stream = 0
        self._window = self.warmup_window = Window()
        self._watch: RankWatch | None = None
        self._interrupted = False
        self._ended = False

    @property
    def records(self) -> ProgramRecords:
        """The training samples of this rank, and at the end of the run, on the first rank, of all."""
        return self.journal.records

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
                give tasks.
            ValueError: If the module contradicts the reward or the sampling; see `check_agreement`.
            RuntimeError: If a baseline program has no score.
        """
        given = self.reward, self.reward_schedule, self.sampling, self.scorer_type.of_episodes
        check_agreement(gflownet_module(pl_module), *given)
        self._watch = self._watch or RankWatch()
        self._interrupted = False
        tasks = run_tasks(trainer, self.given_tasks)
        buffer = run_buffer(trainer, self._given_buffer)
        self._sharing = buffer if buffer is not None and buffer.multiplicity == "program" else None
        if self._scorer is None and stage != "predict":
            self._scorer = self.scorer_type(tasks, self.reward, *run_workers(self))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends the workers."""
        self.close()
        self.journal.close()
        self.tempering.health.log.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Writes what has a score by then, ends the workers and tells the other ranks, which end too."""
        self._interrupted = True
        try:
            with interruptible("what the run has not taken up of its last scores"):
                self.keep_unfinished()
        except OSError as error:
            print(f"error: the last programs may be missing in the run's folder: {error}", file=sys.stderr)
        self.close(exception)

    def close(self, error: BaseException | None = None) -> None:
        """Ends every worker process; safe to call twice.

        Args:
            error: Why the run ends before its time, for the other ranks.
        """
        if self._watch is not None:
            self._watch.close(error)
            self._watch = None
        if self._scorer is not None:
            self._scorer.close()
            self._scorer = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Registers prompts, takes up what a checkpoint left without a score, and fills the buffer."""
        module, buffer = gflownet_module(pl_module), self.buffer(trainer)
        register_prompts(buffer, self.scorer.tasks, self.scorer.prompts, module.loaded_policy)
        buffer.on_policy = module.objective.on_policy
        self._ended, folder = False, run_folder(trainer)
        if not trainer.fast_dev_run:  # type: ignore[attr-defined]
            self.journal.start(folder, *rank_and_size(), resumed=trainer.global_step > 0)
            self.tempering.health.open(folder, trainer)
        for record in self.records:
            self.scorer.remember(record)
        self.queue.resubmit(self.scorer)
        self.warmup_draws.resubmit(self.scorer)
        self.exchange.start(buffer)
        self.tempering.start(self.scorer.tasks, module, resumed=trainer.global_step > 0)
        self.tempering.follow_schedule(trainer.global_step, buffer)
        more = module, buffer, self.tempering.present, trainer.global_step
        for record in add_demonstrations(given_demonstrations(trainer), self.scorer, *more):
            self.journal.add(record)
        missing = self.warmup_programs - buffer.added // len(self.scorer.tasks)
        if missing > 0 and not (trainer.global_step > 0 and len(buffer) > 0):
            self._sample_round(trainer, module, missing, self.warmup_candidates / self.warmup_programs)
            self._harvest(trainer, seconds=None)
            self.replay.warmup = self.replay.scored
            if self.require_scored:
                check_scored([*self._window.records, *self.records], cut_off=self.queue.is_late())
        if trainer.global_step == 0:
            self.tempering.update(trainer, module, buffer)
        self.warmup_window, self._window = self._window, Window()
        self.queue.sums()
        if buffer.on_policy and trainer.global_step > 0:  # the run may have ended within a round
            if not (buffer.recent or len(self.queue)):
                self._sample_round(trainer, module, self.programs_per_step)
            self._harvest(trainer, seconds=None)
        if self._random_state is not None:
            set_random_state(self._random_state)
            self._random_state = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Takes finished scores into the buffer, samples the next programs and waits where it must."""
        module = gflownet_module(pl_module)
        self.tempering.follow_schedule(trainer.global_step, self.buffer(trainer))
        self._harvest(trainer)
        ended = module.ended_step(trainer)
        due = ended and trainer.global_step % self.every_n_steps == 0
        if due and self.scorer.budget.spent:
            trainer.should_stop |= module.objective.on_policy
        elif due and self.queue.has_room():
            self._sample_round(trainer, module, self.programs_per_step)
            self._harvest(trainer, None if self.synchronous or module.objective.on_policy else 0.0)
        if due:
            self.tempering.update(trainer, module, self.buffer(trainer))
        self.replay.train(len(batch))
        self._wait_for_scores(trainer, module)
        if ended:
            self.exchange.step(self.buffer(trainer), trainer.global_step)
            if is_log_step(trainer):
                self._log_window(module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Waits for the programs that are still being scored, so that none is lost."""
        if not trainer.interrupted and not self._ended:
            self._ended = True
            self._harvest(trainer, seconds=self.drain_seconds)
            if (left := self.queue.withdraw(self.scorer)) and not self.queue.is_late():
                rank_zero_warn(
                    f"{left} programs still had no score {self.drain_seconds:g} seconds after the last"
                    " training step"
                )
        self.sync()
        self.tempering.end()

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Brings the programs of all ranks into the file, and the records, of the first one."""
        self.journal.gather()

    def record(self, program: PendingProgram, reward: Reward | None = None) -> ProgramRecord:
        """Waits for a program's score and rewards it as the present target does, without the floor.

        Its log reward is that of the present temperature, and shared among texts where the buffer says
        so; that of `records` is of the final temperature and never shared.

        Args:
            program: The program whose score has come.
            reward: The plain reward of another moment; the present one by default.
        """
        record = self.scorer.record(program, reward or self.tempering.plain(program.task_index))
        if self._sharing is not None:
            canonical = record.score.canonical if record.score.scored else None
            record.log_reward -= self._sharing.log_num_texts(program.task_index, canonical or "")
        return record

    def buffer(self, trainer: Trainer) -> ReplayBuffer:
        """The buffer that programs go to.

        Args:
            trainer: Whose data module has it, unless it was given.

        Raises:
            TypeError: If there is none.
        """
        return required_buffer(trainer, self._given_buffer)

    def _sample_round(self, trainer: Trainer, module: GFlowNetModule, number: int, blind: float = 1) -> None:
        started, step = time.perf_counter(), trainer.global_step
        buffer, tasks = self.buffer(trainer), len(self.scorer.tasks)
        show_examples(self.scorer, self.records, buffer, module)
        settings = round_settings(module, self.sampling, self.anneal_steps, step)
        programs: list[PendingProgram] = []
        if on_policy := module.objective.on_policy:
            buffer.start_round()
        draw_more = blind > 1 and not on_policy
        resampled = 0 if on_policy else round(self.prefix_resampling_fraction * number)
        if prefixes := draw_prefixes(buffer, tasks, resampled, module, settings, self._stream):
            stream = Stream.PREFIX_RESAMPLING.at(self._stream)
            programs += self.scorer.resample_suffixes(trainer, module, prefixes, settings, stream)
            number -= resampled
        if number:
            seed = stream_seed(module.seed, module.global_rank, Stream.ALLOCATION.at(self._stream))
            numbers = allocated(trainer, number, tasks, seed)
            given = trainer, module, numbers, settings, Stream.TRAINING.at(self._stream)
            programs += self.scorer.screen(*given, blind) if draw_more else self.scorer.sample(*given)
        if step == 0 and not (resampled or draw_more):
            self.warmup_draws.take(programs, settings)
        self.queue.add(program.drawn_at(step) for program in programs)
        self._stream += 1
        self._window.sampling_seconds += time.perf_counter() - started

    def _wait_for_scores(self, trainer: Trainer, module: GFlowNetModule) -> None:
        """Waits until the next batch keeps the replay ratio; this rank goes by its own counts alone."""
        if 0 <= trainer.max_steps <= trainer.global_step or self.scorer.budget.spent:
            return  # there is no next batch, or no score to wait for
        per_round = self.programs_per_step * len(self.scorer.tasks)
        per_batch = per_round / (self.every_n_steps * trainer.accumulate_grad_batches)
        leeway = self.queue.max_in_flight + per_round
        while self.replay.ahead(per_batch, leeway) and not (is_ending(trainer) or self.queue.is_late()):
            if len(self.queue) <= self.queue.max_in_flight:
                self._sample_round(trainer, module, self.programs_per_step)
            if message := self.replay.waited(self.queue.wait_for_one(1.0), per_batch):
                rank_zero_info(message)
            self._harvest(trainer)

    def _harvest(self, trainer: Trainer, seconds: float | None = 0.0) -> None:
        buffer, step, present = self.buffer(trainer), trainer.global_step, self.tempering.present
        for program in self.queue.take(seconds):
            stale = self.queue.is_stale(program, step)
            if stale and self.queue.stale == "drop":
                continue
            record = self.scorer.record(program)
            trajectory = self.scorer.trajectory(program, record.score, present(program.task_index))
            buffer.merge([trajectory]) if stale else buffer.add(trajectory)
            self.tempering.observe(program, trajectory, buffer)
            self.keep(program, record)
            self.replay.scored += 1
            self._window.records.append(replace(record, log_reward=trajectory.log_reward))
            self.failures.update([failure] if (failure := record.score.failure) else [])
        self.queue.drop_stale(step, self.scorer)

    def keep(self, program: PendingProgram, record: ProgramRecord) -> None:
        """Takes a scored training sample into the run's records."""
        self.journal.add(record)

    def keep_unfinished(self) -> None:
        """When the run ends before its time: writes the programs in the queue that have a score by then."""
        self.journal.close(self.scorer.record(program) for program in self.queue.scored())

    def note(self, program: PendingProgram) -> None:
        """Writes a scored program that is no training sample to the run's file, and remembers it later.

        Args:
            program: It has a score.
        """
        task = self.scorer.tasks[program.task_index].name
        if not self.journal.holds(task, program.source):
            self.journal.note(self.scorer.record(program))

    def sync(self) -> None:
        """Waits until every program that has left the queue is on the disk."""
        self.journal.sync()

    def _log_window(self, module: GFlowNetModule) -> None:
        self.sync()  # before any score is logged
        window, self._window = self._window, Window()
        failures = {str(category): count for category, count in self.failures.items()}
        sums = window.sums(len(self.queue), self.scorer.pool.worker_restarts, failures)
        trained, scored, _ = self.replay.state()
        sums = sums._replace(queue=self.queue.sums(), trained=trained, scored=scored)
        log_metrics(module, window_metrics(gather_objects(sums)) | self.tempering.metrics())

    def state_dict(self) -> dict[str, Any]:
        """Of every rank, stream, records and programs in flight, in primitive types."""
        own = {
            "stream": self._stream,
            "records": self.records.to_json_lines(),
            "failures": {str(category): count for category, count in self.failures.items()},
            "in_flight": self.queue.state(),
            "warmup": self.warmup_draws.state(),
            "exchanged": self.exchange.state(),
            "replay": self.replay.state(),
            "random_state": random_state(),
            "tempering": self.tempering.state(),
            "skipped_rounds": self.queue.skipped_rounds,
            "stale_programs": self.queue.stale_programs,
        }
        # after an exception the other ranks may not come
        return {"ranks": [own] if self._interrupted else gather_objects(own)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` saved, dealt anew where the number of processes has changed."""
        ranks = state_dict["ranks"]
        rank, size = rank_and_size()
        own = ranks[rank] if len(ranks) == size else None
        self._stream = own["stream"] if own else max(item["stream"] for item in ranks)
        # with other processes than before, the first one keeps the run's records and counts
        kept = [own] if own else ranks if rank == 0 else []
        self.journal = RecordJournal(ProgramRecords(capacity=self.max_records))
        self.failures, self.queue.skipped_rounds, self.queue.stale_programs = Counter(), 0, 0
        for item in kept:
            for record in ProgramRecords.from_json_lines(item["records"]):
                self.records.add(record)
            self.failures.update({FailureCategory(key): count for key, count in item["failures"].items()})
            self.queue.skipped_rounds += item.get("skipped_rounds", 0)
            self.queue.stale_programs += item.get("stale_programs", 0)
        self.queue.restore(own_share([item["in_flight"] for item in ranks]))
        self.warmup_draws.restore([item.get("warmup", ({}, [])) for item in ranks])
        self._random_state = ranks[rank % len(ranks)].get("random_state")
        self.replay.restore([item.get("replay", (0, 0, 0)) for item in ranks])
        self.exchange.restore([item["exchanged"] for item in ranks])
        self.tempering.restore([item["tempering"] for item in ranks])

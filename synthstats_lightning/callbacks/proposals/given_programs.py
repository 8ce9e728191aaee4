"""Programs that the policy did not write, from the workers into replay while the run trains."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import wait

from lightning.pytorch import Trainer

from synthstats_lightning.callbacks.demonstrations import GivenProgram, scored_programs
from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.replay import ReplayBuffer, Trajectory
from synthstats_lightning.runtime.single_precision import is_finite

TOO_LONG, NOT_WRITABLE, KNOWN, IMPOSSIBLE = "too_long", "not_writable", "known", "impossible"
"""Programs that came and are not taken: longer than the policy may write, not spelled by its tokens, in the
buffer already, or of probability 0."""
UNPAID = "beyond_max_programs"
"""Programs that the run's limit on scored programs leaves out."""


class GivenPrograms:
    """Programs on their way to a score, and what became of those that were given.

    Attributes:
        failures: Why programs were not taken, and how often.
        added: Programs that replay got.
    """

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.added = 0
        self._waiting: list[GivenProgram] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(
        self,
        scoring: ProgramScoring,
        module: GFlowNetModule,
        buffer: ReplayBuffer | None,
        task_index: int,
        source: str,
        named: str,
        origin: str,
    ) -> None:
        """Hands a program to the workers if the policy could have written it and replay has it not.

        Args:
            scoring: The run's scoring callback.
            module: Whose policy's tokens it is spelled with.
            buffer: The replay buffer; `None` where it is still empty.
            task_index: Position of the program's task.
            source: Source text of the program.
            named: What a message calls it.
            origin: Where it comes from, in records.
        """
        policy, limit = module.loaded_policy, module.sampling.max_new_tokens
        facts = scoring.scorer.prompts[task_index].facts
        ids = tuple(policy.encode_program(source, facts))
        row = Trajectory(task_index, ids, 0.0, 0.0)
        if len(ids) > limit:
            self.failures[TOO_LONG] += 1
        elif policy.decode(ids, facts) != source:
            self.failures[NOT_WRITABLE] += 1
        elif (buffer is not None and row in buffer) or any(each.row == row for each in self._waiting):
            self.failures[KNOWN] += 1
        elif not scoring.scorer.budget.admits(task_index, source):
            self.failures[UNPAID] += 1
        else:
            score = scoring.scorer.score(source, task_index)
            self._waiting.append(GivenProgram(source, row, score, named, origin))

    def take(self, trainer: Trainer, scoring: ProgramScoring, module: GFlowNetModule, waits: bool) -> None:
        """Stores programs that have a score by now.

        Args:
            trainer: The run's trainer, in whose precision log-probabilities are computed.
            scoring: The run's scoring callback, whose journal gets their records.
            module: Whose policy's log-probabilities they are stored with.
            waits: Whether to wait for all scores.
        """
        if waits:
            wait([program.score for program in self._waiting])
        done = [program for program in self._waiting if program.score.done()]
        if not done:
            return
        self._waiting = [program for program in self._waiting if program not in done]
        buffer, present, step = scoring.buffer(trainer), scoring.tempering.present, trainer.global_step
        with trainer.precision_plugin.forward_context():
            found = scored_programs(done, scoring.scorer, module, buffer, present, step)
        for _, record, trajectory in found:
            if not is_finite([record.log_prob, record.reference_log_prob]).all():
                self.failures[IMPOSSIBLE] += 1
                continue
            scoring.journal.add(record)
            if trajectory is None:
                self.failures[str(record.score.failure)] += 1
            else:
                buffer.merge([trajectory])
                self.added += 1

    def withdraw(self, scoring: ProgramScoring) -> int:
        """Tells the workers that nobody waits for what has no score; how many programs that are.

        Args:
            scoring: The run's scoring callback.
        """
        for program in self._waiting:
            scoring.scorer.pool.withdraw(program.source, scoring.scorer.tasks[program.row.task_index])
        return len(self._waiting)

    def forget(self) -> None:
        """Drops what is waited for."""
        self._waiting = []

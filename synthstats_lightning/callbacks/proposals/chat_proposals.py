"""The section `proposals` of a run: programs of a chat model join those that the policy learns from."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, wait
from typing import Any, Literal, get_args

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.proposals.given_programs import GivenPrograms
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.learning.loops import is_log_step
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import Environment
from synthstats_lightning.replay import ReplayBuffer
from synthstats_lightning.rollouts import RolloutError
from synthstats_lightning.rollouts.chat_writer import ChatProgram, ChatSettings, ChatWriter
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size

OnFailure = Literal["warn", "stop"]


class ChatProposals(Callback):
    """Asks a chat model for programs of the run's tasks, and adds those that have a score to replay.

    The model, behind an OpenAI-compatible endpoint, gets the prompts that the policy gets, and says nothing
    of how probable its programs are. Each is read as an answer of the policy's is, written in the policy's
    own tokens with its stop token, scored by the run's scorer, and stored with log-probabilities computed
    here.
    The posterior over programs is that of the run's own prior; a proposal only brings programs that the
    policy would meet late or never. Balance objectives learn from them as from any other; objectives on
    policy cannot.

    Requests are under way while the run trains, unless `scoring.synchronous` is set. The records of the run
    say where a program comes from (`origin` in `programs.jsonl`), and so does the report.

    Logs, of all ranks since the run began, `proposals/asked`, `proposals/added` and `proposals/failed`
    (requests that gave no program, and programs that are not taken or have no score).

    Args:
        url: Where the endpoint is, with or without `/v1`; `None` for no proposals.
        model: Name of the model there.
        programs: Programs of a round, per task.
        every_n_steps: Training steps between rounds; the first is asked for when training starts. A round
            is left out while the one before is under way.
        api_key_env: Name of the environment variable that holds the endpoint's key.
        temperature: Temperature that the chat model samples at.
        max_tokens: Tokens of an answer; `None` leaves it to the endpoint.
        timeout_s: Seconds that one request may take.
        retries: Further attempts after a time-out, a lost connection or an answer that asks for patience.
        at_once: Most requests at once.
        on_failure: Whether requests without an answer are only counted and said (`"warn"`), or end the run
            (`"stop"`).

    Raises:
        ValueError: If a number is out of range, the URL is none, or the environment has no key of that name.
    """

    def __init__(
        self,
        url: str | None = None,
        model: str | None = None,
        programs: int = 4,
        every_n_steps: int = 50,
        api_key_env: str | None = None,
        temperature: float = 1.0,
        max_tokens: int | None = 2048,
        timeout_s: float = 120.0,
        retries: int = 2,
        at_once: int = 8,
        on_failure: OnFailure = "warn",
    ) -> None:
        for name, number in {"programs": programs, "every_n_steps": every_n_steps}.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        if on_failure not in get_args(OnFailure):
            raise ValueError(
                f"on_failure must be one of {', '.join(get_args(OnFailure))}, got {on_failure!r}"
            )
        settings = ChatSettings(api_key_env, temperature, max_tokens, timeout_s, retries, at_once)
        self.programs = programs
        self.every_n_steps = every_n_steps
        self.on_failure = on_failure
        self.asked = 0
        self.given = GivenPrograms()
        self.writer = None if url is None else ChatWriter(model or "", url, settings)
        self._asked: list[tuple[int, Future[ChatProgram]]] = []
        self._step = -1

    def check(self, module: object, data: object) -> None:
        """Refuses a run that could not learn from proposals.

        Args:
            module: The module that the run trains.
            data: Its data module.

        Raises:
            ValueError: If the objective is on policy, the tasks are of several turns, or nothing is replayed.
        """
        objective = getattr(module, "objective", None)
        if getattr(objective, "on_policy", False):
            raise ValueError(
                f"proposals.url must be null for {type(objective).__name__}, which learns from programs of"
                " the present policy alone"
            )
        if any(isinstance(task, Environment) for task in getattr(data, "tasks", [])):
            raise ValueError("proposals.url must be null for tasks of several turns: proposals are programs")
        buffer = getattr(data, "buffer", None)
        if isinstance(buffer, ReplayBuffer) and not _replayed(buffer):
            raise ValueError(
                "replay_fraction, structure_fraction or uniform_fraction of the data must be above 0 where"
                " there are proposals, which are no recent samples of the policy"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Asks for the first round."""
        if self.writer is None:
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        self.check(module, getattr(trainer, "datamodule", None))
        self._step = trainer.global_step
        if trainer.global_step == 0:
            self._ask(scoring)
            self._take(trainer, scoring, module, scoring.synchronous)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After a training step: takes what has come, and asks for the next round when it is due."""
        if self.writer is None or trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        scoring, module = scoring_and_module(trainer, pl_module, self)
        if self._step % self.every_n_steps == 0:
            self._ask(scoring)
        self._take(trainer, scoring, module, scoring.synchronous)
        if is_log_step(trainer):
            total = sum(gather_objects(self._totals()), Counter())
            for name in ("asked", "added", "failed"):
                pl_module.log(f"proposals/{name}", float(total[name]), batch_size=1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes what has come, before the run is reported, and says what became of all."""
        if self.writer is None or trainer.interrupted:
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        self._take(trainer, scoring, module, False)
        left = len(self._asked) + self.given.withdraw(scoring)
        failed = ", ".join(f"{name} {number}" for name, number in self.given.failures.most_common())
        rank_zero_info(
            f"proposals of {self.writer.name}: {self.asked} asked for,"
            f" {self.given.added} added, {left} still under way; not taken: {failed or 'none'}"
        )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends what waits for the endpoint."""
        self._asked = []
        self.given.forget()
        if self.writer is not None:
            self.writer.close()

    def state_dict(self) -> dict[str, Any]:
        """What has been counted; requests under way are dropped."""
        counts = {"asked": self.asked, "added": self.given.added}
        return {"counts": counts, "failures": dict(self.given.failures)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` saved."""
        counts = Counter(state_dict["counts"])
        self.asked, self.given.added = counts["asked"], counts["added"]
        self.given.failures = Counter(state_dict["failures"])

    def _totals(self) -> Counter[str]:
        """Counts of this rank, as they are logged."""
        return Counter(asked=self.asked, added=self.given.added, failed=self.given.failures.total())

    def _ask(self, scoring: ProgramScoring) -> None:
        if self._asked or len(self.given) or self.writer is None:
            return  # the round before is under way
        rank, size = rank_and_size()
        own = self.programs // size + (rank < self.programs % size)
        for index, futures in enumerate(self.writer.begin(scoring.scorer.prompts, own)):
            self._asked += [(index, future) for future in futures]
        self.asked += own * len(scoring.scorer.prompts)

    def _take(self, trainer: Trainer, scoring: ProgramScoring, module: GFlowNetModule, waits: bool) -> None:
        """Hands programs that have come to the workers, and stores those that have a score."""
        buffer = scoring.buffer(trainer)
        if waits:
            wait([future for _, future in self._asked])
        asked, self._asked = self._asked, []
        for index, future in asked:
            if future.done():
                self._submit(scoring, module, buffer, index, future.result())
            else:
                self._asked.append((index, future))
        self.given.take(trainer, scoring, module, waits)

    def _submit(
        self,
        scoring: ProgramScoring,
        module: GFlowNetModule,
        buffer: ReplayBuffer,
        task_index: int,
        program: ChatProgram,
    ) -> None:
        if program.failure:
            self._failed(program)
            return
        origin = "" if self.writer is None else self.writer.name
        self.given.submit(scoring, module, buffer, task_index, program.source, "a proposal", origin)

    def _failed(self, program: ChatProgram) -> None:
        if self.on_failure == "stop":
            raise RolloutError(f"proposals: {program.message}")
        if not self.given.failures[program.failure]:
            rank_zero_warn(f"proposals: {program.message}; further ones of this kind are only counted")
        self.given.failures[program.failure] += 1


def _replayed(buffer: ReplayBuffer) -> bool:
    """Whether any but recent samples are drawn."""
    return buffer.replay_fraction + buffer.structure_fraction + buffer.uniform_fraction > 0

"""A chat model behind an endpoint in the place of a policy, to compare with: it has no log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lightning.pytorch import LightningModule

from synthstats_lightning.learning.prompts import PromptBatch
from synthstats_lightning.learning.sampling_module import PROGRAMS
from synthstats_lightning.rollouts.chat_writer import ChatProgram, ChatSettings, ChatWriter, parsed_name

MISSING = "log Z, estimates by importance sampling, residuals and shares by weight"
"""What cannot be said of a policy without log-probabilities."""


class ChatAnswerOfTask(NamedTuple):
    """What a chat model has answered to a task's prompt.

    Attributes:
        task_index: Position of the task.
        program: The program, or why there is none.
    """

    task_index: int
    program: ChatProgram


class ChatModule(LightningModule):
    """Has a chat model write the fresh programs of `validate`, `test` and `predict`.

    Args:
        policy: Which model, and where: `openai:MODEL@URL`.
        tasks: Names of the tasks.
        settings: How it is asked.

    Raises:
        ValueError: If the name is none, or the environment has no key.
    """

    def __init__(self, policy: str, tasks: Sequence[str], settings: ChatSettings | None = None) -> None:
        super().__init__()
        self.policy_name = policy
        self.tasks = list(tasks)
        self.writer = ChatWriter(*parsed_name(policy), settings or ChatSettings())

    def validation_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, list[ChatAnswerOfTask]]:
        """Fresh programs, which `ChatEvaluation` scores."""
        return {PROGRAMS: self.answers(batch)}

    def test_step(self, batch: PromptBatch, batch_idx: int) -> dict[str, list[ChatAnswerOfTask]]:
        """Fresh programs, which `ChatEvaluation` scores."""
        return {PROGRAMS: self.answers(batch)}

    def predict_step(self, batch: PromptBatch, batch_idx: int) -> list[ChatAnswerOfTask]:
        """Fresh programs."""
        return self.answers(batch)

    def answers(self, batch: PromptBatch) -> list[ChatAnswerOfTask]:
        """What the model answers.

        Args:
            batch: A request for programs.
        """
        asked = self.writer.begin(batch.prompts, batch.num_samples)
        return [
            ChatAnswerOfTask(index, future.result())
            for index, futures in zip(batch.task_index.tolist(), asked, strict=True)
            for future in futures
        ]

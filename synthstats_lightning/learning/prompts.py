"""Requests for fresh programs: the batches of validation, test and prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from synthstats_lightning.policy import Environment
from synthstats_lightning.tasks import Prompt, Task, task_prompt


class PromptBatch:
    """A request for fresh programs, the batch of validation, test and prediction.

    A plain class, because Lightning's precision plugins refuse frozen dataclasses.

    Attributes:
        prompts: What the policy is told, one a task.
        task_index: The tasks to write programs for.
        num_samples: Programs a task.
        batch_index: Number of the batch, which seeds its sampling.
        environments: What the policy talks to in tasks of several turns, one a task; otherwise empty.
    """

    def __init__(
        self,
        prompts: tuple[Prompt, ...],
        task_index: Int[Tensor, " tasks"],
        num_samples: int,
        batch_index: int,
        environments: tuple[Environment, ...] = (),
    ) -> None:
        self.prompts = prompts
        self.task_index = task_index
        self.num_samples = num_samples
        self.batch_index = batch_index
        self.environments = environments

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PromptBatch:
        """The same request on another device."""
        task_index = self.task_index.to(device, non_blocking=non_blocking)
        return PromptBatch(self.prompts, task_index, self.num_samples, self.batch_index, self.environments)

    def at_most(self, programs: int) -> PromptBatch:
        """The same request for fewer programs.

        Args:
            programs: Most programs a task.
        """
        number = min(self.num_samples, programs)
        return PromptBatch(self.prompts, self.task_index, number, self.batch_index, self.environments)


class PromptRequests(Sequence[PromptBatch]):
    """Requests that ask for some programs of every task, in the words of the moment when they are taken.

    Args:
        tasks: The tasks, in the order of `task_index`; their `examples` may change.
        num_samples: Programs a task in all batches together.
        batch_size: Programs a task in one batch; the last batch may ask for fewer.
    """

    def __init__(self, tasks: Sequence[Task], num_samples: int, batch_size: int) -> None:
        self.tasks = list(tasks)
        self.sizes = [batch_size] * (num_samples // batch_size)
        if rest := num_samples % batch_size:
            self.sizes.append(rest)
        self._prompts = [task_prompt(task) for task in tasks]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, number: Any) -> Any:
        size = self.sizes[number]
        environments = tuple(task for task in self.tasks if isinstance(task, Environment))
        index = torch.arange(len(self.tasks))
        return PromptBatch(present_prompts(self._prompts, self.tasks), index, size, number, environments)


def present_prompts(prompts: Sequence[Prompt], tasks: Sequence[Task]) -> tuple[Prompt, ...]:
    """Prompts with the examples that their tasks show at present.

    Args:
        prompts: What `task_prompt` makes of each task.
        tasks: The tasks, in the same order.
    """
    pairs = zip(prompts, tasks, strict=True)
    return tuple(prompt.with_examples(task.examples) for prompt, task in pairs)

"""The prompts of a run's tasks in token ids: the policy's, and the prior's where it is given another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Prompts = dict[int, tuple[int, ...]]
"""Task index to token ids."""


class PromptTable:
    """Both prompts of each task.

    Attributes:
        prompts: What the policy is given, and batches of its programs begin with.
        prior_prompts: What the reference policy is given, of the tasks where it is something else.
    """

    prompts: Prompts
    prior_prompts: Prompts

    def register_prompt(
        self, task_index: int, prompt_ids: Iterable[int], prior_ids: Iterable[int] | None = None
    ) -> None:
        """States a task's prompts in token ids.

        Args:
            task_index: Position of the task among the run's tasks.
            prompt_ids: What the policy is given.
            prior_ids: What the reference policy is given; by default the same.
        """
        prompt = self.prompts[task_index] = tuple(int(token) for token in prompt_ids)
        prior = prompt if prior_ids is None else tuple(int(token) for token in prior_ids)
        self.prior_prompts.pop(task_index, None)
        if prior != prompt:
            self.prior_prompts[task_index] = prior

    def prompts_state(self) -> dict[str, dict[int, list[int]]]:
        """Both prompts of each task in primitive types."""
        tables = {"prompts": self.prompts, "prior_prompts": self.prior_prompts}
        return {name: {index: list(ids) for index, ids in table.items()} for name, table in tables.items()}

    def take_prompts(self, state: dict[str, Any]) -> None:
        """Adds the prompts of a saved buffer.

        Args:
            state: What `prompts_state` returned, and maybe more.
        """
        for name, table in {"prompts": self.prompts, "prior_prompts": self.prior_prompts}.items():
            table |= {int(index): tuple(ids) for index, ids in state.get(name, {}).items()}

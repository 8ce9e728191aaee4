"""The LightningDataModule around the replay buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from synthstats_lightning.distributed import gather_objects, own_state
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, read_demonstrations
from synthstats_lightning.seeds import default_seed
from synthstats_lightning.tasks import Prompt, Task, get_task, task_prompt


@dataclass(frozen=True)
class PromptBatch:
    """A request for fresh programs, the batch of validation, test and prediction.

    Attributes:
        prompts: What the policy is told, one a task.
        task_index: The tasks to write programs for.
        num_samples: Programs a task.
        batch_index: Number of the batch, which seeds its sampling.
    """

    prompts: tuple[Prompt, ...]
    task_index: Int[Tensor, " tasks"]
    num_samples: int
    batch_index: int

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PromptBatch:
        """The same request on another device."""
        return replace(self, task_index=self.task_index.to(device, non_blocking=non_blocking))


class ReplayDataModule(LightningDataModule):
    """Tasks, the replay buffer, and loaders over both.

    Training batches come from the buffer, which a callback such as `ProgramScoring` fills; validation, test
    and prediction batches ask for fresh programs.

    Args:
        tasks: Names of bundled tasks, or tasks (in YAML by `class_path`).
        batch_size: Trajectories a training batch, per process.
        steps_per_epoch: Training batches an epoch.
        eval_programs: Fresh programs per task in validation, test and prediction.
        eval_batch_size: Fresh programs per task in one evaluation batch.
        capacity: Distinct programs that the buffer keeps.
        recent: Length of the queue of recent samples, in programs.
        replay_fraction: Share of a training batch drawn by reward priority, from 0 to 1.
        priority: Exponent α of the rank-based priority; 0 draws uniformly.
        structure_fraction: Share of a training batch drawn by balanced structures: each as often as any
            other.
        uniform_fraction: Share of a training batch drawn uniformly from all stored programs.
        capacity_per_task: Distinct programs kept of one task; `None` is no limit of its own.
        deduplicate: Of texts of one canonical form keep all (`"text"`) or the best (`"program"`).
        min_edit_distance: Of programs nearer than this share of their tokens keep the best; 0 keeps all.
        multiplicity: Whether rewards belong to texts (`"text"`) or are shared by the stored texts of a
            program (`"program"`); see `ReplayBuffer` for what follows from either.
        demonstrations: Path of JSON lines with `task` and `source`, which `ProgramScoring` scores and pins in
            the buffer before training; the `programs.jsonl` of an earlier run will do.
        seed: Seeds the stream that draws training batches, together with the rank; by default that of
            `seed_everything`.

    Raises:
        ValueError: If no task is given, two have the same name, a name is unknown or a number is out of
            range, or a line of the demonstrations is no program of these tasks.
        FileNotFoundError: If there is no file of demonstrations.
    """

    def __init__(
        self,
        tasks: Sequence[str | Task] = ("dugongs",),
        batch_size: int = 64,
        steps_per_epoch: int = 100,
        eval_programs: int = 128,
        eval_batch_size: int = 128,
        capacity: int = 20_000,
        recent: int = 512,
        replay_fraction: float = 0.5,
        priority: float = 0.5,
        structure_fraction: float = 0.0,
        uniform_fraction: float = 0.0,
        capacity_per_task: int | None = None,
        deduplicate: Literal["text", "program"] = "text",
        min_edit_distance: float = 0.0,
        multiplicity: Literal["text", "program"] = "text",
        demonstrations: str | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in {
            "batch_size": batch_size,
            "steps_per_epoch": steps_per_epoch,
            "eval_programs": eval_programs,
            "eval_batch_size": eval_batch_size,
        }.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.tasks = [get_task(task) for task in tasks]
        if not self.tasks:
            raise ValueError("tasks must name at least one task")
        names = [task.name for task in self.tasks]
        if len(set(names)) != len(names):
            raise ValueError(f"tasks must have different names, got {', '.join(names)}")
        self.batch_size = batch_size
        self.steps_per_epoch = steps_per_epoch
        self.eval_programs = eval_programs
        self.eval_batch_size = eval_batch_size
        self.seed = default_seed() if seed is None else seed
        self.demonstrations = (
            [] if demonstrations is None else read_demonstrations(demonstrations, self.task_names)
        )
        self.buffer = ReplayBuffer(
            capacity,
            recent,
            replay_fraction,
            priority,
            structure_fraction,
            uniform_fraction,
            capacity_per_task,
            deduplicate,
            min_edit_distance,
            multiplicity,
        )

    @property
    def task_names(self) -> list[str]:
        """Names of the tasks, in the order of `task_index`."""
        return [task.name for task in self.tasks]

    def train_dataloader(self) -> ReplayLoader:
        """Batches from the buffer, drawn when they are needed."""
        rank = self.trainer.global_rank if self.trainer is not None else 0
        seed = self.seed + 7919 * rank
        return ReplayLoader(
            self.buffer, self.batch_size, self.steps_per_epoch, seed, gather=gather_objects, rank=rank
        )

    def val_dataloader(self) -> DataLoader[PromptBatch]:
        """Requests for `eval_programs` fresh programs per task."""
        return self._prompt_loader()

    def test_dataloader(self) -> DataLoader[PromptBatch]:
        """Requests for `eval_programs` fresh programs per task."""
        return self._prompt_loader()

    def predict_dataloader(self) -> DataLoader[PromptBatch]:
        """Requests for `eval_programs` fresh programs per task."""
        return self._prompt_loader()

    def state_dict(self) -> dict[str, Any]:
        """The tasks, and the buffers of all ranks, whose entries refer to them."""
        buffer, *others = gather_objects(self.buffer.state_dict())
        return {"tasks": self.task_names, "buffer": buffer, "buffers_of_other_ranks": others}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores this rank's buffer.

        Raises:
            ValueError: If the checkpoint is of other tasks or of another number of processes.
        """
        if state_dict["tasks"] != self.task_names:
            raise ValueError(
                f"the checkpoint's buffer is of tasks {state_dict['tasks']}, this run's are {self.task_names}"
            )
        buffers = [state_dict["buffer"], *state_dict.get("buffers_of_other_ranks", ())]
        trainer = self.trainer
        if trainer is not None and (trainer.validating or trainer.testing or trainer.predicting):
            buffers = buffers[:1] * trainer.world_size  # evaluation draws nothing from it
        self.buffer.load_state_dict(own_state(buffers, "replay buffers"))

    def _prompt_loader(self) -> DataLoader[PromptBatch]:
        sizes = [self.eval_batch_size] * (self.eval_programs // self.eval_batch_size)
        if rest := self.eval_programs % self.eval_batch_size:
            sizes.append(rest)
        index = torch.arange(len(self.tasks))
        prompts = tuple(task_prompt(task) for task in self.tasks)
        requests = [PromptBatch(prompts, index, size, number) for number, size in enumerate(sizes)]
        return DataLoader(requests, batch_size=None, shuffle=False)  # type: ignore[arg-type]

"""The LightningDataModule around the replay buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.utilities import rank_zero_info
from torch.utils.data import DataLoader

from synthstats_lightning.learning.prompts import PromptBatch, PromptRequests
from synthstats_lightning.policy import Environment
from synthstats_lightning.replay import ReplayBuffer, ReplayLoader, load_shard, read_demonstrations
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size
from synthstats_lightning.runtime.seeds import default_seed
from synthstats_lightning.tasks import Task, TaskCollection, expand_tasks
from synthstats_lightning.tasks.instructions import Instructions
from synthstats_lightning.tasks.proposal import Example, Prior, Proposal, looking, rows_that_count


class ReplayDataModule(LightningDataModule):
    """Tasks, the replay buffer, and loaders over both.

    Training batches come from the buffer, which a callback such as `ProgramScoring` fills; validation, test
    and prediction batches ask for fresh programs.

    Args:
        tasks: Names of bundled tasks, tasks, or collections of them such as `SimulatedTasks` (in YAML by
            `class_path`).
        batch_size: Trajectories in a training batch of one process.
        steps_per_epoch: Training batches in an epoch.
        eval_programs: Fresh programs per task in validation, test and prediction.
        eval_batch_size: Fresh programs per task in one evaluation batch.
        demonstrations: Path of JSON lines with `task` and `source`, which `ProgramScoring` scores and pins in
            the buffer before training; the `programs.jsonl` of an earlier run will do.
        task_weights: Name of a task, or of the environment of several, to how often each is sampled and
            replayed relative to a task that is not named; all alike by default.
        seed: Seeds the stream that draws training batches, together with the rank; by default that of
            `seed_everything`.
        proposal: What the prompt that the policy writes from shows of the rows that count: `"nothing"`,
            `"rows"`, or a `"digest"` of them, what regressions say. The target stays the prior's times the
            evidence of all these rows.
        prior: What the prompt of the reference policy, the prior, shows: the `"request"`, that is names,
            kinds, ranges and number of rows, and none of the values that count.
        instructions: What both prompts say of programs: their shape (`"short"`), or also what counts, which
            distributions exist and what fails (`"full"`), for models that follow instructions.
        proposal_examples: How many of a task's best programs so far, of different structures, the prompt that
            the policy writes from shows, from 0 to 4; they change before a sampling round.
        **buffer: The arguments of `ReplayBuffer`.

    Raises:
        ValueError: If no task is given, two have the same name, a name is unknown or a number is out of
            range, a line of the demonstrations is no program of these tasks, a proposal is to look at a task
            of which no row counts, or tasks of several turns are to show examples.
        FileNotFoundError: If there is no file of demonstrations.
    """

    def __init__(
        self,
        tasks: Sequence[str | Task | TaskCollection] = ("dugongs",),
        batch_size: int = 64,
        steps_per_epoch: int = 100,
        eval_programs: int = 128,
        eval_batch_size: int = 128,
        demonstrations: str | None = None,
        task_weights: dict[str, float] | None = None,
        seed: int | None = None,
        proposal: Proposal = "nothing",
        prior: Prior = "request",
        instructions: Instructions = "short",
        proposal_examples: int = 0,
        **buffer: Any,
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
        if prior not in get_args(Prior):
            raise ValueError(
                f"prior must be 'request', got {prior!r}: a prior that has seen the response is none"
            )
        self.proposal: Proposal = proposal
        self.instructions: Instructions = instructions
        words = proposal, instructions, proposal_examples
        self.tasks = [looking(task, *words) for task in expand_tasks(tasks)]
        unseen = [task.name for task in self.tasks if not rows_that_count(task)]
        if proposal != "nothing" and unseen:
            raise ValueError(
                f"proposal must be 'nothing' for task {unseen[0]!r}, none of whose rows count before they are"
                f" observed, got {proposal!r}"
            )
        if not self.tasks:
            raise ValueError("tasks must name at least one task")
        names = [task.name for task in self.tasks]
        multi_turn = [task.name for task in self.tasks if isinstance(task, Environment)]
        if 0 < len(multi_turn) < len(names):
            raise ValueError(
                f"tasks must all be of several turns, or none; of several turns are {', '.join(multi_turn)}"
            )
        if multi_turn and proposal_examples:
            raise ValueError(
                f"proposal_examples must be 0 for tasks of several turns, got {proposal_examples}:"
                f" {', '.join(multi_turn)}"
            )
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
        self.buffer = ReplayBuffer(**buffer)
        self._loader: tuple[Trainer | None, ReplayLoader] | None = None
        self.sampling_weights = None if task_weights is None else self._weights(task_weights)
        if self.sampling_weights is not None:
            self.buffer.weigh_tasks(dict(enumerate(self.sampling_weights)))

    def _weights(self, named: dict[str, float]) -> list[float]:
        known = {*self.task_names, *(task.environment for task in self.tasks)}
        for name, weight in named.items():
            if name not in known:
                raise ValueError(
                    f"task_weights names {name!r}, which is not one of: {', '.join(sorted(known))}"
                )
            if not 0 < weight < math.inf:
                raise ValueError(f"task_weights must be above 0 and finite, got {weight} for {name!r}")
        return [float(named.get(task.name, named.get(task.environment, 1.0))) for task in self.tasks]

    @property
    def task_names(self) -> list[str]:
        """Names of the tasks, in the order of `task_index`."""
        return [task.name for task in self.tasks]

    def train_dataloader(self) -> ReplayLoader:
        """Batches from the buffer, drawn when they are needed; asked again by a run, it goes on drawing."""
        rank = self.trainer.global_rank if self.trainer is not None else 0
        loader = ReplayLoader(
            self.buffer,
            self.batch_size,
            self.steps_per_epoch,
            self.seed + 7919 * rank,
            gather=self._gather,
            rank=rank,
            allow_empty=self.trainer is not None and self.trainer.world_size > 1,
        )
        if self._loader is not None and self.trainer is not None and self._loader[0] is self.trainer:
            loader.go_on_from(self._loader[1])
        self._loader = (self.trainer, loader)
        return loader

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
        buffer, *others = self._gather(self.buffer.state_dict())
        return {
            "tasks": self.task_names,
            "proposal": self.proposal,
            "instructions": self.instructions,
            "examples": self._gather([[tuple(each) for each in task.examples] for task in self.tasks]),
            "buffer": buffer,
            "buffers_of_other_ranks": others,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores this rank's buffer, dealt anew where the number of processes has changed.

        Raises:
            ValueError: If the checkpoint is of other tasks, or its policy has seen other prompts.
        """
        if state_dict["tasks"] != self.task_names:
            raise ValueError(
                f"the checkpoint's buffer is of tasks {state_dict['tasks']}, this run's are {self.task_names}"
            )
        for name, first in {"proposal": "nothing", "instructions": "short"}.items():
            if (written := state_dict.get(name, first)) != (given := getattr(self, name)):
                raise ValueError(f"{name} must be {written!r} as in the checkpoint, got {given!r}")
        buffers = [state_dict["buffer"], *state_dict.get("buffers_of_other_ranks", ())]
        rank, size = rank_and_size()
        trainer = self.trainer
        if trainer is not None and (trainer.validating or trainer.testing or trainer.predicting):
            buffers = buffers[:1] * size  # evaluation draws nothing from it
        elif len(buffers) != size:
            rank_zero_info(
                f"the checkpoint holds the replay buffers of {len(buffers)} processes, this run has {size}:"
                " their programs are dealt anew"
            )
        load_shard(self.buffer, buffers, rank, size)
        shown = state_dict.get("examples") or [[[] for _ in self.tasks]]
        for task, examples in zip(self.tasks, shown[rank if len(shown) == size else 0], strict=True):
            task.examples = tuple(Example(*each) for each in examples)[: task.most_examples]

    def _gather(self, value: Any) -> list[Any]:
        """Of all ranks; after an exception, when the others may not come to meet this one, of this rank."""
        interrupted = self.trainer is not None and self.trainer.interrupted
        return [value] if interrupted else gather_objects(value)

    def _prompt_loader(self) -> DataLoader[PromptBatch]:
        requests = PromptRequests(self.tasks, self.eval_programs, self.eval_batch_size)
        return DataLoader(requests, batch_size=None, shuffle=False)  # type: ignore[arg-type]

"""The LightningDataModule of given examples, for supervised training before a run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, get_args

from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn

from synthstats_lightning.datamodule import ReplayDataModule
from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.learning.warm_start.encoding import EncodedExample, encode_examples
from synthstats_lightning.learning.warm_start.examples import KeptThoughts, read_examples
from synthstats_lightning.learning.warm_start.packing import ExampleLoader
from synthstats_lightning.runtime.distributed import rank_and_size
from synthstats_lightning.tasks import Task, TaskCollection, task_prompt
from synthstats_lightning.tasks.instructions import Instructions
from synthstats_lightning.tasks.proposal import Prior, Proposal


class DemonstrationDataModule(ReplayDataModule):
    """Conversations and programs that a policy imitates, for a `GFlowNetModule` with `Supervised`.

    Training and validation see the examples of a file, of which only the answers count; test and prediction
    ask for fresh programs of the tasks, as of a `ReplayDataModule`.

    Args:
        examples: Path of JSON lines: chat `messages`; or `prompt`, `completion` and perhaps
            `reasoning_trace`; or `task` and `source`, of which the `programs.jsonl` of a run is a case.
        tasks: Tasks that lines with `task` and `source` name, and that test and prediction write programs
            for.
        batch_size: Examples in a batch of one process, at most.
        batch_tokens: Padded tokens of such a batch, prompts and answers, at most; `None` for no limit.
        max_tokens: Longer examples, prompt and answers, are left out; `None` takes what the model knows.
        max_examples: Examples that are taken, drawn at random; `None` takes all.
        validation_share: Share of the examples, below 1, that validation holds back; 0 validates nothing.
        validation_examples: Path of further JSON lines, with which validation is done instead; nothing is
            held back then.
        thoughts: Whether thoughts before an answer are imitated (`"kept"`) or left out (`"stripped"`).
        eval_programs: Fresh programs per task in test and prediction.
        eval_batch_size: Fresh programs per task in one such batch.
        seed: Seeds the choice of the examples and the order of the batches; by default that of
            `seed_everything`.
        proposal: What prompts of lines with `task` and `source` show of the rows that count.
        prior: What the prompt of the reference policy shows.
        instructions: What prompts of such lines say of programs; give what the run after it is given.

    Raises:
        ValueError: If a number is out of range, or a line of the file has none of these shapes.
        FileNotFoundError: If there is no such file.
    """

    def __init__(
        self,
        examples: str,
        tasks: Sequence[str | Task | TaskCollection] = ("dugongs",),
        batch_size: int = 32,
        batch_tokens: int | None = None,
        max_tokens: int | None = None,
        max_examples: int | None = None,
        validation_share: float = 0.1,
        thoughts: KeptThoughts = "kept",
        eval_programs: int = 128,
        eval_batch_size: int = 128,
        seed: int | None = None,
        proposal: Proposal = "nothing",
        prior: Prior = "request",
        validation_examples: str | None = None,
        instructions: Instructions = "short",
    ) -> None:
        super().__init__(
            tasks,
            batch_size,
            eval_programs=eval_programs,
            eval_batch_size=eval_batch_size,
            seed=seed,
            proposal=proposal,
            prior=prior,
            instructions=instructions,
        )
        limits = {"batch_tokens": batch_tokens, "max_tokens": max_tokens, "max_examples": max_examples}
        for name, value in limits.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not 0 <= validation_share < 1:
            raise ValueError(f"validation_share must be from 0 to below 1, got {validation_share}")
        if thoughts not in get_args(KeptThoughts):
            raise ValueError(f"thoughts must be 'kept' or 'stripped', got {thoughts!r}")
        prompts = {task.name: task_prompt(task) for task in self.tasks}

        def read(path: str) -> list[Any]:
            found, failed = read_examples(path, prompts, thoughts)
            if failed:
                rank_zero_warn(f"{failed} lines of {path} are programs without a score, and are left out")
            return found

        found = read(examples)
        order = random.Random(self.seed)  # noqa: S311 - no secret
        chosen = order.sample(found, min(len(found), max_examples or len(found)))
        if validation_examples is not None:
            self.validation, self.training = read(validation_examples), chosen
        else:
            held_back = round(validation_share * len(chosen)) if len(chosen) > 1 else 0
            held_back = max(held_back, 1 if validation_share and len(chosen) > 1 else 0)
            self.validation, self.training = chosen[:held_back], chosen[held_back:]
        if not self.training:
            raise ValueError(f"validation_share must leave an example to train on, got {validation_share}")
        self.batch_tokens = batch_tokens
        self.max_tokens = max_tokens
        self._loaders: dict[str, ExampleLoader] = {}

    def train_dataloader(self) -> Any:
        """Batches of the examples, in another order each epoch."""
        return self._examples_loader("training", self.training, self.seed)

    def val_dataloader(self) -> Any:
        """Batches of what was held back."""
        return self._examples_loader("validation", self.validation, None) if self.validation else []

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the loader knows where it is."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to restore."""

    def _examples_loader(self, stage: str, examples: Sequence[Any], seed: int | None) -> ExampleLoader:
        if stage not in self._loaders:
            module = None if self.trainer is None else self.trainer.lightning_module
            if not isinstance(module, SamplingModule):
                raise TypeError(
                    f"DemonstrationDataModule needs a GFlowNetModule, got {type(module).__name__}"
                )
            policy = module.loaded_policy
            most = self.max_tokens or getattr(policy.text_config, "max_position_embeddings", None)
            encoded = encode_examples(policy, examples)
            kept: list[EncodedExample] = [each for each in encoded if most is None or len(each) <= most]
            if not kept:
                raise ValueError(f"max_tokens must leave a {stage} example, got {most}: all are longer")
            if len(kept) < len(encoded):
                rank_zero_warn(
                    f"{len(encoded) - len(kept)} of {len(encoded)} {stage} examples are left out: they have"
                    f" more than {most} tokens"
                )
            loader = ExampleLoader(kept, self.batch_size, self.batch_tokens, seed, *rank_and_size())
            rank_zero_info(
                f"{stage}: {len(kept)} examples in {len(loader.batches)} batches,"
                f" {loader.padding:.0%} of their tokens padding"
            )
            self._loaders[stage] = loader
        return self._loaders[stage]

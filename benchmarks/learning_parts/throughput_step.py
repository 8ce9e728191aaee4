"""Our training step, timed part by part: sampling, log-probabilities, backward pass, optimiser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from learning_parts.throughput_models import LORA, SHAPES, policy
from lightning.pytorch import Callback, Trainer

from synthstats_lightning import GFlowNetModule, TrajectoryBalance
from synthstats_lightning.policy import ModelSettings, SamplingSettings
from synthstats_lightning.replay import Trajectory, collate
from synthstats_lightning.tasks import get_task, task_prompt

PARTS = ("sampling", "log-probs", "backward", "optimiser", "waiting")
TASKS = ("dugongs", "peregrines")
LOG_REWARD = -20.0


def prompts(number: int) -> list[Any]:
    """What the policy is told, one a task."""
    return [task_prompt(get_task(name)) for name in TASKS[:number]]


class Fresh:
    """Batches of programs that are sampled when they are asked for, all with the same reward."""

    def __init__(self, run: OurRun, steps: int) -> None:
        self.run = run
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.steps):
            self.run.clock.mark("waiting")
            batch = self.run.sampled()
            self.run.clock.mark("sampling")
            yield batch


class Clock(Callback):
    """Seconds of each part of each step."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.steps: list[dict[str, float]] = []
        self._now: dict[str, float] = {}
        self._since = 0.0

    def mark(self, part: str) -> None:
        """What has passed since the last mark belongs to a part."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        self._now[part] = self._now.get(part, 0.0) + now - self._since
        self._since = now

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Starts."""
        self._since, self._now = time.perf_counter(), {}

    def on_before_backward(self, trainer: Trainer, pl_module: Any, loss: Any) -> None:
        """The loss is there."""
        self.mark("log-probs")

    def on_after_backward(self, trainer: Trainer, pl_module: Any) -> None:
        """The gradient is there."""
        self.mark("backward")

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """The step is done."""
        self.mark("optimiser")
        self.steps.append(self._now)
        self._now = {}


class OurRun:
    """Steps of trajectory balance on freshly sampled programs of a fixed length.

    Args:
        model: Key of `SHAPES`.
        num_prompts: Different prompts.
        group: Programs a prompt and step.
        length: Tokens of each program.
        device: `"cpu"` or `"cuda"`.
        settings: Of the base model.
    """

    def __init__(
        self,
        model: str,
        num_prompts: int,
        group: int,
        length: int,
        device: str = "cpu",
        settings: ModelSettings | None = None,
    ) -> None:
        self.group, self.device = group, device
        settings = settings or ModelSettings()
        sampling = SamplingSettings(max_new_tokens=length, min_new_tokens=length - 1)
        self.module = GFlowNetModule(
            tasks=TASKS[:num_prompts], lora=LORA, model=settings, sampling=sampling, seed=0,
            objective=TrajectoryBalance(),
        )  # fmt: skip
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.module.policy = policy(model, dtype, settings)
        self.prompts = prompts(num_prompts)
        encode = self.module.policy.encode_prompt
        self.prompt_ids = {i: tuple(encode(p.rules, p.request)) for i, p in enumerate(self.prompts)}
        self.tokens_per_step = num_prompts * group * length
        self.clock = Clock(device)
        self._stream = 0
        self._trainer: Trainer | None = None

    def sampled(self) -> Any:
        """The next batch."""
        assert self._trainer is not None
        with self._trainer.precision_plugin.forward_context():
            drawn = self.module.sample(self.prompts, self.group, self.module.sampling, self._stream)
        self._stream += 1
        lengths = drawn.program_mask.sum(1).tolist()
        rows = [
            Trajectory(task, tuple(ids[:length]), LOG_REWARD, reference, log_prob)
            for task, ids, length, reference, log_prob in zip(
                drawn.prompt_index.tolist(),
                drawn.program_ids.tolist(),
                lengths,
                drawn.reference_log_prob.tolist(),
                drawn.log_prob.tolist(),
                strict=True,
            )
        ]
        return collate(rows, self.prompt_ids)

    def steps(self, number: int) -> list[dict[str, float]]:
        """Seconds of each part of so many steps; one more before them is not counted."""
        self.clock.steps = []
        self._trainer = Trainer(
            accelerator="gpu" if self.device == "cuda" else "cpu",
            devices=1,
            precision="bf16-mixed" if self.device == "cuda" else "32-true",
            max_steps=number + 1,
            callbacks=[self.clock],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            gradient_clip_val=1.0,
        )
        self._trainer.fit(self.module, Fresh(self, number + 1))
        return self.clock.steps[1:]

    def training_flops(self, model: str) -> float:
        """Floating-point operations that the training part of a step needs.

        Two for each weight and token in the forward pass, and as many for the activations' gradient (the base
        weights have none); attention as 4 times context and width a token and layer, thrice. A prompt counts
        once a group.
        """
        shape = SHAPES[model]
        new = self.tokens_per_step
        shared = sum(len(ids) for ids in self.prompt_ids.values())
        length = self.module.sampling.max_new_tokens
        context = shared / len(self.prompt_ids) + length / 2
        width = shape.heads * shape.head
        attention = 4.0 * shape.layers * width * context * new
        head = 2.0 * shape.vocabulary * shape.hidden * new
        return 2.0 * (2.0 * shape.weights * (new + shared) + head) + 3.0 * attention

"""Settings of a writer's training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from synthstats_lightning.pretraining.precision import in_bfloat16
from synthstats_lightning.pretraining.settings import ModelSettings


@dataclass(frozen=True)
class WriterSize(ModelSettings):
    """Size of a writer.

    Attributes:
        vocabulary: Tokens, pointers and bytes included.
        layers: Number of transformer layers.
        feed_forward: Width of the feed-forward part.
        context: Longest prompt and program in tokens.
        slot_width: Units of the perceptron behind a digest position's sum; 0 for none.
    """

    vocabulary: int = 1280
    layers: int = 6
    feed_forward: int = 512
    context: int = 1024
    slot_width: int = 384


@dataclass(frozen=True)
class Stage:
    """A part of the training with examples of its own; the learning rate goes on through all stages.

    Attributes:
        share: Share of the steps, of the sum over all stages.
        covariates: Weights of the numbers of covariates; of the wide grammar, which has weights of its own,
            the largest number counts.
        blind: Share of rows that have a blind program besides the informed ones.
        grammar: `"narrow"`: the tiny policy's grammar; `"wide"`: all of the wide one.
    """

    share: float = 1.0
    covariates: Mapping[int, float] = field(default_factory=lambda: {1: 1.0})
    blind: float = 0.25
    grammar: str = "narrow"

    def __post_init__(self) -> None:
        if not self.share > 0:
            raise ValueError(f"share must be positive, got {self.share}")
        if not 0 <= self.blind <= 1:
            raise ValueError(f"blind must be from 0 to 1, got {self.blind}")
        if self.grammar not in ("narrow", "wide"):
            raise ValueError(f"grammar must be 'narrow' or 'wide', got {self.grammar!r}")


@dataclass(frozen=True)
class WriterTraining:
    """How a writer is trained.

    Attributes:
        stages: The curriculum, in order.
        start: A writer whose weights and tokens a new training begins with: `"writer"`, the bundled one, or
            the folder of one, of the size asked for. Random weights by default.
        steps: Optimiser steps of all stages.
        rows: Requests a step and process.
        pool: Batches that are drawn at once and sorted by length, so that a batch has rows of like length.
        programs: Programs that are drawn for each request, each tried once.
        most_accepted: Accepted programs of a request that enter a row, the first ones.
        sections_lost: Share of digests that lose sections at random.
        plan_weight: Weight of the plan head's loss.
        learning_rate: Constant between warm-up and decay.
        warmup: Steps of linear warm-up.
        decay: Share of the steps, the last ones, over which the rate falls to 0 linearly.
        weight_decay: On the matrices of the layers only.
        max_gradient_norm: Gradients are scaled down to this norm.
        precision: Of matrix products: `"bf16"`, `"fp32"`, or `"auto"`, which is the first where the processor
            has instructions for it, else the second.
        compile: Whether the layers are compiled, which needs a C++ compiler.
        processes: Processes, one core each, that average their gradients.
        seed: Seed of everything.
        tokenizer_examples: Requests that the tokenizer is trained on.
        evaluation_pairs: Simulated pairs of program and data that the gain is measured on, always the same.
        evaluate_every: Steps between measurements of the gain.
        save_every: Steps between saved states, from which a training that was ended goes on.
        log_every: Steps between log lines.
    """

    stages: list[Stage]
    start: str | None = None
    steps: int = 1000
    rows: int = 24
    pool: int = 16
    programs: int = 8
    most_accepted: int = 3
    sections_lost: float = 0.35
    plan_weight: float = 1.0
    learning_rate: float = 3e-3
    warmup: int = 100
    decay: float = 0.25
    weight_decay: float = 0.05
    max_gradient_norm: float = 1.0
    precision: str = "auto"
    compile: bool = True
    processes: int = 1
    seed: int = 1
    tokenizer_examples: int = 1500
    evaluation_pairs: int = 400
    evaluate_every: int = 200
    save_every: int = 200
    log_every: int = 50

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages must hold at least one stage, got none")
        in_bfloat16(self.precision)  # which checks it
        for name in ("steps", "rows", "pool", "programs", "most_accepted", "processes", "evaluation_pairs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def stage_at(self, step: int) -> Stage:
        """The stage that a step belongs to.

        Args:
            step: Number of the step, from 0.
        """
        total, reached = sum(stage.share for stage in self.stages), 0.0
        for stage in self.stages:
            reached += stage.share / total
            if step < round(reached * self.steps):
                return stage
        return self.stages[-1]

    def rate_at(self, step: int) -> float:
        """The learning rate of a step: warm-up, constant, linear decay.

        Args:
            step: Number of the step, from 0.
        """
        left = (self.steps - step) / max(self.decay * self.steps, 1.0)
        return self.learning_rate * min(1.0, (step + 1) / self.warmup, left)

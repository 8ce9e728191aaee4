"""Settings of the tiny policy's pretraining."""

from __future__ import annotations

from dataclasses import dataclass

from synthstats_lightning.pretraining.precision import in_bfloat16


@dataclass(frozen=True)
class ModelSettings:
    """Size of the tiny policy.

    Attributes:
        vocabulary: Tokens of the tokenizer.
        hidden: Width of the model's hidden states.
        layers: Number of transformer layers.
        heads: Number of query heads.
        key_value_heads: Key and value heads.
        head: Width of a head.
        feed_forward: Width of the feed-forward part.
        context: Longest request plus program in tokens.
    """

    vocabulary: int = 1024
    hidden: int = 192
    layers: int = 4
    heads: int = 6
    key_value_heads: int = 2
    head: int = 32
    feed_forward: int = 448
    context: int = 512


@dataclass(frozen=True)
class StageSettings:
    """One stage of training: its own data, learning-rate schedule and fresh optimiser states.

    Attributes:
        steps: Number of optimiser steps.
        batch_size: Requests per step.
        programs_per_request: Programs per request.
        learning_rate: Peak of the cosine schedule.
        final_learning_rate: Its end, as a fraction of the peak.
        warmup: Steps of linear warm-up.
    """

    steps: int
    batch_size: int = 32
    programs_per_request: int = 3
    learning_rate: float = 3e-3
    final_learning_rate: float = 0.02
    warmup: int = 100


@dataclass(frozen=True)
class TrainingSettings:
    """How the tiny policy is trained.

    Attributes:
        stages: Stages of the training, in order.
        seed: Seed of the grammar, the initial weights and the order of everything.
        tokenizer_examples: Data sets that the tokenizer is trained on.
        weight_decay: On the matrices of the layers only.
        max_gradient_norm: Gradients are scaled down to this norm.
        precision: Of matrix products: `"bf16"` (weights stay in float32), `"fp32"`, or `"auto"`, which is
            the first where the processor has instructions for it, else the second.
        compile: Compile the layers, which needs a C++ compiler and takes about half the time off a step.
        threads: PyTorch threads; the weights depend on it in the last bits.
        log_every: Steps between log lines.
        temperature: The saved model at temperature 1 is the trained one at this temperature.
    """

    stages: list[StageSettings]
    seed: int = 1
    tokenizer_examples: int = 8000
    weight_decay: float = 0.05
    max_gradient_norm: float = 1.0
    precision: str = "auto"
    compile: bool = True
    threads: int = 1
    log_every: int = 50
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")
        in_bfloat16(self.precision)  # which checks it
        if not self.stages:
            raise ValueError("stages must hold at least one stage, got none")

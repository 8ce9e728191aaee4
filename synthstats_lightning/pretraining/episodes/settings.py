"""Settings of the episode policy's training."""

from __future__ import annotations

from dataclasses import dataclass

from synthstats_lightning.pretraining.settings import StageSettings, TrainingSettings


@dataclass(frozen=True)
class EpisodeTrainingSettings:
    """How a policy that writes programs is taught to experiment first.

    Attributes:
        steps: Number of optimiser steps.
        batch_size: Episodes a step.
        learning_rate: Peak of the cosine schedule.
        final_learning_rate: Its end, as a fraction of the peak.
        warmup: Steps of linear warm-up.
        context: Longest episode in tokens, and the positions that the model knows afterwards.
        seed: Of the episodes and of the new tokens' embeddings.
        weight_decay: On the matrices of the layers only.
        max_gradient_norm: Gradients are scaled down to this norm.
        precision: Of matrix products: `"bf16"`, `"fp32"` or `"auto"`.
        compile: Compile the layers, which needs a C++ compiler.
        threads: PyTorch threads; the weights depend on it in the last bits.
        log_every: Steps between log lines.
        temperature: The saved model at temperature 1 is the trained one at this temperature.

    Raises:
        ValueError: If a value is out of range.
    """

    steps: int
    batch_size: int = 24
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.02
    warmup: int = 50
    context: int = 768
    seed: int = 1
    weight_decay: float = 0.05
    max_gradient_norm: float = 1.0
    precision: str = "auto"
    compile: bool = True
    threads: int = 1
    log_every: int = 25
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "context", "threads", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        self.as_training()  # checks precision and temperature

    @property
    def stage(self) -> StageSettings:
        """The learning-rate schedule."""
        return StageSettings(
            self.steps,
            self.batch_size,
            learning_rate=self.learning_rate,
            final_learning_rate=self.final_learning_rate,
            warmup=self.warmup,
        )

    def as_training(self) -> TrainingSettings:
        """What the training of programs calls the same."""
        return TrainingSettings(
            [self.stage],
            seed=self.seed,
            weight_decay=self.weight_decay,
            max_gradient_norm=self.max_gradient_norm,
            precision=self.precision,
            compile=self.compile,
            threads=self.threads,
            log_every=self.log_every,
            temperature=self.temperature,
        )

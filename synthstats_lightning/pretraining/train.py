"""Training the tiny policy with the package's supervised objective."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from synthstats_lightning.objectives.supervised import supervised_loss
from synthstats_lightning.pretraining.attention import register
from synthstats_lightning.pretraining.batches import PackedBatch, packed_batches
from synthstats_lightning.pretraining.muon import Muon
from synthstats_lightning.pretraining.precision import in_bfloat16
from synthstats_lightning.pretraining.settings import StageSettings, TrainingSettings


def token_log_probs(model: Qwen3ForCausalLM, batch: PackedBatch, precision: str) -> Float[Tensor, "1 count"]:
    """Log-probabilities of the counted targets of a batch, in float32."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=in_bfloat16(precision)):
        hidden = model.model(
            input_ids=batch.tokens,
            position_ids=batch.positions,
            attention_mask=batch.visible[:, None],
            use_cache=False,
        ).last_hidden_state
        logits = model.lm_head(hidden[batch.counted])
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    return log_probs.gather(-1, batch.targets[batch.counted][:, None]).T


def learning_rate(step: int, stage: StageSettings) -> float:
    """Linear warm-up, then a cosine down to the final fraction."""
    if step < stage.warmup:
        return stage.learning_rate * (step + 1) / stage.warmup
    progress = (step - stage.warmup) / max(1, stage.steps - stage.warmup)
    low = stage.final_learning_rate
    return stage.learning_rate * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * progress)))


def make_optimizers(model: Qwen3ForCausalLM, weight_decay: float) -> list[torch.optim.Optimizer]:
    """Muon on the layers' matrices; AdamW on embeddings and norms, without weight decay."""
    matrices = [parameter for parameter in model.model.layers.parameters() if parameter.ndim == 2]
    chosen = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    return [
        Muon(matrices, weight_decay=weight_decay),
        torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]


def train(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    settings: TrainingSettings,
    *,
    context: int,
    log: Callable[[str], None] = print,
) -> float:
    """Trains the model in place, stage after stage.

    Args:
        model: Model with random weights.
        tokenizer: The tokenizer of the policy.
        settings: Stages, learning rates and sizes of the training.
        context: Longest packed row in tokens.
        log: Takes each log line.

    Returns:
        Mean loss of the last tenth of the last stage, in nats per program token.
    """
    model.set_attn_implementation(register())
    losses: list[float] = []
    with compiled_layers(model, settings.compile):
        model.train()
        for index, stage in enumerate(settings.stages):
            rng = Random(settings.seed + 1 + index)  # noqa: S311
            losses = train_stage(model, tokenizer, settings, stage, rng=rng, context=context, log=log)
    model.eval()
    model.set_attn_implementation("sdpa")
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def train_stage(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    settings: TrainingSettings,
    stage: StageSettings,
    *,
    rng: Random,
    context: int,
    log: Callable[[str], None],
) -> list[float]:
    """Trains the model for one stage and returns the loss of every step, in nats per program token."""
    batches = packed_batches(
        rng,
        tokenizer,
        batch_size=stage.batch_size,
        num_programs=stage.programs_per_request,
        max_length=context,
    )
    return _steps(model, batches, settings, stage, log)


def train_on(
    model: Qwen3ForCausalLM,
    batches: Iterator[PackedBatch],
    settings: TrainingSettings,
    stage: StageSettings,
    log: Callable[[str], None] = print,
) -> list[float]:
    """Trains the model for one stage on given batches, and leaves it in evaluation mode.

    Args:
        model: The model, which has the attention of `attention.register`.
        batches: At least `stage.steps`.
        settings: Steps, batch size and learning rate of this stage.
        stage: Steps and learning rate.
        log: Takes each log line.

    Returns:
        The loss of every step, in nats per counted token.
    """
    with compiled_layers(model, settings.compile):
        model.train()
        losses = _steps(model, batches, settings, stage, log)
    model.eval()
    return losses


@contextmanager
def compiled_layers(model: Qwen3ForCausalLM, wanted: bool) -> Iterator[None]:
    """Within this context the layers are compiled, where that is wanted."""
    if wanted:
        for layer in model.model.layers:
            layer.compile(dynamic=True)
    yield
    for layer in model.model.layers:
        layer._compiled_call_impl = None  # what `compile` has set: sampling afterwards needs no compiled code


def _steps(
    model: Qwen3ForCausalLM,
    batches: Iterator[PackedBatch],
    settings: TrainingSettings,
    stage: StageSettings,
    log: Callable[[str], None],
) -> list[float]:
    optimizers = make_optimizers(model, settings.weight_decay)
    losses: list[float] = []
    started, tokens = time.perf_counter(), 0
    for step in range(stage.steps):
        batch = next(batches)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, stage)
        log_probs = token_log_probs(model, batch, settings.precision)
        loss = supervised_loss(log_probs, torch.ones_like(log_probs, dtype=torch.bool))
        model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_gradient_norm)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(float(loss.detach()))
        tokens += batch.tokens.numel()
        if (step + 1) % settings.log_every == 0 or step + 1 == stage.steps:
            recent = losses[-settings.log_every :]
            seconds = time.perf_counter() - started
            log(
                f"step {step + 1}/{stage.steps}  loss {sum(recent) / len(recent):.4f}  "
                f"gradient norm {float(norm):.2f}  tokens/s {tokens / seconds:.0f}  seconds {seconds:.0f}"
            )
    return losses

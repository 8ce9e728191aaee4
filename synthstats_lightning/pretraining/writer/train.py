"""A writer's training: resumable after any step, in one process or several that average their gradients."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from transformers import PreTrainedTokenizerFast

from synthstats_lightning.pretraining.attention import register
from synthstats_lightning.pretraining.muon import Muon
from synthstats_lightning.pretraining.train import compiled_layers
from synthstats_lightning.pretraining.writer.gain import Gain, measure_gain
from synthstats_lightning.pretraining.writer.plan import PlanClasses
from synthstats_lightning.pretraining.writer.pupil import (
    Pupil,
    new_model,
    new_tokenizer,
    spelling_for,
    started,
)
from synthstats_lightning.pretraining.writer.rows import writer_batch
from synthstats_lightning.pretraining.writer.settings import WriterSize, WriterTraining
from synthstats_lightning.pretraining.writer.sources import fixed_pairs, pool_rows
from synthstats_lightning.pretraining.writer.tokenizer import save_writer_tokenizer
from synthstats_lightning.runtime.durable_files import replacing

STATE = "state.pt"
"""File of the output folder that a training goes on from."""
GAINS = "gain.jsonl"
"""File of the output folder with every measurement."""
Log = Callable[[str], None]


def train_writer(
    output: Path, training: WriterTraining, size: WriterSize, rank: int, log: Log, stop: int | None = None
) -> Gain | None:
    """Trains a writer, or goes on from what is in its folder, and saves it.

    Args:
        output: Folder of state, measurements and, from the first saved state on, the policy itself.
        training: How it is trained.
        size: Size of the network.
        rank: Number of this process; the first one saves and measures.
        log: Takes each line.
        stop: Step before which this call ends as if it had been killed; the last by default.

    Returns:
        The last measurement; `None` of another process than the first, or where nothing was measured.

    Raises:
        FileNotFoundError: If there is no writer to start with where the settings name one.
        ValueError: If the folder's state is that of other settings, or the writer to start with has another
            size.
    """
    state = _state(output, training, size)
    pupil, tokenizer = _pupil(output, training, size, state)
    spelling, classes = spelling_for(tokenizer, size), pupil.classes
    pupil.model.set_attn_implementation(register())
    optimizers = writer_optimizers(pupil, training)
    step, seconds = _restored(state, pupil, optimizers)
    if rank == 0:
        _forget_gains(output / GAINS, step)
    pairs = fixed_pairs(training, training.evaluation_pairs) if rank == 0 else []
    began, gain, pool = time.perf_counter() - seconds, None, -1
    losses: list[float] = []
    tokens = 0
    with compiled_layers(pupil.model, training.compile):
        while step < (training.steps if stop is None else stop):
            if step // training.pool != pool:
                pool = step // training.pool
                batches = pool_rows(training, spelling, size.context, rank, pool)
            batch = writer_batch(batches[step % training.pool], spelling, classes)
            tokens += batch.packed.tokens.numel()
            losses.append(_step(pupil, optimizers, batch, training, step))
            step += 1
            last, minutes = step == training.steps, (time.perf_counter() - began) / 60
            if rank == 0 and (last or step % training.log_every == 0):
                recent = losses[-training.log_every :]
                log(
                    f"step {step}/{training.steps}  minutes {minutes:.1f}  loss"
                    f" {sum(recent) / len(recent):.4f} nats a token  tokens/s"
                    f" {tokens / (60 * minutes - seconds):.0f}"
                )
            if rank == 0 and (last or step % training.evaluate_every == 0):
                gain = measure_gain(pupil, spelling, pairs, training.precision)
                log(f"step {step}  minutes {minutes:.1f}  {gain}")
                found = {"step": step, "minutes": round(minutes, 2), **asdict(gain)}
                with (output / GAINS).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
            if rank == 0 and (last or step % training.save_every == 0):
                save_policy(pupil, tokenizer, output)  # a state goes on with the tokenizer beside it
                _save(output, training, size, pupil, optimizers, step, time.perf_counter() - began)
    return gain


def writer_optimizers(pupil: Pupil, training: WriterTraining) -> list[torch.optim.Optimizer]:
    """Muon on the layers' matrices; AdamW on embeddings, norms and the plan head, without weight decay.

    Args:
        pupil: The network that learns.
        training: Weight decay of the matrices.
    """
    matrices = [parameter for parameter in pupil.model.model.layers.parameters() if parameter.ndim == 2]
    chosen = {id(parameter) for parameter in matrices}
    others = [parameter for parameter in pupil.parameters() if id(parameter) not in chosen]
    return [
        Muon(matrices, weight_decay=training.weight_decay),
        torch.optim.AdamW(others, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]


def _step(
    pupil: Pupil,
    optimizers: list[torch.optim.Optimizer],
    batch: Any,
    training: WriterTraining,
    step: int,
) -> float:
    """One optimiser step; returns the programs' loss in nats a token."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = training.rate_at(step)
    log_probs, plan = pupil(batch, training.precision)
    loss = -log_probs.mean()
    # a plan counts as so many nats of its program
    whole = loss + training.plan_weight * plan.total() * len(batch.starts) / len(log_probs)
    pupil.zero_grad(set_to_none=True)
    whole.backward()
    parameters = list(pupil.parameters())
    for parameter in parameters:
        if parameter.grad is None:  # of the table of levels, in a process none of whose rows has a digest
            parameter.grad = torch.zeros_like(parameter)
    average_gradients(parameters)
    nn.utils.clip_grad_norm_(parameters, training.max_gradient_norm)
    for optimizer in optimizers:
        optimizer.step()
    return float(loss.detach())


def average_gradients(parameters: list[nn.Parameter]) -> None:
    """Replaces gradients by their means over all processes; alone it does nothing.

    Args:
        parameters: The same in all processes; each of them has a gradient.
    """
    if not distributed.is_initialized():
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    flat /= distributed.get_world_size()
    parts = torch.split(flat, [each.numel() for each in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def save_policy(pupil: Pupil, tokenizer: Any, output: Path) -> None:
    """Writes what `load_policy` loads: the language model in half precision, and the tokenizer.

    Args:
        pupil: The network; its plan head is left out.
        tokenizer: The tokenizer that it writes with.
        output: An existing folder.
    """
    weights = {name: value.to(torch.bfloat16) for name, value in pupil.model.state_dict().items()}
    weights.pop("lm_head.weight")  # tied
    pupil.model.save_pretrained(output, state_dict=weights)
    save_writer_tokenizer(tokenizer, output)


def _forget_gains(path: Path, step: int) -> None:
    """Drops measurements behind a step, which come from before the training was ended."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n") or json.loads(line)["step"] > step:
            break
        kept.append(line)
    with replacing(path) as new:
        new.write_text("".join(kept), encoding="utf-8")


def _settings(training: WriterTraining, size: WriterSize) -> str:
    return json.dumps([asdict(training), asdict(size)], sort_keys=True)


def _save(
    output: Path,
    training: WriterTraining,
    size: WriterSize,
    pupil: Pupil,
    optimizers: list[torch.optim.Optimizer],
    step: int,
    seconds: float,
) -> None:
    state = {
        "settings": _settings(training, size),
        "classes": asdict(pupil.classes),
        "pupil": pupil.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "step": step,
        "seconds": seconds,
    }
    with replacing(output / STATE) as path:
        torch.save(state, path)


def _state(output: Path, training: WriterTraining, size: WriterSize) -> dict[str, Any] | None:
    """What was saved to go on from; `None` in a new folder."""
    path = output / STATE
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state["settings"] != _settings(training, size):
        raise ValueError(
            f"output must be a new folder, or one of a training with the same settings, got {str(output)!r}"
        )
    return state


def _pupil(
    output: Path, training: WriterTraining, size: WriterSize, state: dict[str, Any] | None
) -> tuple[Pupil, PreTrainedTokenizerFast]:
    """The network that learns, before a saved state is put in place, and its tokenizer."""
    if state is None and training.start is not None:
        return started(training.start, size, training)
    tokenizer, classes = new_tokenizer(size, training) if state is None else _vocabulary(output, state)
    return Pupil(new_model(size, tokenizer, training.seed), classes), tokenizer


def _vocabulary(output: Path, state: dict[str, Any]) -> tuple[PreTrainedTokenizerFast, PlanClasses]:
    """Tokenizer and classes of a training that goes on: those that its weights were trained with.

    They are not made anew, because the grammar may have changed since.
    """
    classes = {name: tuple(values) for name, values in state["classes"].items()}
    return PreTrainedTokenizerFast.from_pretrained(output), PlanClasses(**classes)


def _restored(
    state: dict[str, Any] | None, pupil: Pupil, optimizers: list[torch.optim.Optimizer]
) -> tuple[int, float]:
    """Puts a saved state in place; steps and seconds so far."""
    if state is None:
        return 0, 0.0
    pupil.load_state_dict(state["pupil"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return int(state["step"]), float(state["seconds"])

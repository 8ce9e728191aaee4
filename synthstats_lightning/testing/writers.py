"""A small writer with random weights: a policy that points at columns and reads digests."""

from __future__ import annotations

from pathlib import Path

import torch

from synthstats_lightning.pretraining.writer.pupil import Pupil, new_model, new_tokenizer
from synthstats_lightning.pretraining.writer.settings import Stage, WriterSize, WriterTraining
from synthstats_lightning.pretraining.writer.train import save_policy

SMALL = WriterSize(
    vocabulary=640, hidden=32, layers=2, heads=4, key_value_heads=2, head=8, feed_forward=48, slot_width=16
)
SHORT = WriterTraining(
    [Stage(covariates={1: 1.0, 2: 1.0}, blind=0.5)],
    steps=20,
    rows=2,
    warmup=2,
    pool=2,
    programs=4,
    precision="fp32",
    compile=False,
    tokenizer_examples=25,
    evaluation_pairs=4,
    evaluate_every=20,
    save_every=3,
    log_every=10,
)


def save_random_writer(folder: Path, size: WriterSize = SMALL) -> Path:
    """Saves a writer that has learned nothing.

    Args:
        folder: Where the policy is saved.
        size: Layers and widths of the network.
    """
    tokenizer, classes = new_tokenizer(size, SHORT)
    pupil = Pupil(new_model(size, tokenizer, seed=2), classes)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(3)
        pupil.model.model.embed_tokens.outer.normal_(std=0.1)
        for parameter in pupil.model.model.layers.parameters():
            parameter.mul_(4.0) if parameter.ndim == 2 else None
    save_policy(pupil, tokenizer, folder)
    return folder

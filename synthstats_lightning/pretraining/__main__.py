"""`python -m synthstats_lightning.pretraining --config configs/policy/tiny_pretraining.yaml --output DIR`."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import jsonargparse
import torch

from synthstats_lightning.pretraining.evaluate import evaluate
from synthstats_lightning.pretraining.model import make_model, make_tokenizer, sharpen
from synthstats_lightning.pretraining.settings import ModelSettings, TrainingSettings
from synthstats_lightning.pretraining.tokenizer import save_tokenizer
from synthstats_lightning.pretraining.train import train

PROGRAM_NAME = "python -m synthstats_lightning.pretraining"


def pretrain(
    output: Path,
    training: TrainingSettings,
    model: ModelSettings = ModelSettings(),  # noqa: B008
    evaluation_data_sets: int = 50,
) -> None:
    """Trains the bundled tiny policy from scratch and saves it.

    Args:
        output: Folder for the model, the tokenizer and `pretraining.json` (settings and measured figures).
        training: How it is trained.
        model: Size of the model.
        evaluation_data_sets: Unseen made-up data sets on which programs are sampled and checked at the end.
    """
    output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(training.threads)
    started = time.perf_counter()
    tokenizer = make_tokenizer(training.seed, training.tokenizer_examples, model.vocabulary)
    policy = make_model(model, tokenizer, training.seed)
    loss = train(policy, tokenizer, training, context=model.context, log=_log)
    seconds = time.perf_counter() - started
    sharpen(policy, training.temperature)
    policy.save_pretrained(output)
    save_tokenizer(tokenizer, output)
    measured = evaluate(policy, tokenizer, seed=training.seed + 1000, data_sets=evaluation_data_sets)
    figures = {
        "model": asdict(model),
        "training": asdict(training),
        "parameters": sum(parameter.numel() for parameter in policy.parameters()),
        "loss": round(loss, 4),
        "seconds": round(seconds),
        "valid": measured.valid,
        "problems": measured.problems,
    }
    (output / "pretraining.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    _log(f"{measured.valid:.1%} of {measured.programs} programs for unseen data sets pass the static check")


def _log(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(args: list[str] | None = None) -> None:
    """Runs `pretrain` from the command line."""
    jsonargparse.auto_cli(pretrain, args=args, as_positional=False, prog=PROGRAM_NAME, allow_abbrev=False)


if __name__ == "__main__":
    main()

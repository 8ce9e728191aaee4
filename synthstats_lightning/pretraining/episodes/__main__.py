"""Teaches the bundled tiny policy to experiment before it writes a program, by imitating made-up episodes.

`python -m synthstats_lightning.pretraining.episodes --config configs/policy/tiny_episodes_pretraining.yaml`.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

import jsonargparse
import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from synthstats_lightning.policy import load_policy
from synthstats_lightning.pretraining.attention import register
from synthstats_lightning.pretraining.episodes.batches import add_phrases, episode_batches
from synthstats_lightning.pretraining.episodes.evaluate import evaluate_episodes
from synthstats_lightning.pretraining.episodes.settings import EpisodeTrainingSettings
from synthstats_lightning.pretraining.model import sharpen
from synthstats_lightning.pretraining.tokenizer import save_tokenizer
from synthstats_lightning.pretraining.train import train_on

PROGRAM_NAME = "python -m synthstats_lightning.pretraining.episodes"


def pretrain_episodes(output: Path, training: EpisodeTrainingSettings, policy: str = "tiny") -> None:
    """Trains a policy of the tiny form on made-up episodes and saves it.

    Args:
        output: Folder for the model, the tokenizer and `pretraining.json` (settings and figures).
        training: How it is trained.
        policy: What it starts from: the bundled `tiny`, or a folder with a model of its form.
    """
    output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(training.threads)
    started = time.perf_counter()
    model, tokenizer = starting_point(policy, training.context, training.seed)
    rng = Random(training.seed)  # noqa: S311
    model.set_attn_implementation(register())
    batches = episode_batches(rng, tokenizer, batch_size=training.batch_size, max_length=training.context)
    losses = train_on(model, batches, training.as_training(), training.stage, log=_log)
    model.set_attn_implementation("sdpa")
    last = losses[-max(1, len(losses) // 10) :]
    sharpen(model, training.temperature)
    model.save_pretrained(output)
    save_tokenizer(tokenizer, output)
    seconds = time.perf_counter() - started
    measured = evaluate_episodes(load_policy(str(output), lora=None), seed=training.seed + 1000)
    figures = {
        "policy": policy,
        "training": asdict(training),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "loss": round(sum(last) / len(last), 4),
        "seconds": round(seconds),
        "episodes": {name: each._asdict() for name, each in measured.items()},
    }
    (output / "pretraining.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, each in measured.items():
        _log(f"{name}: {each.valid:.0%} of episodes end with a program that passes the static check")


def starting_point(policy: str, context: int, seed: int) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A policy with room for episodes and tokens for their fixed phrases.

    A phrase starts with the mean embedding of the tokens that it was made of before.

    Args:
        policy: Name or folder of the policy that training starts from.
        context: Positions that it is to know.
        seed: Of the rows that resizing makes before they are set.
    """
    torch.manual_seed(seed)
    loaded = load_policy(policy, lora=None)
    model: Qwen3ForCausalLM = loaded.language_model.requires_grad_(True)
    tokenizer: PreTrainedTokenizerFast = loaded.tokenizer
    known, spelled = len(tokenizer), copy.deepcopy(tokenizer)
    added = add_phrases(tokenizer)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    embedding = model.get_input_embeddings().weight
    with torch.no_grad():
        for token in range(known, known + added):
            pieces = spelled(tokenizer.convert_ids_to_tokens(token))["input_ids"]
            embedding[token] = embedding[pieces].mean(0)
    model.config.max_position_embeddings = context
    tokenizer.model_max_length = context
    return model, tokenizer


def _log(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(args: list[str] | None = None) -> None:
    """Runs `pretrain_episodes` from the command line."""
    jsonargparse.auto_cli(
        pretrain_episodes, args=args, as_positional=False, prog=PROGRAM_NAME, allow_abbrev=False
    )


if __name__ == "__main__":
    main()

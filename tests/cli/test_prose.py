"""A model that writes prose: the run ends within its warm-up, and says why."""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from synthstats_lightning.cli.main import main

WORDS = """
sure here is a model of the data that you asked for it has mean and spread which grow with age we assume each
value to be normal around a line one could also think about curves but first let us look at what we know
length depends on years so an answer may begin like this
"""
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PARAMETERS = 50_000_000


def save_prose_model(folder: Path) -> int:
    """A chat model of 50 million random numbers whose words are those of prose; how many numbers it has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    words = [*special, *dict.fromkeys(WORDS.split()), ".", ","]
    letters = random.Random(0)
    while len(words) < 8000:
        word = "".join(letters.choices("aeioulnrst", k=letters.randint(2, 8)))
        words += [word] if word not in words[-200:] else []
    words = list(dict.fromkeys(words))
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="."))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=special[1:],
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=13,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fit_of_a_model_that_writes_prose_ends_within_its_warm_up(tmp_path: Path, capsys: Any) -> None:
    model = tmp_path / "model"
    number = save_prose_model(model)
    assert abs(number - PARAMETERS) < 0.1 * PARAMETERS
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "fit",
                "--config=quickstart",
                "--config=policy/tiny",
                f"--model.init_args.policy={model}",
                f"--trainer.logger.init_args.save_dir={tmp_path}",
                "--scoring.warmup_programs=12",
                "--scoring.sampling.max_new_tokens=40",
                "--model.init_args.sampling.max_new_tokens=40",
            ]
        )
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert re.search(r"warm-up +failed +0 of 12 distinct programs have a score", said)
    assert "none of the 12 distinct programs of the warm-up has a score" in said
    assert "scoring.require_scored: false" in said
    assert "a program as it was extracted" in said
    metrics = tmp_path / "quickstart" / "version_0" / "metrics.csv"
    rows = list(csv.DictReader(metrics.open())) if metrics.is_file() else []
    assert not [row for row in rows if row.get("train/loss")]

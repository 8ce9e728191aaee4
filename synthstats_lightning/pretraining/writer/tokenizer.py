"""The tokenizer of a writer: pieces of the tiny policy's, and a token for each pointer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

from transformers import PreTrainedTokenizerFast

from synthstats_lightning.policy.pointers.pieces import source_pieces
from synthstats_lightning.policy.pointers.request import request_text
from synthstats_lightning.policy.pointers.spelling import KEY, POINTING
from synthstats_lightning.policy.pointers.table import pointer_table
from synthstats_lightning.policy.pointers.vocabulary import POINTERS, SPECIAL_TOKENS
from synthstats_lightning.pretraining.tokenizer import PHRASES, PIECES, save_tokenizer, train_tokenizer
from synthstats_lightning.pretraining.writer.examples import Example

BEGINNING = r"with pm\.Model\(\) as model:\n    (?:pm\.[A-Za-z]+\(\"y\", )?"
"""What programs begin with: a piece, so that the response's distribution is the first choice."""


def writer_tokenizer(examples: Iterable[Example], vocabulary: int, seed: int) -> PreTrainedTokenizerFast:
    """Trains the tokenizer of a writer.

    Args:
        examples: What its texts are taken from.
        vocabulary: Tokens, pointers and the 256 bytes included.
        seed: Of the pointers that are handed out.

    Raises:
        ValueError: If `vocabulary` does not leave room for bytes and special tokens.
    """
    rng = Random(seed)  # noqa: S311
    texts = (text for example in examples for text in _texts(example, rng))
    pieces = PIECES.replace(PHRASES[0], BEGINNING, 1)
    return train_tokenizer(texts, vocabulary, SPECIAL_TOKENS, pieces)


def save_writer_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Saves the tokenizer, its spelling declared.

    Args:
        tokenizer: What `writer_tokenizer` has made.
        folder: Where to, an existing folder.
    """
    save_tokenizer(tokenizer, folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {KEY: POINTING}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _texts(example: Example, rng: Random) -> Iterable[str]:
    """Stretches of text between pointers."""
    table = pointer_table(example.facts, rng)
    request = request_text(example.facts, table)
    for pointer in POINTERS:
        request = request.replace(pointer, "\0")
    yield from filter(None, request.split("\0"))
    for program in example.programs:
        yield from filter(None, source_pieces(program.source, table)[::2])

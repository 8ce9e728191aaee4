"""The tiny policy's tokenizer: byte-level BPE whose pieces keep column names copyable.

A column name must be cut into the same tokens wherever it stands: at a line's start in a prompt, after a
bracket, an operator or a space in a program. So text is cut first, by one regular expression, into pieces
that never hold a name together with what surrounds it; BPE then merges inside pieces only. Fixed phrases of
programs and prompts are pieces of their own and become single tokens, which keeps programs short.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, TASK, PROGRAM, END = "<|pad|>", "<|task|>", "<|program|>", "<|end|>"
SPECIAL_TOKENS = (PAD, TASK, PROGRAM, END)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    f"{{% if message['role'] == 'user' %}}{{{{ '{TASK}' + message['content'] }}}}"
    f"{{% elif message['role'] == 'assistant' %}}{{{{ '{PROGRAM}' + message['content'] + '{END}' }}}}"
    "{% endif %}{% endfor %}"
    f"{{% if add_generation_prompt %}}{{{{ '{PROGRAM}' }}}}{{% endif %}}"
)
"""Renders the request and the program; the rules (system message) are the same everywhere, so left out."""

PHRASES = (
    r"with pm\.Model\(\) as model:\n    ",
    r"\)*\n    (?:pm\.[A-Za-z]+\(\"y\", )?",
    r" = pm\.[A-Za-z]+\(\"",
    r"\*?pt\.[a-z0-9]+\(",
    r", observed=",
    r"[,/]? ?(?:logit_p|sigma)=",
    r"\", 0, ",
    r"\nrows: ",
    r"\nresponse ",
    r": (?:continuous|count|integer|binary), ",
    r" to ",
    r"\nfirst values of ",
)
"""Pieces that hold fixed text, in order of preference."""

PIECES = "|".join((*PHRASES, r"\n", r"[0-9]", r" ?[A-Za-z]+", r"\"?[^A-Za-z0-9\n\"]+", r"\"", r"[\s\S]"))


def train_tokenizer(
    texts: Iterable[str],
    vocabulary: int,
    special: Sequence[str] = SPECIAL_TOKENS,
    pieces: str = PIECES,
) -> PreTrainedTokenizerFast:
    """Trains the tokenizer.

    Args:
        texts: Requests and programs.
        vocabulary: Tokens, special ones and the 256 bytes included.
        special: Tokens that no text is made of, `PAD`, `TASK` and `END` among them.
        pieces: Regular expression of what merges stay within.

    Raises:
        ValueError: If `vocabulary` does not leave room for bytes and special tokens.
    """
    smallest = 256 + len(special)
    if vocabulary <= smallest:
        raise ValueError(f"vocabulary must be above {smallest}, got {vocabulary}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=TASK,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Saves the tokenizer so that transformers 4 and 5 load it, its chat template in a file of its own."""
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"  # 5 writes a name that 4 does not know
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

"""How a base model is loaded, asked and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from synthstats_lightning.policy.text.stops import check_stop_strings
from synthstats_lightning.programs.answers import Thoughts


@dataclass(frozen=True)
class ModelSettings:
    """How the base model is loaded, asked and read.

    Attributes:
        dtype: Number type of the base weights; `"auto"` takes what they were saved in, and float32 for the
            bundled policy. Adapters are always float32.
        load_in_4bit: Quantise the base weights to 4 bits (NF4); needs a CUDA device and the `quantization`
            extra.
        gradient_checkpointing: Recompute activations in the backward pass: less memory, more time.
        revision: Branch, tag or commit of a hub repository; `None` for its default branch.
        attention: Attention implementation that transformers is asked for, `None` for its own choice.
        micro_batch_tokens: Padded tokens, prompt and program, that one forward pass of the loss sees at most;
            a larger batch goes through in pieces, with one gradient and one optimiser step for all. `None`
            passes it at once. It costs one more forward pass, so that gradient checkpointing beside it saves
            little and costs another.
        compile: Compile the forward pass that yields log-probabilities with `torch.compile`. The first steps
            take minutes longer; sampling is as before.
        thoughts: What becomes of thoughts where a task does not say: `"none"` asks for none, `"latent"` keeps
            them in the trajectory, and `"stripped"` leaves them out of it.
        stop_strings: Strings that end an answer besides the stop tokens, for base models, which write on: for
            example three line breaks. The program ends before the string, the trajectory behind it.
        memory_gib: GiB that decoding may take, positive; `None` takes 80 % of what is free when it begins.
            Programs are decoded in blocks that fit; which they are does not change any of them.
        check_base: Refuse checkpoints of another base model, by its configuration and its weights; with
            `false` they are taken with a warning.

    Raises:
        ValueError: If `dtype` or `thoughts` is not one of the allowed, `micro_batch_tokens` is less than 1,
            `memory_gib` is not positive, or a stop string is empty.
    """

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    load_in_4bit: bool = False
    gradient_checkpointing: bool = False
    revision: str | None = None
    attention: str | None = None
    micro_batch_tokens: int | None = None
    compile: bool = False
    thoughts: Thoughts = "none"
    stop_strings: Sequence[str] = ()
    memory_gib: float | None = None
    check_base: bool = True

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("dtype", self.dtype, ("auto", "float32", "bfloat16", "float16")),
            ("thoughts", self.thoughts, ("none", "latent", "stripped")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
        if self.micro_batch_tokens is not None and self.micro_batch_tokens < 1:
            raise ValueError(f"micro_batch_tokens must be at least 1, got {self.micro_batch_tokens}")
        if self.memory_gib is not None and not self.memory_gib > 0:
            raise ValueError(f"memory_gib must be positive, got {self.memory_gib}")
        check_stop_strings(self.stop_strings)

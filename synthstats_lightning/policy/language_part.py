"""The part of a model that reads and writes text, of models that also see or hear."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from torch import nn

ALL_LINEAR = "all-linear"


class PolicyError(ValueError):
    """A model that cannot be a policy here, or an adapter of another model; and what can be done."""


class MissingModelError(PolicyError, OSError):
    """A model that is nowhere, or that cannot be reached."""


UNSUPPORTED = {
    "recurrent_gemma": "its layers keep their states themselves, so that passes disturb each other",
    "rwkv": "it reads padding as text and keeps its states in no cache",
    "xlstm": "it reads padding as text",
}
"""Architectures of transformers that cannot be sampled and trained in batches, and why."""


def check_supported(config: Any, name: str) -> None:
    """Refuses an architecture whose log-probabilities would be wrong.

    Args:
        config: Configuration of a transformers model.
        name: What the model was asked for by.

    Raises:
        PolicyError: If it is one of `UNSUPPORTED`.
    """
    kind = str(getattr(text_config(config), "model_type", ""))
    if kind in UNSUPPORTED:
        raise PolicyError(
            f"model {name!r} is a {kind} model, which cannot be trained here: {UNSUPPORTED[kind]};"
            " transformers' other causal language models can"
        )


def text_config(config: Any) -> Any:
    """Configuration of the language part; of a model of text alone the configuration itself.

    Args:
        config: Configuration of a transformers model.
    """
    return config.get_text_config(decoder=True) if is_multimodal(config) else config


def is_multimodal(config: Any) -> bool:
    """Whether a model has other parts than its language part.

    Args:
        config: Configuration of a transformers model.
    """
    find = getattr(config, "get_text_config", None)
    return find is not None and find(decoder=True) is not config


def text_backbone(model: Any) -> Any:
    """The language part without its head.

    Args:
        model: A transformers model that writes text.
    """
    base = model.base_model
    return base.get_decoder() if is_multimodal(model.config) and base is not model else base


def language_targets(model: nn.Module, targets: Sequence[str] | str) -> list[str] | str:
    """Layers of the language part that an adapter is put on, as PEFT takes them.

    Of a model of text alone what was given. Of others an expression that matches layers of the language part
    only: towers for pictures and sound have layers of the same names.

    Args:
        model: A transformers model that writes text.
        targets: Names of layers, or `"all-linear"`.

    Raises:
        ValueError: If the language part has no such layer.
    """
    from transformers.pytorch_utils import Conv1D

    if not is_multimodal(model.config):
        return targets if isinstance(targets, str) else list(targets)
    backbone, head = text_backbone(model), model.get_output_embeddings()  # type: ignore[operator]
    names = {id(module): name for name, module in model.named_modules()}
    prefix = names[id(backbone)]
    inside = {name for name, module in backbone.named_modules() if isinstance(module, nn.Linear | Conv1D)}
    wanted = {name.rsplit(".", 1)[-1] for name in inside}
    if targets != ALL_LINEAR:
        every = {name.rsplit(".", 1)[-1] for name, _ in backbone.named_modules()}
        wanted = every & set(targets)
    chosen = (
        [rf"{re.escape(prefix)}\.(?:.*\.)?(?:{'|'.join(map(re.escape, sorted(wanted)))})"] if wanted else []
    )
    head_name = names.get(id(head), "")
    if targets != ALL_LINEAR and head_name.rsplit(".", 1)[-1] in targets:
        chosen.append(re.escape(head_name))
    if not chosen:
        raise ValueError(f"target_modules must name layers of the language part, got {targets!r}")
    return "|".join(chosen)


def refused_layers(model: nn.Module, config: Any) -> list[str]:
    """Names of linear layers that PEFT puts no adapter on, because the model reads their weights itself.

    Args:
        model: A transformers model.
        config: What PEFT is asked for.
    """
    from peft.tuners import tuners_utils

    refuse: Any = getattr(tuners_utils, "_check_lora_target_modules_mamba", None)
    leaves = {
        name.rsplit(".", 1)[-1] for name, module in model.named_modules() if isinstance(module, nn.Linear)
    }
    refused = []
    for name in sorted(leaves) if refuse is not None else ():
        try:
            refuse(config, model, name)
        except ValueError:  # its way to say no
            refused.append(name)
    return refused


def load_processor_template(source: str, revision: str) -> str | None:
    """The chat template that a multimodal checkpoint keeps beside its tokenizer; `None` if there is none.

    Args:
        source: A folder or the name of a hub repository.
        revision: Branch, tag or commit.
    """
    from transformers.utils import cached_file

    options: dict[str, Any] = {"revision": revision, "_raise_exceptions_for_missing_entries": False}
    for name in ("chat_template.jinja", "chat_template.json"):
        path = cached_file(source, name, **options)
        if path is not None:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            return str(json.loads(text)["chat_template"]) if name.endswith(".json") else text
    return None

"""Loading a policy: the bundled tiny one, a folder, or a name on the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from synthstats_lightning.policy.base_identity import base_identity, check_adapter
from synthstats_lightning.policy.full.frozen_copy import FrozenCopy, train_all_weights
from synthstats_lightning.policy.full.trainer_mode import (
    Reference,
    TrainerMode,
    check_four_bits,
    check_trainer_mode,
)
from synthstats_lightning.policy.language_part import (
    MissingModelError,
    PolicyError,
    check_supported,
    is_multimodal,
    load_processor_template,
    text_backbone,
    text_config,
)
from synthstats_lightning.policy.log_probs import OutputHead
from synthstats_lightning.policy.lora import LoraSettings, add_adapter, load_adapter
from synthstats_lightning.policy.model_settings import ModelSettings
from synthstats_lightning.policy.pointers.spelling import KEY as SPELLING_KEY
from synthstats_lightning.policy.pointers.spelling import POINTING, PointerSpelling
from synthstats_lightning.policy.policy import Policy
from synthstats_lightning.policy.prompt_room import not_plain
from synthstats_lightning.policy.text.spelling import PlainSpelling, Spelling

TINY = "tiny"
"""Name of the bundled policy."""
TINY_EPISODES = "tiny-episodes"
"""Name of the bundled policy that experiments before it writes a program."""
WRITER = "writer"
"""Name of the bundled policy that points at columns and reads digests."""
BUNDLED = {TINY: "tiny", TINY_EPISODES: "tiny_episodes", WRITER: "writer"}
"""Names of the bundled policies and their folders."""


def load_policy(
    name_or_folder: str,
    lora: LoraSettings | None = LoraSettings(),  # noqa: B008 - frozen
    model: ModelSettings = ModelSettings(),  # noqa: B008 - frozen
    adapter: str | Path | None = None,
    seed: int | None = None,
    reference: Reference = "base",
    mode: TrainerMode = "lora",
    reference_device: str | None = None,
) -> Policy:
    """Load a causal language model and put an adapter on it, or have all of it learn.

    Args:
        name_or_folder: `"tiny"`, `"tiny-episodes"` or `"writer"` for a bundled policy, a folder with a
            transformers model, or a hub name.
        lora: The adapter; `None` for none, which leaves a frozen policy equal to its reference.
        model: How the base is loaded.
        adapter: Folder of a saved adapter to start from, instead of a new one by `lora`.
        seed: Seed of the new adapter's random half; `None` takes PyTorch's global generator.
        reference: Which policy the reference is: the `"base"` model alone, or the model with the `"adapter"`
            that was given, as it is in its folder.
        mode: What is trained: an adapter (`"lora"`), one on a base in 4 bits (`"qlora"`), or all weights
            (`"full"`), where `lora` has no part and the reference is a frozen copy of the model.
        reference_device: Where that copy stays; `None` has it go where the policy goes.

    Returns:
        The policy, in training mode if it learns, on the CPU (4-bit: on the current CUDA device).

    Raises:
        FileNotFoundError: If a folder, or the adapter in it, does not exist.
        MissingModelError: If the hub has no such model, or cannot be reached.
        ValueError: If compiling is asked for and impossible, the model's head is one that log-probabilities
            cannot be computed from, or arguments make no sense together; see `check_trainer_mode`.
        PolicyError: If the architecture is one that cannot be trained here, 4 bits are asked for and
            impossible, or the adapter is that of another base model.
    """
    check_trainer_mode(mode, adapter, reference, reference_device, model.load_in_4bit)
    if mode == "qlora":
        check_four_bits("trainer_mode: qlora")
        model = replace(model, load_in_4bit=True)
    if name_or_folder in BUNDLED and model.dtype == "auto":
        model = replace(model, dtype="float32")  # saved in half of that, to keep the package small
    with _quiet(name_or_folder in BUNDLED):
        language_model, tokenizer = _load_base(resolve(name_or_folder), model)
    language_model.requires_grad_(False)
    head = output_head(language_model)
    check_head(language_model, head)
    base = base_identity(language_model)
    frozen = None
    if mode == "full":
        frozen = FrozenCopy(language_model, head, reference_device)
        train_all_weights(language_model)
    if model.gradient_checkpointing:
        _checkpoint_gradients(language_model)
    adapted = language_model
    if adapter is not None:
        adapted = load_adapter(language_model, adapter)
    elif lora is not None and frozen is None:
        with torch.random.fork_rng(enabled=seed is not None):
            if seed is not None:
                torch.manual_seed(seed)
            adapted = add_adapter(language_model, lora)
    # asked for anew: the adapter may have wrapped it
    head = replace(head, module=language_model.get_output_embeddings())
    spelling = spelling_of(tokenizer, text_config(language_model.config), name_or_folder)
    policy = Policy(adapted, tokenizer, name_or_folder, head, model, base, spelling)
    if adapter is not None:
        check_adapter(adapter, policy.identity(), strict=model.check_base)
    if reference == "adapter":
        policy.refer_to_present()
    if frozen is not None:
        policy.frozen = frozen
        policy.memory.frozen = frozen.num_bytes if reference_device is None else 0
    return policy.train(policy.learns)


def spelling_of(tokenizer: Any, config: Any, name: str) -> Spelling:
    """How a policy words requests and programs: what the tokenizer's configuration declares.

    Args:
        tokenizer: A transformers tokenizer; `"spelling": "pointers"` in its configuration declares tokens
            that stand for columns.
        config: Configuration of the language model.
        name: Name of the policy, for messages.

    Raises:
        PolicyError: If it declares a spelling that there is not.
    """
    declared = tokenizer.init_kwargs.get(SPELLING_KEY)
    if declared is None:
        return PlainSpelling(tokenizer)
    if declared != POINTING:
        raise PolicyError(
            f"{SPELLING_KEY} of policy {name!r} must be {POINTING!r} or absent, got {declared!r}"
        )
    return PointerSpelling(tokenizer, int(config.vocab_size), name, hasattr(config, "slot_rows"))


def check_plain_source(name_or_folder: str, use: str) -> None:
    """Refuses, before anything is loaded, what a policy that words requests itself was not made for.

    Args:
        name_or_folder: As `load_policy` takes it; of a name on the hub nothing is known before it is loaded.
        use: What the policy is to be used for, for the message.

    Raises:
        FileNotFoundError: If it is written like a path and there is no such folder with a model in it.
        NotPlainError: If its tokenizer declares that its spelling is not plain.
    """
    path = Path(resolve(name_or_folder)) / "tokenizer_config.json"
    if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get(SPELLING_KEY) is not None:
        raise not_plain(name_or_folder, use)


def resolve(name_or_folder: str) -> str:
    """The folder of the bundled policy or the given folder, checked; a hub name as it is.

    Raises:
        FileNotFoundError: If it is written like a path and there is no such folder with a model in it.
    """
    if name_or_folder in BUNDLED:
        files = resources.files("synthstats_lightning.policy").joinpath(BUNDLED[name_or_folder])
        folder = Path(str(files))
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(
                f"the bundled policy {name_or_folder!r} is missing from this installation: {folder}"
            )
        return str(folder)
    folder = Path(name_or_folder).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"model folder {name_or_folder!r} holds no config.json")
        return str(folder)
    like_path = name_or_folder.startswith((".", "/", "~")) or name_or_folder.count("/") > 1
    if like_path:
        raise FileNotFoundError(
            f"no model {name_or_folder!r}: give {', '.join(map(repr, BUNDLED))}, an existing folder with a"
            " transformers model, or a hub name such as 'Qwen/Qwen3-0.6B'"
        )
    return name_or_folder


def _load_base(source: str, settings: ModelSettings) -> tuple[Any, Any]:
    """Model and tokenizer."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

    from synthstats_lightning.policy.pointers.model import register

    register()
    revision = settings.revision or "main"
    arguments: dict[str, Any] = {"dtype": settings.dtype, "revision": revision}
    if settings.attention is not None:
        arguments["attn_implementation"] = settings.attention
    if settings.load_in_4bit:
        arguments |= _four_bit_arguments()
    try:
        config = AutoConfig.from_pretrained(source, revision=revision)
        check_supported(config, source)
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision)
        # the loss needs the log-probabilities of the policy that samples, which has no dropout; that of the
        # adapter is a choice of `LoraSettings`
        for part in (config, text_config(config)):
            for name, value in part.to_dict().items():
                if "drop" in name and isinstance(value, float):
                    setattr(part, name, 0.0)
        kind = AutoModelForCausalLM if type(config) in AutoModelForCausalLM._model_mapping else None
        if kind is None and is_multimodal(config):
            kind = AutoModelForImageTextToText
        model = (kind or AutoModelForCausalLM).from_pretrained(source, config=config, **arguments)
        if is_multimodal(config) and not tokenizer.chat_template:
            tokenizer.chat_template = load_processor_template(source, revision)
    except OSError as error:
        reason = " ".join(str(error).split())
        raise MissingModelError(
            f"no model {source!r}: give {', '.join(map(repr, BUNDLED))}, an existing folder or a hub name"
            f" ({reason[:300]})"
        ) from error
    return model, tokenizer


def _checkpoint_gradients(model: Any) -> None:
    """Recompute activations in the backward pass."""
    # transformers 5 has renamed it
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    # the re-entrant form marks parameters ready twice under DDP, and needs inputs that require gradients
    enable({"use_reentrant": False})
    model.enable_input_require_grads()


@contextmanager
def _quiet(quiet: bool) -> Iterator[None]:
    """No progress bars of transformers, for what loads at once."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    if quiet and shown:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if quiet and shown:
            logging.enable_progress_bar()


def _four_bit_arguments() -> dict[str, Any]:
    check_four_bits("load_in_4bit: true")
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return {"quantization_config": config, "device_map": {"": torch.cuda.current_device()}}


def output_head(model: Any) -> OutputHead:
    """The output head of a transformers causal LM, with what its architecture does to the logits.

    Raises:
        ValueError: If the model has no output embedding.
    """
    module = model.get_output_embeddings()
    if module is None:
        raise ValueError(f"{type(model).__name__} has no output embedding; a causal language model is needed")
    config = text_config(model.config)
    softcap = getattr(config, "final_logit_softcapping", None)
    scale = float(getattr(config, "logit_scale", None) or 1.0) / float(
        getattr(config, "logits_scaling", None) or 1.0
    )
    return OutputHead(module, scale, None if softcap is None else float(softcap))


@torch.no_grad()
def check_head(model: Any, head: OutputHead) -> None:
    """Check on two tokens that the head, applied to the last hidden states, gives the model's own logits.

    Raises:
        ValueError: If it does not: log-probabilities computed from the hidden states would be wrong.
    """
    ids = torch.tensor([[0, 1]], device=model.device)
    mask = torch.ones_like(ids)
    logits = model(input_ids=ids, attention_mask=mask).logits[0].float()
    hidden = text_backbone(model)(input_ids=ids, attention_mask=mask, return_dict=True).last_hidden_state[0]
    ours = head.logits(hidden)
    low_precision = next(head.module.parameters()).dtype != torch.float32
    tolerance = 5e-2 if low_precision else 1e-3
    if not torch.allclose(logits, ours, rtol=tolerance, atol=tolerance * float(logits.abs().max())):
        raise ValueError(
            f"{type(model).__name__} changes its logits in a way that is not supported "
            "(known: logit_scale, logits_scaling, final_logit_softcapping)"
        )

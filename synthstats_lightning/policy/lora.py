"""Low-rank adapters: settings, and putting one on a language model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from synthstats_lightning.policy.language_part import (
    ALL_LINEAR,
    PolicyError,
    language_targets,
    refused_layers,
)


@dataclass(frozen=True)
class LoraSettings:
    """A low-rank adapter (Hu et al. 2021, arXiv:2106.09685).

    Attributes:
        rank: Rank of each update, at least 1.
        alpha: Scale of the update; the factor is `alpha / rank`, or `alpha / sqrt(rank)` with
            `rank_stabilised`.
        dropout: Dropout on the adapter's input during training steps, in `[0, 1)`; never while sampling.
        target_modules: Names of the layers to adapt (`"q_proj"`, also embeddings such as `"embed_tokens"`),
            or `"all-linear"` for every linear layer except the output head. Of a model that also sees or
            hears only layers of its language part.
        modules_to_save: Names of layers to train in full and save with the adapter, for example `"lm_head"`.
        rank_stabilised: Scale by `alpha / sqrt(rank)` (Kalajdzievski 2023, arXiv:2312.03732).

    Raises:
        ValueError: If a value is out of its range.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    target_modules: list[str] | Literal["all-linear"] = "all-linear"
    modules_to_save: list[str] | None = None
    rank_stabilised: bool = False

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank must be at least 1, got {self.rank}")
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive, got {self.alpha}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        if isinstance(self.target_modules, str) and self.target_modules != "all-linear":
            raise ValueError(
                f"target_modules must be a list of layer names or 'all-linear', got {self.target_modules!r}"
            )
        if not self.target_modules:
            raise ValueError("target_modules must name at least one layer, got an empty list")


def add_adapter(model: Any, settings: LoraSettings) -> Any:
    """Freeze a language model and put a new adapter on it, in float32; it starts as the identity.

    Args:
        model: A transformers causal LM.
        settings: Rank, scale, dropout and layers of the adapter.

    Returns:
        A `peft.PeftModel`.

    Raises:
        PolicyError: If the model has no layer of a name in `target_modules`.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    _check_targets(model, settings.target_modules)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=language_targets(model, settings.target_modules),
        modules_to_save=settings.modules_to_save,
        use_rslora=settings.rank_stabilised,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),  # GPT-2's layers
        task_type="CAUSAL_LM",
    )
    if settings.target_modules == ALL_LINEAR:
        config.exclude_modules = refused_layers(model, config) or None
    with _quiet_peft():
        return _prepared(get_peft_model(model, config))


def _check_targets(model: nn.Module, targets: list[str] | str) -> None:
    """Refuses names that no layer has: PEFT passes over them where there is a layer of another name."""
    if isinstance(targets, str):
        return
    paths = [f".{path}" for path, _ in model.named_modules()]
    missing = [name for name in targets if not any(path.endswith(f".{name}") for path in paths)]
    if missing:
        linear = {path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
        known = ", ".join(sorted({path.rpartition(".")[2] for path in linear}))
        raise PolicyError(
            f"target_modules must name layers of the model, such as {known}, got {', '.join(missing)}"
        )


def load_adapter(model: Any, folder: str | Path) -> Any:
    """Put a saved adapter on a language model, to go on training it.

    Args:
        model: A transformers causal LM.
        folder: What `Policy.save_pretrained` wrote.

    Returns:
        A `peft.PeftModel`.

    Raises:
        FileNotFoundError: If the folder holds no adapter.
    """
    from peft import PeftModel

    check_adapter_folder(folder)
    with _quiet_peft():
        return _prepared(PeftModel.from_pretrained(model, str(folder), is_trainable=True))


def check_adapter_folder(folder: str | Path) -> None:
    """Refuses what is no folder of a saved adapter.

    Args:
        folder: What was given.

    Raises:
        FileNotFoundError: If it holds no adapter.
    """
    if not (Path(folder) / "adapter_config.json").is_file():
        raise FileNotFoundError(
            f"adapter: no adapter_config.json in {str(folder)!r}; give a folder saved by PEFT"
        )


@contextmanager
def folded(model: Any) -> Iterator[None]:
    """Within this context the adapter is part of its layers' weights: one product a layer instead of three.

    For sampling. The base weights stay as they are. Does nothing unless every adapted layer is an untied
    float32 linear layer: rounding the sum to fewer bits would change the policy.

    Args:
        model: A `peft.PeftModel`, or a model without an adapter.
    """
    from peft.tuners.lora import LoraLayer

    from synthstats_lightning.policy.fused_lora import FusedLinear

    layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
    tied = {id(embedding.weight) for embedding in model.modules() if isinstance(embedding, nn.Embedding)}
    foldable = bool(layers) and all(
        isinstance(layer, FusedLinear)
        and layer.only_adapter() is not None
        and layer.base_layer.weight.dtype == torch.float32
        and id(layer.base_layer.weight) not in tied
        for layer in layers
    )
    if not foldable:
        yield
        return
    for layer in layers:
        layer.fold()
    try:
        yield
    finally:
        for layer in layers:
            layer.unfold()


@contextmanager
def _quiet_peft() -> Iterator[None]:
    """What is between PEFT and transformers 5, and nothing that a user could mend.

    PEFT reads a property that has been renamed; and for models with experts it asks for other ranks of layers
    that hold all experts, which are none of those that are adapted.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*", category=FutureWarning)
        unmatched = "The following (rank|alpha)_pattern keys did not match any targeted module"
        warnings.filterwarnings("ignore", message=unmatched, category=RuntimeWarning)
        yield


def _prepared(model: Any) -> Any:
    """The adapter in float32, its layers fused."""
    from synthstats_lightning.policy.fused_lora import fuse_layers

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(torch.float32)
    return fuse_layers(model)

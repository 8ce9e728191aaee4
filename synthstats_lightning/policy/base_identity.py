"""What a base model is, whatever the path that it was loaded from."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from synthstats_lightning.policy.encoding import short_hash
from synthstats_lightning.policy.language_part import PolicyError

BASE_FILE = "base_model.json"
"""Beside a saved adapter: what it belongs to."""
SAMPLED = 64
"""Numbers of each tensor that the fingerprint reads."""
_UNRELATED = frozenset(
    {
        *("_name_or_path", "_commit_hash", "transformers_version", "torch_dtype", "dtype", "use_cache"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "architectures"),
        *("quantization_config", "return_dict", "output_hidden_states", "output_attentions"),
    }
)
"""Keys of a configuration that say how a model was saved or is run."""


def base_identity(model: Any) -> dict[str, str]:
    """Hashes of a model's configuration and of its weights.

    The fingerprint reads numbers at fixed places of every floating tensor, rounded to bfloat16, so that the
    number type which the model is loaded in makes no difference. Weights in 4 bits have another, by the
    tensors that are not quantised, under a key of its own.

    Args:
        model: A transformers model, without an adapter.
    """
    tensors = {
        name: parameter for name, parameter in model.named_parameters() if parameter.is_floating_point()
    }
    quantised = len(tensors) < sum(1 for _ in model.parameters())
    embeddings = {
        name: tensor
        for name, tensor in tensors.items()
        if tensor.dim() == 1 or tensor is model.get_input_embeddings().weight
    }
    hashes = {"configuration": configuration_hash(model.config), "embeddings": weights_hash(embeddings)}
    return hashes if quantised else {**hashes, "weights": weights_hash(tensors)}


def configuration_hash(config: Any) -> str:
    """SHA-256 of what a configuration says of the architecture, 16 hexadecimal digits.

    Args:
        config: Configuration of a transformers model.
    """
    return short_hash(json.dumps(_related(config.to_dict()), sort_keys=True, default=str))


def _related(value: Any) -> Any:
    if isinstance(value, dict):
        # dropout is turned off when a policy is loaded
        return {
            str(key): _related(item)
            for key, item in value.items()
            if key not in _UNRELATED and not ("drop" in str(key) and isinstance(item, float))
        }
    return [_related(item) for item in value] if isinstance(value, list | tuple) else value


@torch.no_grad()
def weights_hash(tensors: dict[str, torch.Tensor]) -> str:
    """SHA-256 of names, shapes and some numbers of tensors, 16 hexadecimal digits.

    Args:
        tensors: By their names.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        flat = tensor.detach().reshape(-1)
        count = min(SAMPLED, flat.numel())
        places = [place * (flat.numel() - 1) // max(1, count - 1) for place in range(count)]
        numbers = flat[torch.tensor(places, dtype=torch.long, device=flat.device)]
        numbers = numbers.to(torch.bfloat16).view(torch.int16).cpu()
        digest.update(f"{name} {tuple(tensor.shape)} {numbers.tolist()};".encode())
    return digest.hexdigest()[:16]


def differences(saved: dict[str, str], present: dict[str, str]) -> list[str]:
    """Keys by which two policies differ, of those that both have; names and revisions do not count.

    Args:
        saved: `Policy.identity` of the one.
        present: That of the other.
    """
    spelled = {"name", "revision"}
    return sorted(key for key in (saved.keys() & present.keys()) - spelled if saved[key] != present[key])


def write_base(folder: str | Path, identity: Mapping[str, str]) -> None:
    """Says beside a saved adapter what it belongs to.

    Args:
        folder: Where the adapter is.
        identity: `Policy.identity` of its policy.
    """
    Path(folder, BASE_FILE).write_text(json.dumps(dict(identity), indent=2) + "\n", encoding="utf-8")


def check_adapter(folder: str | Path, present: dict[str, str], strict: bool) -> None:
    """Refuses a saved adapter of another base model; one of which nothing is said is taken.

    Args:
        folder: Where the adapter is.
        present: `Policy.identity` of the policy that has taken it; its reference does not count.
        strict: Whether another base is an error, and not just a warning.

    Raises:
        PolicyError: If the base or its tokenizer differ.
    """
    path = Path(folder, BASE_FILE)
    if not path.is_file():
        return
    saved: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    if keys := [key for key in differences(saved, present) if key != "reference"]:
        what = "; ".join(f"{key} was {saved[key]!r}, now {present[key]!r}" for key in keys)
        message = f"adapter {str(folder)!r} belongs to another policy ({saved.get('name')!r}): {what}"
        if strict:
            raise PolicyError(f"{message}; `model.init_args.model.check_base: false` takes it all the same")
        warnings.warn(message, stacklevel=2)

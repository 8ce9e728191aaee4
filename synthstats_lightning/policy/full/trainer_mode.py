"""Which weights of a policy are trained, and what its reference policy then is."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal, get_args

import torch

from synthstats_lightning.policy.language_part import PolicyError

TrainerMode = Literal["lora", "qlora", "full"]
"""What is trained: an adapter, an adapter on a base in 4 bits, or all weights of the language model."""
Reference = Literal["base", "adapter"]
"""Which policy the reference is: the base model, or that with the adapter that training starts from."""


def check_reference(reference: Reference, adapter: str | Path | None) -> None:
    """Refuses a reference that there is not.

    Args:
        reference: Which policy it is.
        adapter: Folder of the adapter that training starts from, if there is one.

    Raises:
        ValueError: If it is an adapter and none is given, or is unknown.
    """
    if reference not in get_args(Reference):
        raise ValueError(f"reference must be 'base' or 'adapter', got {reference!r}")
    if reference == "adapter" and adapter is None:
        raise ValueError("reference must be 'base' where no `adapter` is given, got 'adapter'")


def check_trainer_mode(
    mode: TrainerMode,
    adapter: str | Path | None,
    reference: Reference,
    reference_device: str | None,
    load_in_4bit: bool,
) -> None:
    """Refuses what makes no sense together.

    Args:
        mode: What is trained.
        adapter: Folder of the adapter that training starts from, if there is one.
        reference: Which policy the reference is.
        reference_device: Where the reference's own weights are to be; `None` for where the policy's are.
        load_in_4bit: Whether the base is asked for in 4 bits by the model's own settings.

    Raises:
        ValueError: If the mode or the device is unknown, an adapter, a reference that is one, or a base in 4
            bits is asked for where all weights are trained, or a device of the reference where it has no
            weights of its own.
    """
    if mode not in get_args(TrainerMode):
        raise ValueError(f"trainer_mode must be one of {', '.join(get_args(TrainerMode))}, got {mode!r}")
    if mode != "full":
        check_reference(reference, adapter)
        if reference_device is not None:
            raise ValueError(
                f"reference_device must be null with trainer_mode: {mode}, whose reference is the same"
                f" weights without their adapter, got {reference_device!r}"
            )
        return
    if adapter is not None:
        raise ValueError(
            f"adapter must be null with trainer_mode: full, which has none, got {str(adapter)!r}: to start"
            " from a tuned model give its folder as `policy`"
        )
    if reference != "base":
        raise ValueError(
            f"reference must be 'base' with trainer_mode: full, which has no adapter, got {reference!r}: the"
            " reference is a frozen copy of `policy`, tuned or not"
        )
    if load_in_4bit:
        raise ValueError("load_in_4bit must be false with trainer_mode: full: such weights cannot be trained")
    if reference_device is not None:
        check_device(reference_device)


def check_device(name: str) -> None:
    """Refuses a device that is not there.

    Args:
        name: As PyTorch has it: `cpu`, `cuda:1`.

    Raises:
        ValueError: If it is none, or this machine lacks it.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"reference_device must be a device such as cpu or cuda:1, got {name!r}") from error
    number = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= number:
        raise ValueError(f"reference_device must be one of the {number} CUDA devices here, got {name!r}")


def check_four_bits(asked_by: str) -> None:
    """Refuses a base in 4 bits where there is nothing to run it.

    Args:
        asked_by: The setting that asks for it, for the message.

    Raises:
        PolicyError: If there is no CUDA device, or bitsandbytes is not installed.
    """
    if not torch.cuda.is_available():
        raise PolicyError(f"{asked_by} needs a CUDA device, and there is none")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise PolicyError(
            f"{asked_by} needs bitsandbytes; install it with pip install 'synthstats-lightning[quantization]'"
        )

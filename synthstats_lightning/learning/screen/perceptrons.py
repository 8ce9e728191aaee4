"""Small perceptrons, and the file that they are shipped in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Float

SHIPPED = "perceptrons.npz"
"""The perceptrons that are shipped, beside this file."""


@dataclass(frozen=True)
class Perceptron:
    """From features to log-probabilities of classes.

    Attributes:
        classes: Names of the classes.
        shift: Taken from the features.
        scale: What they are divided by then.
        layers: Weights `[outputs, inputs]` and biases of each layer, with a tanh between two.
    """

    classes: tuple[str, ...]
    shift: Float[np.ndarray, " features"]
    scale: Float[np.ndarray, " features"]
    layers: tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, " _"]], ...]

    def log_probs(self, features: Float[np.ndarray, " features"]) -> dict[str, float]:
        """Log-probability of each class, in nats.

        Args:
            features: As in training.

        Raises:
            ValueError: If there are more features, or fewer.
        """
        if features.shape != self.shift.shape:
            raise ValueError(f"features must have shape {self.shift.shape}, got {features.shape}")
        # a few deviations at most: beyond what it was trained on a tanh says nothing
        hidden = np.clip((features - self.shift) / self.scale, -6.0, 6.0)
        for place, (weight, bias) in enumerate(self.layers):
            hidden = weight @ (np.tanh(hidden) if place else hidden) + bias
        hidden = hidden - np.logaddexp.reduce(hidden)
        return dict(zip(self.classes, hidden.tolist(), strict=True))


def save_perceptrons(perceptrons: Mapping[str, Perceptron], path: Path) -> None:
    """Writes perceptrons in half precision.

    Args:
        perceptrons: Name to perceptron, as they are read.
        path: File ending in `.npz`.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, found in perceptrons.items():
        arrays[f"{name}.classes"] = np.array(found.classes)
        arrays[f"{name}.shift"] = found.shift.astype(np.float32)
        arrays[f"{name}.scale"] = found.scale.astype(np.float32)
        for place, (weight, bias) in enumerate(found.layers):
            arrays[f"{name}.{place}.weight"] = weight.astype(np.float16)
            arrays[f"{name}.{place}.bias"] = bias.astype(np.float16)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def load_perceptrons(path: Path | None = None) -> dict[str, Perceptron]:
    """Reads perceptrons by name.

    Args:
        path: Their file; the shipped ones by default.
    """
    data = (
        resources.files("synthstats_lightning.learning.screen").joinpath(SHIPPED).read_bytes()
        if path is None
        else path.read_bytes()
    )
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        names = sorted({name.partition(".")[0] for name in arrays.files})
        return {name: _read(name, arrays, arrays.files) for name in names}


def _read(name: str, arrays: Mapping[str, np.ndarray], files: Sequence[str]) -> Perceptron:
    count = sum(file.startswith(f"{name}.") and file.endswith(".weight") for file in files)
    layers = tuple(
        (
            arrays[f"{name}.{place}.weight"].astype(np.float64),
            arrays[f"{name}.{place}.bias"].astype(np.float64),
        )
        for place in range(count)
    )
    shift, scale = (arrays[f"{name}.{part}"].astype(np.float64) for part in ("shift", "scale"))
    return Perceptron(tuple(map(str, arrays[f"{name}.classes"])), shift, scale, layers)

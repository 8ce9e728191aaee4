"""Training the perceptrons of the screen on simulated data sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from synthstats_lightning.learning.screen.perceptrons import Perceptron
from synthstats_lightning.learning.screen.screening import QUESTIONS
from synthstats_lightning.pretraining.screen.simulation import Simulated

Features = Float[np.ndarray, " _"]


@dataclass(frozen=True)
class FitSettings:
    """How a perceptron is trained.

    Attributes:
        width: Units of both hidden layers.
        steps: Steps of AdamW.
        batch_size: Examples a step.
        learning_rate: At the start of a cosine schedule that ends at 0.
        weight_decay: Weight decay of AdamW.
        held_out: Share of the examples that the best step is chosen by.
        seed: Seeds initial weights and batches.
    """

    width: int = 64
    steps: int = 2500
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight_decay: float = 0.1
    held_out: float = 0.1
    seed: int = 0


class Fitted(NamedTuple):
    """A trained perceptron.

    Attributes:
        perceptron: At the step of the lowest held-out cross-entropy.
        cross_entropy: That one, in nats an example.
    """

    perceptron: Perceptron
    cross_entropy: float


class Examples(NamedTuple):
    """Features and classes.

    Attributes:
        features: One row an example.
        classes: Name of the class of each.
    """

    features: list[Features]
    classes: list[str]


def questions(found: Iterable[Simulated]) -> dict[str, Examples]:
    """Examples of every perceptron, in the order in which they were simulated.

    What a request alone says is learned from all programs; what data say of those whose data are accepted.

    Args:
        found: Programs with what is known of their data.
    """
    examples = {
        f"{question}{suffix}": Examples([], []) for question in QUESTIONS for suffix in ("", "_blind")
    }
    for each in found:
        rows = [("family", each.inputs.request, each.inputs.digest, each.classes["family"])]
        rows += [("spread", each.inputs.request, each.inputs.digest, each.classes["spread"])]
        rows += [("part", *both, each.classes[f"part {name}"]) for name, both in each.inputs.columns.items()]
        for question, blind, seen, name in rows:
            examples[f"{question}_blind"].features.append(blind)
            examples[f"{question}_blind"].classes.append(name)
            if each.accepted:
                examples[question].features.append(seen)
                examples[question].classes.append(name)
    return examples


def fit_perceptron(examples: Examples, classes: Sequence[str], settings: FitSettings) -> Fitted:
    """Trains a perceptron by cross-entropy.

    Args:
        examples: The last ones are held out.
        classes: Names of all classes.
        settings: Size and steps.

    Raises:
        ValueError: If there are fewer than 100 examples.
    """
    if len(examples.classes) < 100:
        raise ValueError(f"examples must be at least 100, got {len(examples.classes)}")
    torch.manual_seed(settings.seed)
    features = torch.from_numpy(np.stack(examples.features)).float()
    numbers = {name: place for place, name in enumerate(classes)}
    labels = torch.tensor([numbers[name] for name in examples.classes])
    held = max(1, math.floor(settings.held_out * len(labels)))
    shift, scale = features[:-held].mean(0), features[:-held].std(0)
    scale = torch.where(scale > 1e-3, scale, 1.0)
    features = ((features - shift) / scale).clamp(-6.0, 6.0)
    network = nn.Sequential(
        nn.Linear(features.shape[1], settings.width),
        nn.Tanh(),
        nn.Linear(settings.width, settings.width),
        nn.Tanh(),
        nn.Linear(settings.width, len(classes)),
    )
    best, weights = _descend(network, features, labels, held, settings)
    layers = tuple(
        (weights[f"{place}.weight"].double().numpy(), weights[f"{place}.bias"].double().numpy())
        for place in (0, 2, 4)
    )
    found = Perceptron(tuple(classes), shift.double().numpy(), scale.double().numpy(), layers)
    return Fitted(found, best)


def _descend(
    network: nn.Sequential, features: Tensor, labels: Tensor, held: int, settings: FitSettings
) -> tuple[float, dict[str, Tensor]]:
    """The lowest held-out cross-entropy, and the weights that have it."""
    optimizer = torch.optim.AdamW(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    generator = torch.Generator().manual_seed(settings.seed)
    best, weights = math.inf, network.state_dict()
    for step in range(settings.steps):
        rows = torch.randint(len(labels) - held, (settings.batch_size,), generator=generator)
        loss = functional.cross_entropy(network(features[rows]), labels[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if (step + 1) % 50 == 0 or step + 1 == settings.steps:
            with torch.no_grad():
                now = float(functional.cross_entropy(network(features[-held:]), labels[-held:]))
            if now < best:
                best = now
                weights = {name: value.clone() for name, value in network.state_dict().items()}
    return best, weights

"""Sums over all sub-trajectories of a batch, without a loop over lengths."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.objectives.regression import SQUARE, Regression

Weighting = Literal["within", "batch", "length"]


class WindowWeights(NamedTuple):
    """Weight of the window from state i to state j of trajectory b: `per_length[j − i] · per_row[b]`.

    Attributes:
        per_length: Entry k is for windows of k transitions; entry 0 is 0; `[states]`.
        per_row: Factor of all windows of a trajectory, `[batch]`.
    """

    per_length: Float[Tensor, " states"]
    per_row: Float[Tensor, " batch"]


def window_weights(
    num_transitions: Int[Tensor, " batch"], num_states: int, decay: float, weighting: Weighting
) -> WindowWeights:
    """Weights of all windows, which sum to 1 over the batch.

    Args:
        num_transitions: Number of transitions of each trajectory, less than `num_states`.
        num_states: Columns of the state tensors.
        decay: λ of SubTB(λ), in `(0, 1]`.
        weighting: `"within"` divides λ^length by its sum over each trajectory, then averages trajectories
            (Madan et al. 2022); `"batch"` divides by the sum over the batch, so that long trajectories
            count more (Hu et al. 2023); `"length"` averages all windows of each length, then lengths with
            weights proportional to λ^length.
    """
    device = num_transitions.device
    lengths = torch.arange(num_states, device=device)
    powers = torch.where(lengths > 0, decay ** (lengths.double() - 1), 0.0)
    transitions = num_transitions.double()
    # a trajectory of n transitions has n + 1 − k windows of length k
    cumulative = powers.cumsum(0)[num_transitions]
    first_moment = (lengths * powers).cumsum(0)[num_transitions]
    mass = (transitions + 1) * cumulative - first_moment
    if weighting == "within":
        return WindowWeights(powers, torch.where(mass > 0, 1 / mass.clamp(min=1e-300), 0.0) / len(mass))
    if weighting == "batch":
        return WindowWeights(powers, (1 / mass.sum().clamp(min=1e-300)).expand(len(mass)))
    counts = (transitions[:, None] + 1 - lengths).clamp(min=0).sum(0)
    present = powers * (counts > 0)
    per_length = present / counts.clamp(min=1) / present.sum().clamp(min=1e-300)
    return WindowWeights(per_length, torch.ones_like(mass))


def window_loss(
    potential: Float[Tensor, "batch states"],
    num_transitions: Int[Tensor, " batch"],
    decay: float = 1.0,
    weighting: Weighting = "within",
    regression: Regression = SQUARE,
) -> Float[Tensor, ""]:
    r"""Weighted sum of the losses of all sub-trajectories.

    With the potential \(a_i = \log F(s_i) - \sum_{t<i} \log p_t\) of state i, the residual of the
    sub-trajectory from i to j is \(a_i - a_j\), and the loss is
    $$ \sum_b \sum_{i<j} w_{b,j-i}\, \ell(a_{bi} - a_{bj}). $$
    For the square this is a quadratic form whose matrix is constant along diagonals: O(T log T) by a fast
    Fourier transform, in float64. Other regressions hold `[batch, states, states]` at once.

    Args:
        potential: Potential of each state; columns beyond a trajectory's last state may hold anything finite.
        num_transitions: Of each trajectory: states 0 to this one count.
        decay: Weight λ of a window relative to one that is a token shorter.
        weighting: How windows' weights are normalised: `"within"`, `"batch"` or `"length"`, see
            `window_weights`.
        regression: Loss ℓ of a residual.

    Returns:
        The loss, in the dtype of `potential`.
    """
    num_states = potential.shape[1]
    if regression.kind == "square":
        loss = _square_window_loss(potential.double(), num_transitions, decay, weighting)
        return loss.to(potential.dtype)
    weights = window_weights(num_transitions, num_states, decay, weighting)
    index = torch.arange(num_states, device=potential.device)
    distance = index - index[:, None]
    counted = (distance > 0) & (index <= num_transitions[:, None, None])
    residual = torch.where(counted, potential[:, :, None] - potential[:, None, :], 0.0)
    weight = weights.per_row[:, None, None] * weights.per_length[distance.clamp(min=0)]
    return (regression(residual) * weight.to(potential.dtype)).sum()


def _square_window_loss(
    potential: Tensor, num_transitions: Tensor, decay: float, weighting: Weighting
) -> Tensor:
    """Σ w (a_i − a_j)² = aᵀ L a with the weighted graph Laplacian L of the windows; its gradient is 2 L a."""
    with torch.no_grad():
        weights = window_weights(num_transitions, potential.shape[1], decay, weighting)
        states = torch.arange(potential.shape[1], device=potential.device)
        valid = states <= num_transitions[:, None]
        # only differences matter, and small numbers lose less
        centred = torch.where(valid, potential - potential[:, :1], 0.0)
        cumulative = weights.per_length.cumsum(0)
        degree = cumulative + cumulative[(num_transitions[:, None] - states).clamp(min=0)]
        size = _fast_size(2 * potential.shape[1])
        kernel = torch.cat(
            [
                weights.per_length,
                weights.per_length.new_zeros(size - 2 * len(states) + 1),
                weights.per_length[1:].flip(0),
            ]
        )
        spectrum = torch.fft.rfft(kernel).real * torch.fft.rfft(centred, n=size)
        neighbours = torch.fft.irfft(spectrum, n=size)[:, : len(states)]
        pull = torch.where(valid, degree * centred - neighbours, 0.0) * weights.per_row[:, None]
        value = (centred * pull).sum()
    product = (potential * pull).sum()
    # the value of aᵀ L a with the gradient 2 L a
    return value + 2 * (product - product.detach())


@lru_cache
def _fast_size(least: int) -> int:
    """The next product of powers of 2, 3 and 5, for which transforms are fast."""
    size = least
    while True:
        rest = size
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return size
        size += 1


def keep_states(
    potential: Float[Tensor, "batch states"], kept: Bool[Tensor, "batch states"]
) -> tuple[Float[Tensor, "batch states"], Int[Tensor, " batch"]]:
    """Moves the kept states of each row to its front, in order.

    Returns:
        Their potentials (beyond them, zeros) and the number of transitions between them, at least 0.
    """
    order = torch.argsort((~kept).to(torch.uint8), dim=1, stable=True)
    count = kept.sum(1)
    front = torch.arange(kept.shape[1], device=kept.device) < count[:, None]
    moved = torch.where(kept, potential, 0.0).gather(1, order)
    return torch.where(front, moved, 0.0), (count - 1).clamp(min=0)

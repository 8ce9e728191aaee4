"""Nodes and weights of the quadrature: a trapezoid rule in a stretched coordinate around each mode.

With `u = c + s a sinh(t / a)` the trapezoid rule in `t` converges exponentially for smooth integrands, as in
`u`, but its nodes reach hundreds of scales for few more of them: a centre that is a little off, skewness and
the heavier tails of an integrand without one of its rows cost nothing. Where an integrand has several modes,
it is split among them by a smooth partition of unity and each part is integrated around its own. Two modes
that turn out to be one share it: the rule stays right.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.modes import Modes

STRETCH = 3.0
"""Scales after which distances grow exponentially."""
STEP = 0.6
"""Distance of neighbouring nodes in the stretched coordinate, about scales near the mode: the error of a
normal integrand is 1e-9."""
SPLIT_STEP = 0.35
"""The same where an integrand is split among modes: the parts are less smooth."""
REACHES = (7.2, 10.8, 14.4, 18.0, 24.0, 30.0)
"""How far nodes reach to either side in the stretched coordinate: from 16 to 33,000 scales."""
FALLEN = 18.0
"""So many nats below its largest value is a weighted integrand at the outermost nodes of a good rule."""


class Nodes(NamedTuple):
    """A rule for every element.

    Attributes:
        u: Unconstrained values of the latent `[particles, nodes, elements]`.
        log_weight: Logarithm of the weights `[particles, nodes, elements]`.
    """

    u: Float[Tensor, "particles nodes elements"]
    log_weight: Float[Tensor, "particles nodes elements"]


def place(modes: Modes, reach: float, finer: float = 1.0) -> Nodes:
    """The rule around some modes.

    Args:
        modes: Where the integrands' mass is.
        reach: How far nodes reach to either side in the stretched coordinate.
        finer: How many times as many nodes lie in it as usual.
    """
    particles, count, elements = modes.centre.shape
    step = (STEP if count == 1 else SPLIT_STEP) / finer
    half = math.ceil(reach / step)
    t = step * torch.arange(-half, half + 1, dtype=modes.centre.dtype)
    distance = (STRETCH * torch.sinh(t / STRETCH))[:, None]
    density = (torch.log(torch.cosh(t / STRETCH)) + math.log(step))[:, None]
    u = modes.centre[:, :, None] + modes.scale[:, :, None] * distance
    log_weight = modes.scale.log()[:, :, None] + density
    if count > 1:
        own = torch.arange(count)
        kernels = _kernels(u, modes)
        log_weight = log_weight + kernels[:, own, own] - kernels.logsumexp(1)
    shape = (particles, count * len(t), elements)
    return Nodes(u.reshape(shape), log_weight.expand_as(u).reshape(shape))


def _kernels(u: Tensor, modes: Modes) -> Tensor:
    """Log of each mode's share before normalising, at every mode's nodes.

    Returns:
        `[particles, modes of the kernel, modes of the nodes, nodes, elements]`.
    """
    z = (u[:, None] - modes.centre[:, :, None, None]) / modes.scale[:, :, None, None]
    return -5.0 * torch.log1p(z.square() / 9.0) - modes.scale.log()[:, :, None, None]


def outermost(count: int, modes: int) -> list[int]:
    """Indices of the nodes at either end of each mode's.

    Args:
        count: Number of nodes in all.
        modes: Number of modes.
    """
    each = count // modes
    return [index for mode in range(modes) for index in (mode * each, (mode + 1) * each - 1)]

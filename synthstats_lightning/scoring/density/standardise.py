"""Coordinates without funnels for parameters whose prior depends on other parameters.

A centred hierarchy, `z ~ Normal(m, s)` with `s` a parameter, has a posterior that is wide where `s` is large
and narrow where it is small: no single proposal fits it, and annealing that misses the neck reports far too
small a standard error. Such a parameter is therefore sampled as `u` with

    z = a + b u,   a = (m + s^2 c) / (1 + s^2 l),   b = s / sqrt(1 + s^2 l),

where `l` is how precisely the likelihood knows `z` and `c / l` where it sees it, both constants. That is the
mean and standard deviation of `z` given its hyperparameters if the likelihood is normal in `z`: `u` is then
standard normal whatever `m` and `s` are. With `l = 0` it is the non-centred form (Papaspiliopoulos, Roberts
and Sköld 2007), with large `l` the centred one; the choice between them, entry by entry, is that of Gorinova,
Moore and Hoffman (2020, arXiv 1906.03028) made from curvature instead of by optimisation.

Any constants give a bijection, and the density has its Jacobian: evidence and posterior stay exact, only the
sampler's work changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import value_and_gradient

LIMITS = (1e-305, 1e150)
"""Standard deviations are kept between these, so that their squares and logarithms are finite."""
RESOLUTION = 1e-13
"""Of a standard deviation relative to its mean: with less, values next to each other are too far apart."""
DIFFERENCE = 1e-4
"""Step of the central differences of gradients, relative to the parameter's size where that exceeds 1."""
FARTHEST = 3.0
"""What the likelihood prefers is taken to lie no further away than so many of its standard deviations."""


class Anchor(NamedTuple):
    """What the likelihood says of a parameter near some point, in its unconstrained centred coordinate.

    Attributes:
        precision: Negative second derivative of the log-likelihood, not negative, of the parameter's shape.
        shift: `precision` times the point that the likelihood prefers.
    """

    precision: Float[Tensor, "*shape"]
    shift: Float[Tensor, "*shape"]


Moments = Callable[..., tuple[Tensor, Tensor]]
"""Hyperparameters to mean and standard deviation of the unconstrained parameter, at least about."""


def _beta(alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    alpha, beta = _positive(alpha), _positive(beta)
    variance = torch.polygamma(1, alpha) + torch.polygamma(1, beta)
    return torch.digamma(alpha) - torch.digamma(beta), variance.sqrt()


def _gamma(shape: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    shape, rate = _positive(shape), _positive(rate)
    return torch.digamma(shape) - torch.log(rate), torch.polygamma(1, shape).sqrt()


def _location_scale(location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return location, scale


def _student_t(_: Tensor, location: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return location, scale


def _positive(value: Tensor) -> Tensor:
    return torch.where(value > 0, value, 1.0).clamp(1e-6, 1e12)


SPREADS: Mapping[str, tuple[int, ...]] = {
    "Normal": (1,),
    "LogNormal": (1,),
    "Laplace": (1,),
    "Logistic": (1,),
    "Cauchy": (1,),
    "StudentT": (2,),
    "Beta": (0, 1),
    "Gamma": (0,),
}
"""Distribution to the hyperparameters that make a funnel where they are parameters: those of its width."""
MOMENTS: Mapping[str, Moments] = {
    "Normal": _location_scale,
    "LogNormal": _location_scale,
    "Laplace": _location_scale,
    "Logistic": _location_scale,
    "Cauchy": _location_scale,
    "StudentT": _student_t,
    "Beta": _beta,
    "Gamma": _gamma,
}
"""Distribution to its moments, in logs for positive parameters and logits for those between 0 and 1."""


def coefficients(
    moments: Moments, anchor: Anchor, hyperparameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Location, scale and log of the scale that standardise a parameter given its hyperparameters.

    Args:
        moments: Moments of its prior.
        anchor: What the likelihood says of it.
        hyperparameters: Parameters of its distribution; impossible ones get finite coefficients.
    """
    mean, deviation = moments(*hyperparameters)
    deviation = torch.where(deviation > 0, deviation, 1.0).clamp(*LIMITS)
    variance = deviation.square()
    shrunk = 1.0 + variance * anchor.precision
    log_scale = deviation.log() - 0.5 * shrunk.log()
    return (mean + variance * anchor.shift) / shrunk, log_scale.exp(), log_scale


def find_anchors(
    log_likelihood: Callable[[Tensor], Tensor], theta: Float[Tensor, " dim"], columns: Mapping[int, slice]
) -> dict[int, tuple[Tensor, Tensor]]:
    """Precision and shift of some columns, from the likelihood's curvature at a point.

    Args:
        log_likelihood: `[particles, dim]` to `[particles]`; these columns are the centred coordinates.
        theta: The point, in unconstrained parameters.
        columns: Any key to columns.

    Returns:
        For each key flat precision and shift; zero where the likelihood is flat, convex or undefined.
    """
    wanted = torch.cat([torch.arange(each.start, each.stop) for each in columns.values()])
    step = DIFFERENCE * theta[wanted].abs().clamp_min(1.0)
    moves = torch.zeros(len(wanted), len(theta), dtype=theta.dtype)
    moves[torch.arange(len(wanted)), wanted] = step
    points = torch.cat([theta[None], theta + moves, theta - moves])
    _, gradient = value_and_gradient(log_likelihood, points)
    count = len(wanted)
    slope, up, down = torch.split(gradient[:, wanted], [1, count, count])
    precision = ((down - up).diagonal() / (2 * step)).clamp_min(0.0)
    reach = FARTHEST * precision.sqrt()
    shift = precision * theta[wanted] + torch.minimum(torch.maximum(slope[0], -reach), reach)
    sizes = [each.stop - each.start for each in columns.values()]
    pairs = zip(torch.split(precision, sizes), torch.split(shift, sizes), strict=True)
    return dict(zip(columns, pairs, strict=True))

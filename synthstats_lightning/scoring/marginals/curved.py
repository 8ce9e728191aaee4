"""Coordinates in which a bent posterior is nearly straight: a one-to-one map with a known Jacobian.

A proposal of ellipses fits a posterior of twenty bent directions badly, each by little. What bends it are the
third derivatives of its logarithm at the mode: to their order, given the coordinates before it each one has a
mean that is a parabola in these, a scale that is an exponential in these, and a skewness of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import value_and_gradient

STEP = 0.6
"""Step of the differences that third derivatives are found by, in standard deviations."""
REACH = 2.5
"""Beyond about so many standard deviations bends go on no further."""
TAIL = 4.0
"""Coordinates beyond about so many standard deviations are stretched: the log of a scale that may be 0 has a
far longer tail than a normal number, and proposals of many dimensions have none along any of them."""
MOST_SKEW, MOST_SCALE = 0.7, 1.0
"""Largest skewness over 3 of a coordinate, and largest log of its scale."""

ITERATIONS = 40
"""Most steps of a search."""
LENGTHS = (2.0, 1.0, 0.3)
"""Shares of a step that are tried."""
DAMPING = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""What is added to curvatures, relative to the largest."""
DIFFERENCE = 1e-5
"""Step of the differences of gradients, relative to the parameter's size where that exceeds 1."""
ARRIVED = 1e-3
"""Nats that a step may still promise at a mode."""
FLAT = 1e-9
"""Smallest curvature that counts, relative to the largest."""

LogDensity = Callable[[Tensor], Tensor]
"""`theta [particles, dim] -> [particles]`."""


class Curve(NamedTuple):
    """A map from coordinates `x`, standard normal about a posteriori, to parameters.

    Attributes:
        centre: The mode `[dim]`.
        root: Lower triangular, of the covariance there `[dim, dim]`.
        scale: How the log scale of each coordinate moves with those before it, strictly lower triangular.
        mean: How its mean moves with their squares, likewise.
        skew: Shape of each `[dim]`.
    """

    centre: Float[Tensor, " dim"]
    root: Float[Tensor, "dim dim"]
    scale: Float[Tensor, "dim dim"]
    mean: Float[Tensor, "dim dim"]
    skew: Float[Tensor, " dim"]

    def parameters(
        self, x: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, "particles dim"], Float[Tensor, " particles"]]:
        """Parameters at some coordinates, and the log of the map's Jacobian there.

        Args:
            x: Coordinates of the parameters, standard normal about a posteriori.
        """
        bent = _bounded(x)
        log_scale = self._log_scale(bent)
        stretched = _stretched(x)
        turned = torch.asinh(stretched) + self.skew
        own = (torch.sinh(turned) - torch.sinh(self.skew)) / torch.cosh(self.skew)
        z = own * log_scale.exp() + bent.square() @ self.mean.T
        slope = torch.cosh(turned).log() - 0.5 * torch.log1p(stretched.square()) - torch.cosh(self.skew).log()
        ratio = (x / TAIL).square()
        slope = slope + torch.log1p(2.0 * ratio) - 0.5 * torch.log1p(ratio)
        log_jacobian = (slope + log_scale).sum(1) + self.root.diagonal().log().sum()
        return self.centre + z @ self.root.T, log_jacobian

    def coordinates(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles dim"]:
        """The coordinates of some parameters.

        Args:
            theta: Unconstrained values of the parameters.
        """
        z = torch.linalg.solve_triangular(self.root, (theta - self.centre).T, upper=False).T
        x, bent = torch.zeros_like(z), torch.zeros_like(z)
        for j in range(z.shape[1]):
            log_scale = MOST_SCALE * torch.tanh(bent @ self.scale[j] / MOST_SCALE)
            own = (z[:, j] - bent.square() @ self.mean[j]) * (-log_scale).exp()
            skew = self.skew[j]
            stretched = torch.sinh(torch.asinh(own * torch.cosh(skew) + torch.sinh(skew)) - skew)
            x[:, j] = TAIL * torch.sinh(0.5 * torch.asinh(2.0 * stretched / TAIL))
            bent[:, j] = _bounded(x[:, j])
        return x

    def _log_scale(self, bent: Tensor) -> Tensor:
        return MOST_SCALE * torch.tanh(bent @ self.scale.T / MOST_SCALE)


def _stretched(x: Tensor) -> Tensor:
    """`TAIL / 2 sinh(2 asinh(x / TAIL))`, which grows like a square."""
    return x * (1.0 + (x / TAIL).square()).sqrt()


def _bounded(x: Tensor) -> Tensor:
    return REACH * torch.tanh(x / REACH)


class Peak(NamedTuple):
    """A mode.

    Attributes:
        theta: Where it is `[dim]`.
        precision: Minus the second derivatives there `[dim, dim]`.
    """

    theta: Float[Tensor, " dim"]
    precision: Float[Tensor, "dim dim"]


def climbed(log_density: LogDensity, start: Float[Tensor, " dim"]) -> Peak | None:
    """The mode that Newton steps lead to, each the best of a few lengths; `None` where they do not arrive.

    Args:
        log_density: Logarithm of the density.
        start: Where to begin.
    """
    here = start
    lengths, damping = (torch.tensor(each, dtype=start.dtype) for each in (LENGTHS, DAMPING))
    for _ in range(ITERATIONS):
        step = DIFFERENCE * here.abs().clamp_min(1.0)
        points = torch.cat([here[None], here + torch.diag(step)])
        value, gradient = value_and_gradient(log_density, points)
        precision = (gradient[0] - gradient[1:]) / step[:, None]
        precision = 0.5 * (precision + precision.T)
        if not bool(value[0].isfinite() & precision.isfinite().all()):
            return None
        curvature, basis = torch.linalg.eigh(precision)
        slope = gradient[0] @ basis
        size = curvature.abs().clamp_min(FLAT * float(curvature.abs().max()) + torch.finfo(start.dtype).tiny)
        if float(0.5 * (slope.square() / size).sum()) < ARRIVED:
            return Peak(here, precision) if bool((curvature > 0).all()) else None
        steps = (slope / (size + damping[:, None] * size.max())) @ basis.T
        candidates = here + (lengths[:, None, None] * steps).flatten(0, 1)
        with torch.no_grad():
            reached = log_density(candidates).nan_to_num(nan=-torch.inf)
        best = int(reached.argmax())
        if not bool(reached[best] > value[0]):
            return None
        here = candidates[best]
    return None


def curve_at(
    log_density: LogDensity, mode: Float[Tensor, " dim"], precision: Float[Tensor, "dim dim"]
) -> Curve | None:
    """The map by the third derivatives of a density at its mode; `None` where it is not peaked there.

    Args:
        log_density: Logarithm of the density.
        mode: Where it is highest.
        precision: Minus its second derivatives there.
    """
    dim = len(mode)
    factor, info = torch.linalg.cholesky_ex(precision.flip(0, 1))
    if int(info):
        return None
    # the inverse of the flipped factor, flipped back, is lower triangular
    eye = torch.eye(dim, dtype=mode.dtype)
    root = torch.linalg.solve_triangular(factor, eye, upper=False).T.flip(0, 1)
    offsets = STEP * torch.cat([torch.zeros(1, dim, dtype=mode.dtype), eye, -eye])
    _, gradient = value_and_gradient(log_density, mode + offsets @ root.T)
    slope = gradient @ root
    if not bool(slope.isfinite().all()):
        return None
    # [along, of]: second derivative along one coordinate of the slope in another
    third = (slope[1 : dim + 1] + slope[dim + 1 :] - 2.0 * slope[0]) / STEP**2
    before = torch.ones(dim, dim, dtype=mode.dtype).tril(-1)
    skew = torch.atanh((third.diagonal() / 3.0).clamp(-MOST_SKEW, MOST_SKEW))
    return Curve(mode, root, 0.5 * third * before, 0.5 * third.T * before, skew)

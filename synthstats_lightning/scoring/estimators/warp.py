"""A learned one-to-one map in whose coordinates a bent posterior is nearly normal.

A proposal of ellipses fits a posterior of twenty bent directions badly, each by little: local scales of a
horseshoe, discriminations against difficulties. The map is triangular, as are those of autoregressive flows
(Papamakarios, Nalisnick, Rezende, Mohamed and Lakshminarayanan 2021, section 3.1): given the coordinates
before it each one has a mean that is a parabola in these, a scale that is an exponential in these, and a
skewness and tails of its own. It is fitted by gradients of the density (Rezende and Mohamed 2015), which say
far more for each evaluation than weights of draws do. How good it is, importance weights show: any map makes
an exact proposal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import value_and_gradient

REACH = 2.5
"""Beyond about so many standard deviations bends go on no further."""
FARTHEST = 1e6
"""Coordinates end here: densities farther out are none that count."""
BATCH = 40
"""Draws of each step, in pairs that mirror each other."""
RATE, LAST_RATE, RISING = 0.03, 0.02, 10
"""Length of steps in standard deviations, what is left of it at the end, and steps until it is reached."""
MOMENTS = (0.9, 0.99)
"""Memory of the gradients' means and squares (Adam; Kingma and Ba 2015)."""
STEEPEST = 1e3
"""Longest gradient of a draw's log density that is followed."""

LogDensity = Callable[[Tensor], Tensor]
"""`theta [particles, dim] -> [particles]`."""


class Warp(NamedTuple):
    """A map from coordinates `x`, about standard normal a posteriori, to parameters.

    Attributes:
        centre: Where the origin goes `[dim]`.
        root: Lower triangular, of the covariance `[dim, dim]`.
        scale: How the log scale of each coordinate moves with those before it, strictly lower triangular.
        mean: How its mean moves with their squares, likewise.
        skew: Skewness of each `[dim]`.
        tail: Weight of the tails of each, 1 for those of the coordinates `[dim]`.
    """

    centre: Float[Tensor, " dim"]
    root: Float[Tensor, "dim dim"]
    scale: Float[Tensor, "dim dim"]
    mean: Float[Tensor, "dim dim"]
    skew: Float[Tensor, " dim"]
    tail: Float[Tensor, " dim"]

    def parameters(
        self, x: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, "particles dim"], Float[Tensor, " particles"]]:
        """Parameters at some coordinates, and the log of the map's Jacobian there.

        Args:
            x: Coordinates of the parameters.
        """
        bent = _bounded(x)
        log_scale = torch.tanh(bent @ self.scale.T)
        turned = self.tail * torch.asinh(x) + self.skew
        own = (torch.sinh(turned) - torch.sinh(self.skew)) / (torch.cosh(self.skew) * self.tail)
        z = own * log_scale.exp() + bent.square() @ self.mean.T
        slope = torch.cosh(turned).log() - 0.5 * torch.log1p(x.square()) - torch.cosh(self.skew).log()
        log_jacobian = (slope + log_scale).sum(1) + self.root.diagonal().log().sum()
        return self.centre + z @ self.root.T, log_jacobian

    def coordinates(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles dim"]:
        """The coordinates of some parameters.

        Args:
            theta: Unconstrained values of the parameters.
        """
        z = torch.linalg.solve_triangular(self.root, (theta - self.centre).T, upper=False)
        # particles last: all that is done for one coordinate lies together
        x, bent = torch.zeros_like(z), torch.zeros_like(z)
        lift, height = torch.sinh(self.skew), torch.cosh(self.skew) * self.tail
        for j in range(len(z)):
            log_scale = torch.tanh(self.scale[j, :j] @ bent[:j])
            own = (z[j] - self.mean[j, :j] @ bent[:j].square()) * (-log_scale).exp()
            x[j] = torch.sinh((torch.asinh(own * height[j] + lift[j]) - self.skew[j]) / self.tail[j])
            bent[j] = _bounded(x[j])
        return x.T.nan_to_num(nan=FARTHEST).clamp(-FARTHEST, FARTHEST)


def _bounded(x: Tensor) -> Tensor:
    return REACH * torch.tanh(x / REACH)


def fit_warp(
    log_density: LogDensity,
    centre: Float[Tensor, " dim"],
    root: Float[Tensor, "dim dim"],
    steps: int,
    generator: torch.Generator,
    check: Callable[[], None] = lambda: None,
) -> Warp | None:
    """The map whose draws have the least Kullback-Leibler divergence to a density, about.

    Args:
        log_density: Logarithm of the density, up to a constant.
        centre: Where the map starts.
        root: Lower triangular root of the covariance that it starts with.
        steps: Steps of stochastic gradient descent.
        generator: Source of the draws.
        check: Called before each step.

    Returns:
        `None` where the density does not exist at most of the first draws, or steps lead out of all bounds.
    """
    free = _still(len(centre))
    means = {name: torch.zeros_like(value) for name, value in free.items()}
    squares = {name: torch.zeros_like(value) for name, value in free.items()}
    first, second = MOMENTS
    for step in range(steps):
        check()
        half = torch.randn(BATCH // 2, len(centre), generator=generator, dtype=centre.dtype)
        leaves = {name: value.requires_grad_(True) for name, value in free.items()}
        with torch.enable_grad():
            theta, log_jacobian = _warp(leaves, centre, root).parameters(torch.cat([half, -half]))
        value, slope = value_and_gradient(log_density, theta.detach())
        usable = value.isfinite() & theta.isfinite().all(1)
        if not bool(usable.sum() > BATCH // 2):
            return None
        slope = slope * (STEEPEST / slope.norm(dim=1, keepdim=True).clamp_min(STEEPEST))
        with torch.enable_grad():
            gain = ((theta * slope).sum(1) + log_jacobian)[usable].mean()
            gradients = torch.autograd.grad(gain, list(leaves.values()))
        rate = RATE * min(1.0, (step + 1) / RISING)
        rate *= LAST_RATE + (1.0 - LAST_RATE) * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        for name, gradient in zip(free, gradients, strict=True):
            known = gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
            means[name] = first * means[name] + (1 - first) * known
            squares[name] = second * squares[name] + (1 - second) * known.square()
            mean = means[name] / (1 - first ** (step + 1))
            size = (squares[name] / (1 - second ** (step + 1))).sqrt()
            free[name] = free[name].detach() + rate * mean / (size + 1e-8)
    found = _warp({name: value.detach() for name, value in free.items()}, centre, root)
    return found if all(bool(part.isfinite().all()) for part in found) else None


def _still(dim: int) -> dict[str, Tensor]:
    """Free numbers at which the map is linear."""
    vectors = {name: torch.zeros(dim, dtype=torch.float64) for name in ("centre", "skew", "tail")}
    return vectors | {name: torch.zeros(dim, dim, dtype=torch.float64) for name in ("root", "scale", "mean")}


def _warp(free: Mapping[str, Tensor], centre: Tensor, root: Tensor) -> Warp:
    """The map of some free numbers, in units of where it started."""
    turn = free["root"].tril(-1) + torch.diag(free["root"].diagonal().exp())
    return Warp(
        centre + root @ free["centre"],
        root @ turn,
        free["scale"].tril(-1),
        free["mean"].tril(-1),
        free["skew"],
        free["tail"].exp(),
    )

"""The gradient of a Laplace approximation by the implicit function theorem, without differences.

At the mode `x(theta)` of `f(x, theta)` the approximation is `f - log|H| / 2` with `H = -f_xx`. One Newton
step from the mode, `x + H^(-1) f_x(x, theta)` with `H` held fixed, stays there, and its derivative by `theta`
is that of the mode: autograd through this one step gives the whole gradient, whatever search found the mode
(Kristensen et al. 2016, doi:10.18637/jss.v070.i05, section 2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.grouping import Given
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood, Outer
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.proposal import Prior, Proposal

DIFFERENCE = 1e-4
"""Step of the differences that stand in where a gradient is not finite, relative to a parameter's size where
that exceeds 1."""


class Slopes(NamedTuple):
    """A function of particles with its gradient.

    Attributes:
        value: What it is at each particle `[particles]`.
        gradient: Its derivatives by each particle's parameters `[particles, dim]`.
    """

    value: Float[Tensor, " particles"]
    gradient: Float[Tensor, "particles dim"]


def mass_at_mode(
    likelihood: Likelihood,
    outer: Outer,
    prior: Prior,
    design: Design,
    proposal: Proposal,
    given: Given,
) -> Float[Tensor, " particles"]:
    """The approximation at a mode that is known, up to a constant, as autograd can follow it.

    Args:
        likelihood: Rows as a function of the predictor.
        outer: What the likelihood reads of the other parameters, which these may be followed through.
        prior: The block's own density, likewise.
        design: The predictor as a function of the block, likewise.
        proposal: The mode with its precision, both of which are taken for known.
        given: Which rows count, or how many times each does.
    """
    mode = proposal.mean.detach()
    slope = likelihood.followed(outer, design.at(mode[:, None])[:, 0], given).slope
    rise = design.back(slope[:, None])[:, 0] - prior.slope - prior.precision.times(mode)
    x = mode + proposal.factor.solve(rise[:, None])[:, 0]
    sites = likelihood.followed(outer, design.at(x[:, None])[:, 0], given)
    factor = prior.precision.plus(design, sites.curvature).factor(proposal.factor.exists)
    mass: Tensor = prior.log_density(x) + sites.value.sum(-1) - factor.half_log_determinant
    return mass


def with_gradient(
    theta: Float[Tensor, "particles dim"],
    value: Callable[[Tensor], Tensor],
    slopes: Callable[[Tensor], Slopes],
) -> Float[Tensor, " particles"]:
    """A function's values, for autograd, whose gradient is known where they are.

    Args:
        theta: Where it is evaluated.
        value: Acts on each particle by itself; its differences stand in where a gradient is not finite.
        slopes: The same with its gradient.
    """
    found: Tensor = _Known.apply(theta, value, slopes)  # type: ignore[no-untyped-call]
    return found


class _Known(torch.autograd.Function):
    """A function of particles that finds its gradient with its values."""

    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, value: Callable[[Tensor], Tensor], slopes: Callable[[Tensor], Slopes]
    ) -> Tensor:
        found, gradient = slopes(theta.detach())
        broken = found.isfinite() & ~gradient.isfinite().all(1)
        if bool(broken.any()):
            gradient = gradient.index_copy(0, broken.nonzero()[:, 0], _differences(theta[broken], value))
        ctx.save_for_backward(torch.where(found.isfinite()[:, None], gradient, 0.0))
        return found

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return grad_outputs[0][:, None] * gradient, None, None


def _differences(theta: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor:
    step = DIFFERENCE * theta.abs().clamp_min(1.0)
    columns = []
    for k in range(theta.shape[1]):
        move = torch.zeros_like(theta)
        move[:, k] = step[:, k]
        columns.append((value(theta + move) - value(theta - move)) / (2.0 * step[:, k]))
    return torch.stack(columns, 1)

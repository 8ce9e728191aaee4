"""Evaluations over many rows, a few particles at a time: nothing but what is asked for has both axes.

A density call makes as many temporaries as the model has operations. Of thousands of rows it is given so few
particles at once that these fit into a processor's cache. Whether rows are many depends on their number only,
so that the same particles have the same densities, to the last bit, whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from synthstats_lightning.scoring.settings import check_running

CHUNK = 300_000
"""Numbers of one temporary, particles times rows."""
WIDE = 1_000
"""Temporaries of fewer numbers a particle are not cut into parts: those of rows by rows are wider."""

Densities = Callable[[Tensor], tuple[Tensor, Tensor]]
"""`theta [particles, dim] -> log prior [particles], log-likelihood [particles, rows]`."""


def chunks(particles: int, rows: int) -> list[slice]:
    """Particles that are evaluated together.

    Args:
        particles: How many there are.
        rows: Rows of the response.
    """
    size = max(1, CHUNK // max(rows, 1))
    return [slice(start, min(start + size, particles)) for start in range(0, particles, size)]


def pieces(particles: Shaped[Tensor, "particles ..."], size: int) -> Iterator[Shaped[Tensor, "some ..."]]:
    """Some particles after the others, while there is time.

    Args:
        particles: All of them, or their numbers.
        size: Most at once; at least one is taken.

    Raises:
        ProgramFailure: `SCORER_LIMIT` where time is over between two.
    """
    for some in torch.split(particles, max(1, size)):
        check_running()
        yield some


def by_parts(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], theta: Float[Tensor, "particles dim"], width: int
) -> tuple[Tensor, Tensor]:
    """A function of particles, of few at a time where temporaries are wide and no gradient is taken.

    Args:
        function: Acts on each particle by itself.
        theta: All of them.
        width: Numbers of the widest temporary of one particle.
    """
    if width < WIDE or len(theta) * width <= CHUNK or (torch.is_grad_enabled() and theta.requires_grad):
        return function(theta)
    first: list[Tensor] = []
    second: list[Tensor] = []
    for some in chunks(len(theta), width):
        check_running()
        for part, found in zip((first, second), function(theta[some]), strict=True):
            part.append(found)
    return torch.cat(first), torch.cat(second)


def table(
    densities: Densities, theta: Float[Tensor, "particles dim"], rows: int
) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
    """Log prior and log-likelihood of each row, without gradients.

    Args:
        densities: Evaluates some particles.
        theta: All of them.
        rows: Rows of the response.
    """
    particles = len(theta)
    log_prior, log_likelihood = theta.new_empty(particles), theta.new_empty(particles, rows)
    with torch.no_grad():
        for some in chunks(particles, rows):
            log_prior[some], log_likelihood[some] = densities(theta[some])
    return log_prior, log_likelihood


def totals(
    densities: Densities, theta: Float[Tensor, "particles dim"], rows: int
) -> tuple[Float[Tensor, " particles"], Float[Tensor, " particles"]]:
    """Log prior and log-likelihood of all rows together, differentiable once.

    Args:
        densities: Evaluates some particles, each by itself.
        theta: All of them.
        rows: Rows of the response.
    """
    if torch.is_grad_enabled() and theta.requires_grad:
        log_prior, log_likelihood = _Totals.apply(theta, densities, rows)  # type: ignore[no-untyped-call]
        return log_prior, log_likelihood
    return _values(densities, theta, rows)


def _values(densities: Densities, theta: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    log_prior, log_likelihood = theta.new_empty(len(theta)), theta.new_empty(len(theta))
    with torch.no_grad():
        for some in chunks(len(theta), rows):
            log_prior[some], each = densities(theta[some])
            log_likelihood[some] = each.sum(-1)
    return log_prior, log_likelihood


class _Totals(torch.autograd.Function):
    """Gradients are taken chunk by chunk on the way forwards, so that no chunk's temporaries are kept."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, densities: Densities, rows: int) -> tuple[Tensor, Tensor]:
        values = theta.new_empty(2, len(theta))
        slopes = theta.new_zeros(2, *theta.shape)
        for some in chunks(len(theta), rows):
            leaf = theta[some].detach().requires_grad_(True)
            with torch.enable_grad():
                log_prior, each = densities(leaf)
                for index, value in enumerate((log_prior, each.sum(-1))):
                    values[index, some] = value.detach()
                    total = torch.where(value.isfinite(), value, 0.0).sum()
                    if total.requires_grad:
                        (slopes[index, some],) = torch.autograd.grad(total, leaf, retain_graph=index == 0)
        ctx.save_for_backward(slopes)
        return values[0], values[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        prior, likelihood = (
            torch.where(outer[:, None] == 0, 0.0, outer[:, None] * slope)
            for outer, slope in zip(gradients, slopes, strict=True)
        )
        return prior + likelihood, None, None

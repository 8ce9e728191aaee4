"""The square SubTB(λ) loss with its gradient in closed form."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives.geometric import geometric_constants, neighbour_sums


class SquareSubTrajectoryBalance(torch.autograd.Function):
    """Loss and whole-trajectory residual; see `square_sub_trajectory_balance`."""

    @staticmethod
    def forward(
        context: Any,
        token_log_probs: Tensor,
        mask: Tensor,
        log_flow: Tensor,
        log_reward: Tensor,
        log_z: Tensor,
        decay: float,
        weighting: str,
    ) -> tuple[Tensor, Tensor]:
        """Loss and residual; keeps half of the loss's slope in the potentials."""
        batch, time = mask.shape
        constants = geometric_constants(time + 1, decay, log_flow.dtype, log_flow.device)
        length = mask.sum(1)
        end = length[:, None]
        valid = constants.valid.index_select(0, length)
        # potentials, log Z taken off all of them: only differences matter, and small numbers lose less
        reached = token_log_probs.cumsum(1)
        potential = torch.zeros_like(valid)
        inner = potential[:, 1:time]
        torch.sub(log_flow[:, 1:], reached[:, :-1], out=inner)
        inner -= log_z[:, None]
        potential[:, 1 : time + 1].masked_fill_(~mask, 0.0)  # and not times 0: there may be anything
        whole = log_reward - reached.gather(1, (end - 1).clamp(min=0))[:, 0] - log_z
        potential.scatter_(1, end, whole[:, None])
        pull = constants.degree.index_select(0, length).mul_(potential)
        pull -= neighbour_sums(potential, constants)
        mass = constants.mass.index_select(0, length)
        if weighting == "within":
            pull *= valid * torch.where(mass > 0, 1 / (mass * batch), 0.0)[:, None]
        else:
            pull *= valid / mass.sum().clamp(min=torch.finfo(mass.dtype).tiny)
        residual = -whole
        context.time = time
        context.save_for_backward(pull, valid, end)
        context.mark_non_differentiable(residual)
        return torch.dot(potential.view(-1), pull.view(-1)), residual

    @staticmethod
    def backward(context: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes in token log-probabilities, flows, log R and log Z."""
        pull, valid, end = context.saved_tensors
        time = context.time
        slope = pull[:, : time + 1] * (2 * grad)
        # the slopes of a trajectory sum to zero, so minus those after a token is those before it
        tokens = slope[:, :-1].cumsum(1).mul_(valid[:, 1 : time + 1])
        terminal = slope.gather(1, end)[:, 0] if context.needs_input_grad[3] else None
        start = slope[:, 0].clone()
        slope.scatter_(1, end, 0.0)
        slope[:, 0] = 0.0
        return tokens, None, slope[:, :-1], terminal, start, None, None


def square_sub_trajectory_balance(
    token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    log_flow: Float[Tensor, "batch time"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    decay: float,
    weighting: Literal["within", "batch"],
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    """As `sub_trajectory_balance_loss` for the square and weights that are powers of the decay.

    With potentials a and windows' weights w the loss Σ w_{ij} (a_i − a_j)² is aᵀ L a, with L the graph's
    Laplacian, and its gradient 2 L a: one linear filter serves both, and no `[time, time]` matrix is made.

    Returns:
        The loss, and the whole trajectory's residual, through which no gradient flows.
    """
    # one dtype for all, so that a float32 policy may meet a float64 reward
    dtype = torch.promote_types(token_log_probs.dtype, log_reward.dtype)
    flow, z = log_flow.to(dtype), log_z.to(dtype)
    loss: tuple[Tensor, Tensor] = SquareSubTrajectoryBalance.apply(  # type: ignore[no-untyped-call]
        token_log_probs.to(dtype), mask, flow, log_reward.to(dtype), z, decay, weighting
    )
    return loss

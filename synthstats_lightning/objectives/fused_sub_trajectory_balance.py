"""The square SubTB(λ) loss with its gradient in closed form."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from synthstats_lightning.objectives.geometric import geometric_constants, neighbour_sums
from synthstats_lightning.objectives.sub_trajectory_balance_kernel import compiled_kernel


class _Given(NamedTuple):
    """What the loss is made of; see `square_sub_trajectory_balance`."""

    tokens: Tensor
    mask: Tensor
    flow: Tensor
    reward: Tensor
    z: Tensor


class _Slopes(NamedTuple):
    """Of the loss, in what it is made of: `[batch, time]` twice, `[batch]` twice; nats."""

    tokens: Tensor
    flow: Tensor
    reward: Tensor
    z: Tensor


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
        """Loss and residual; keeps the loss's slopes."""
        compiled = mask.device.type == "cpu" and log_z.dtype in (torch.float32, torch.float64)
        form = _by_kernel if compiled else _by_filters
        given = _Given(token_log_probs, mask, log_flow, log_reward, log_z)
        loss, residual, slopes = form(given, decay, weighting == "within")
        context.save_for_backward(*slopes)
        context.mark_non_differentiable(residual)
        return loss, residual

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Slopes in token log-probabilities, flows, log R and log Z."""
        tokens, flow, reward, z = context.saved_tensors
        return tokens * grad, None, flow * grad, reward * grad, z * grad, None, None


def _by_kernel(given: _Given, decay: float, within: bool) -> tuple[Tensor, Tensor, _Slopes]:
    """Loss, residual and slopes on a CPU."""
    residual = torch.empty_like(given.z)
    slopes = _Slopes(*map(torch.empty_like, (given.tokens, given.flow, given.reward, given.z)))
    loss = compiled_kernel()(
        *(x.numpy() for x in given), decay, within, residual.numpy(), *(x.numpy() for x in slopes)
    )
    return given.z.new_tensor(loss), residual, slopes


def _by_filters(given: _Given, decay: float, within: bool) -> tuple[Tensor, Tensor, _Slopes]:
    """Loss, residual and slopes on any device."""
    token_log_probs, mask, log_flow, log_reward, log_z = given
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
    last = reached.gather(1, (end - 1).clamp(min=0))[:, 0]
    whole = log_reward - torch.where(length > 0, last, 0.0) - log_z
    potential.scatter_(1, end, whole[:, None])
    pull = constants.degree.index_select(0, length).mul_(potential)
    pull -= neighbour_sums(potential, constants)
    mass = constants.mass.index_select(0, length)
    if within:
        pull *= valid * torch.where(mass > 0, 1 / (mass * batch), 0.0)[:, None]
    else:
        pull *= valid / mass.sum().clamp(min=torch.finfo(mass.dtype).tiny)
    loss = torch.dot(potential.view(-1), pull.view(-1))
    slope = pull[:, : time + 1].mul_(2)
    # the slopes of a trajectory sum to zero, so minus those after a token is those before it
    tokens = slope[:, :-1].cumsum(1).mul_(valid[:, 1 : time + 1])
    reward = slope.gather(1, end)[:, 0]
    start = slope[:, 0].clone()
    slope.scatter_(1, end, 0.0)
    slope[:, 0] = 0.0
    return loss, -whole, _Slopes(tokens, slope[:, :-1], reward, start)


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
    On a CPU the filter is a compiled recursion, elsewhere products with small matrices.

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

"""Sub-trajectory balance: every stretch of a program is in balance, by learned flows."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.regression import SQUARE, Regression
from synthstats_lightning.objectives.trajectory_balance import trajectory_balance_loss
from synthstats_lightning.objectives.windows import Weighting, window_loss


def flow_potentials(
    token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    log_flow: Float[Tensor, "batch time"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
) -> Float[Tensor, "batch states"]:
    """Per state, its log flow minus the log-probability of reaching it.

    The first state's flow is Z and the whole program's flow is R; in between `log_flow` counts. A
    sub-trajectory's residual is the difference of the potentials at its ends.

    Args:
        token_log_probs: log π of each token, in nats.
        mask: True on program tokens, which are at the front.
        log_flow: Log flow of the prefix before each token, in nats.
        log_reward: log R of each program, in nats.
        log_z: Log flow of the empty prefix, in nats.

    Returns:
        One for each prefix, `[batch, time + 1]`, float64: differences of large sums. Columns beyond the
        whole program hold finite numbers.
    """
    steps = token_log_probs.masked_fill(~mask, 0.0).double()
    reached = torch.nn.functional.pad(steps.cumsum(1), (1, 0))
    flow = torch.cat([log_z[:, None], log_flow[:, 1:], log_reward[:, None]], 1).double()
    end = mask.sum(1, keepdim=True)
    states = torch.arange(flow.shape[1], device=flow.device)
    return torch.where(states < end, flow, log_reward[:, None].double()) - reached


def sub_trajectory_balance_loss(
    token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    log_flow: Float[Tensor, "batch time"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    decay: float = 0.9,
    weighting: Weighting = "within",
    regression: Regression = SQUARE,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    r"""SubTB(λ) loss of a batch (Madan et al. 2022, arXiv:2209.12782, eq. 9–10).

    $$ \delta_{ij} = \log F(s_i) + \sum_{i \le t < j} \log \pi(y_{t+1} \mid s_t) - \log F(s_j), \qquad
       L = \sum_{i<j} w_{j-i}\, \delta_{ij}^2, \quad w_k \propto \lambda^k $$
    with F(empty prefix) = Z and F(whole program) = R. Zero for all programs if and only if π = R / Z and F
    is the reward mass below each prefix.

    Args:
        token_log_probs: log π of each token, in nats.
        mask: True on program tokens, which are at the front.
        log_flow: Log flow of the prefix before each token, in nats; that of the empty prefix is not read.
        log_reward: log R of each program, in nats.
        log_z: log Z of each program's task, in nats.
        decay: λ in `(0, 1]`.
        weighting: How windows are normalised; see `window_weights`.
        regression: Loss of the residuals.

    Returns:
        The scalar loss in nats² and the whole trajectory's residual in nats, `[batch]`.
    """
    # a compiled recursion in place of the transform would save 0.9 ms of a step of a second: 0.1 %
    potential = flow_potentials(token_log_probs, mask, log_flow, log_reward, log_z)
    length = mask.sum(1)
    loss = window_loss(potential, length, decay, weighting, regression)
    residual = potential[:, 0] - potential.gather(1, length[:, None])[:, 0]
    return loss.to(log_reward.dtype), residual.to(log_reward.dtype)


def forward_looking_flow(
    log_flow: Float[Tensor, "batch time"],
    known_log_rewards: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    weight: float,
) -> Float[Tensor, "batch time"]:
    """Log flows as a learned correction on top of the part of the reward that a prefix already has.

    log F(s_t) = log F̃(s_t) + w Σ_{i≤t} log r_i (Pan et al. 2023, arXiv:2302.01687, eq. 6): the head need
    only learn what is still to come. Any w is correct; the best is the weight of that part in the reward.

    Args:
        log_flow: What the head says, log F̃, before each token, in nats.
        known_log_rewards: What each token adds to the log reward, in nats; here log π_ref of the token.
        mask: True on program tokens.
        weight: Factor w of what is known.

    Returns:
        log F of the prefix before each token.
    """
    known = known_log_rewards.masked_fill(~mask, 0.0).cumsum(1)
    return log_flow + weight * torch.nn.functional.pad(known[:, :-1], (1, 0))


def ending_window_loss(
    token_log_probs: Float[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
    log_flow: Float[Tensor, "batch time"],
    log_reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    decay: float = 1.0,
    regression: Regression = SQUARE,
) -> Float[Tensor, ""]:
    """The part of SubTB(λ) whose windows reach the end of the program, weighted within each trajectory.

    Args:
        token_log_probs: log π of each token, in nats.
        mask: True on program tokens, which are at the front.
        log_flow: Log flow of the prefix before each token, in nats; that of the empty prefix is not read.
        log_reward: log R of each program, in nats.
        log_z: log Z of each program's task, in nats.
        decay: λ in `(0, 1]`; the weights of a program's windows sum to 1.
        regression: Loss of the residuals.
    """
    potential = flow_potentials(token_log_probs, mask, log_flow, log_reward, log_z)
    end = mask.sum(1, keepdim=True)
    length = end - torch.arange(potential.shape[1], device=potential.device)
    counted = length > 0
    weight = torch.where(counted, decay ** length.clamp(min=0).double(), 0.0)
    weight = weight / weight.sum(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)
    residual = torch.where(counted, potential - potential.gather(1, end), 0.0)
    return (regression(residual) * weight).sum(1).mean().to(log_reward.dtype)


class SubTrajectoryBalance(Objective):
    """SubTB(λ) with a learned flow head, forward-looking or relative to the policy if asked for.

    Relative to the policy, log F(s) = log Z + log π(s) + head(s), without gradient through π(s), the
    probability of writing the prefix. A balanced policy sends Z π(s) through each prefix, so the head has
    nothing to say at the optimum, and does not have to learn first what the policy knows; flows measured from
    log Z alone take many more steps. The residual of a window that ends before the program does is then a
    difference of the head's values and says nothing of the policy: from those the head learns alone, and the
    policy from the windows that reach the end, half by that of the whole program. Where the head has learned
    that a beginning leads nowhere, only windows that start before it still say so, and in a long program
    they are few among many: without that half, policies drift to long programs that fail.

    Args:
        decay: λ in `(0, 1]`: weight of a window relative to one that is a token shorter.
        weighting: `"within"` each trajectory (the paper's), over the `"batch"`, or by `"length"`; see
            `window_weights`.
        forward_looking_weight: Weight of the reference log-probability as the part of the log reward that is
            known at every prefix; 0 for a flow head on its own. The reward's `prior_weight` is the best
            choice; it costs a pass of the reference policy a step.
        regression: Loss of the residuals; anything but the square holds `[batch, time, time]` at once.
        relative_to_policy: Whether flows are the head's corrections of what the policy sends through each
            prefix; see above. `decay` is best at 1 then.

    Raises:
        ValueError: If `decay` or `weighting` is not allowed, or flows are to be both forward-looking and
            relative to the policy.
    """

    def __init__(
        self,
        decay: float = 0.9,
        weighting: Weighting = "within",
        forward_looking_weight: float = 0.0,
        regression: Regression | None = None,
        relative_to_policy: bool = False,
    ) -> None:
        super().__init__()
        check_windows(decay, weighting)
        if relative_to_policy and forward_looking_weight:
            raise ValueError(
                "forward_looking_weight must be 0 where relative_to_policy is true,"
                f" got {forward_looking_weight}"
            )
        self.decay = decay
        self.weighting: Weighting = weighting
        self.forward_looking_weight = forward_looking_weight
        self.regression = regression
        self.relative_to_policy = relative_to_policy
        self.needs = frozenset({"token_log_probs", "mask", "log_flow"})
        if forward_looking_weight:
            self.needs |= {"reference_token_log_probs"}

    def log_flow(self, inputs: ObjectiveInputs) -> Float[Tensor, "batch time"]:
        """Log flow before each token: the head's, with what is known added if asked for."""
        if self.relative_to_policy:
            written = inputs["token_log_probs"].detach()
            return forward_looking_flow(inputs["log_flow"], written, inputs["mask"], 1.0)
        if not self.forward_looking_weight:
            return inputs["log_flow"]
        return forward_looking_flow(
            inputs["log_flow"],
            inputs["reference_token_log_probs"],
            inputs["mask"],
            self.forward_looking_weight,
        )

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `sub_trajectory_balance_loss`."""
        tokens, mask, flow = inputs["token_log_probs"], inputs["mask"], self.log_flow(inputs)
        regression = self.regression or SQUARE
        loss, residual = sub_trajectory_balance_loss(
            tokens.detach() if self.relative_to_policy else tokens,
            mask,
            flow,
            log_reward,
            log_z,
            self.decay,
            self.weighting,
            regression,
        )
        if self.relative_to_policy:
            start = log_z.detach()
            ending = ending_window_loss(
                tokens, mask, flow.detach(), log_reward, start, self.decay, regression
            )
            whole, _ = trajectory_balance_loss(log_prob, log_reward, start, regression=regression)
            loss = loss + 0.5 * (ending + whole)
        return loss_output(loss, residual)


def check_windows(decay: float, weighting: str) -> None:
    """Refuses settings of windows that are not allowed.

    Raises:
        ValueError: If `decay` or `weighting` is not allowed.
    """
    if not 0 < decay <= 1:
        raise ValueError(f"decay must be in (0, 1], got {decay}")
    if weighting not in ("within", "batch", "length"):
        raise ValueError(f"weighting must be 'within', 'batch' or 'length', got {weighting!r}")

"""FlowRL: trajectory balance with a reference prior and importance weights, length-normalised if wanted."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.objectives.base import LossOutput, Objective, ObjectiveInputs, loss_output
from synthstats_lightning.objectives.groups import group_advantage
from synthstats_lightning.objectives.regression import SQUARE, Regression


def flow_rl_loss(
    log_prob: Float[Tensor, " batch"],
    reference_log_prob: Float[Tensor, " batch"],
    reward: Float[Tensor, " batch"],
    log_z: Float[Tensor, " batch"],
    length: Int[Tensor, " batch"] | None = None,
    log_ratio: Float[Tensor, " batch"] | None = None,
    beta: float = 1.0,
    max_weight: float = 10.0,
    regression: Regression = SQUARE,
) -> tuple[Float[Tensor, ""], Float[Tensor, " batch"]]:
    r"""FlowRL loss of a batch (Zhu et al. 2025, arXiv:2509.15207, eq. 6).

    $$ \delta = \log Z + \frac{\log \pi(y)}{|y|} - \beta r - \frac{\log \pi_{ref}(y)}{|y|}, \qquad
       L = \text{mean}(w\, \delta^2), \quad w = \min(\pi / \pi_{old}, c) $$
    without |y| unless `length` is given. Zero for all programs if and only if π ∝ π_ref exp(β r). With
    `length`, only at log π = log π_ref + |y| (β r − log Z): an inverse temperature that grows with the
    program, another distribution altogether.

    Args:
        log_prob: log π(y | x), in nats.
        reference_log_prob: log π_ref(y | x), in nats.
        reward: Reward r of each program.
        log_z: log Z of each program's task.
        length: |y|, the number of tokens; `None` for no normalisation.
        log_ratio: log π − log π_old, in nats; no gradient flows through the weights. `None` for weights of 1.
        beta: Inverse temperature β of the reward.
        max_weight: c, the largest importance weight.
        regression: Loss of the residual.

    Returns:
        The scalar loss and the residual δ, `[batch]`, both differentiable.
    """
    relative = log_prob - reference_log_prob.detach()
    if length is not None:
        relative = relative / length.clamp(min=1)
    residual = log_z + relative - beta * reward
    loss = regression(residual)
    if log_ratio is not None:
        loss = loss * log_ratio.detach().exp().clamp(max=max_weight)
    return loss.mean(), residual


class FlowRL(Objective):
    """FlowRL, with what its public code gets wrong put right.

    The importance weights are clipped (the paper's code computes the clipped ones and applies the others).

    Args:
        beta: β, above 0; 15 in the paper, for rewards that are normalised.
        prior_weight: Weight of log π_ref that `log_reward` already has, which is taken out of it, because the
            reference is in the residual: `prior_weight` of the run's reward.
        normalise_length: Divide log-probabilities by the number of tokens, as in the paper. The target then
            depends on length; see `flow_rl_loss`.
        normalise_reward: Take the reward's deviation from the mean of its task in units of its standard
            deviation, as in the paper; the target then changes from batch to batch.
        importance_weights: Weigh programs by π / π_old.
        max_weight: Largest importance weight, above 0.
        regression: Loss of the residual; the square by default.

    Raises:
        ValueError: If `beta` or `max_weight` is not positive.
    """

    def __init__(
        self,
        beta: float = 1.0,
        prior_weight: float = 0.0,
        normalise_length: bool = False,
        normalise_reward: bool = False,
        importance_weights: bool = True,
        max_weight: float = 10.0,
        regression: Regression | None = None,
    ) -> None:
        super().__init__()
        for name, value in {"beta": beta, "max_weight": max_weight}.items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        self.beta = beta
        self.prior_weight = prior_weight
        self.normalise_length = normalise_length
        self.normalise_reward = normalise_reward
        self.importance_weights = importance_weights
        self.max_weight = max_weight
        self.regression = regression
        self.needs = frozenset({"reference_log_prob"})
        if normalise_length:
            self.needs |= {"mask"}
        if normalise_reward:
            self.needs |= {"task_index"}
        if importance_weights:
            self.needs |= {"behaviour_log_prob"}

    def log_target_ratio(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> Float[Tensor, " batch"]:
        """Of π_ref exp(β r), see `Objective.log_target_ratio`.

        Normalised by length it is per token, as log Z is then, where `mask` says how many there are.
        """
        relative = log_prob - inputs["reference_log_prob"]
        if self.normalise_length and "mask" in inputs:
            relative = relative / inputs["mask"].sum(1).clamp(min=1)
        return self.beta * self._reward(log_reward, inputs) - relative

    def _reward(
        self, log_reward: Float[Tensor, " batch"], inputs: ObjectiveInputs
    ) -> Float[Tensor, " batch"]:
        reward = log_reward - self.prior_weight * inputs["reference_log_prob"]
        if self.normalise_reward:
            return group_advantage(reward, inputs["task_index"], scale_by_std=True)
        return reward

    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """See `Objective.forward` and `flow_rl_loss`."""
        reward = self._reward(log_reward, inputs)
        log_ratio = log_prob.detach() - inputs["behaviour_log_prob"] if self.importance_weights else None
        loss, residual = flow_rl_loss(
            log_prob,
            inputs["reference_log_prob"],
            reward,
            log_z,
            inputs["mask"].sum(1) if self.normalise_length else None,
            log_ratio,
            self.beta,
            self.max_weight,
            self.regression or SQUARE,
        )
        weight = torch.ones_like(log_prob) if log_ratio is None else log_ratio.exp()
        return loss_output(loss, residual, importance_weight=weight.clamp(max=self.max_weight).mean())

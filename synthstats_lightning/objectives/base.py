"""What every objective takes and returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, TypedDict, Unpack, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from synthstats_lightning.objectives.groups import group_mean


class LossOutput(NamedTuple):
    """What an objective returns.

    Attributes:
        loss: Scalar to minimise, in nats² for the square loss of a balance objective.
        residual: Per trajectory, how far it is from balance, in nats, shape `[batch]`, detached. Its standard
            deviation goes to zero as the policy reaches its target.
        metrics: Detached scalars worth logging, by name.
    """

    loss: Float[Tensor, ""]
    residual: Float[Tensor, " batch"]
    metrics: dict[str, Tensor]


class ObjectiveInputs(TypedDict, total=False):
    """What an objective may ask for, by naming the key in `Objective.needs`.

    Token t of a program follows *prefix* t, which has t tokens; prefix n is the whole program, its stop token
    included. All values are in nats; masked positions may hold anything.

    Attributes:
        task_index: Task of each program; programs of one task form a group.
        reference_log_prob: log π_ref of each program: of the adapter off, unless the objective resets it.
        stored_reference_log_prob: The same with the adapter off, always: what rewards are made of.
        behaviour_log_prob: log π of each program when it was sampled, at temperature 1.
        mask: True on program tokens. Of episodes, on those that the policy wrote; for objectives over
            prefixes (that need stop probabilities, flows or actions) on the environment's as well, which have
            log-probability 0.
        token_log_probs: log π of each token.
        stop_log_probs: log π(stop | prefix) before each token; −inf where stopping is not allowed.
        forced_stop: Whether the program ended at the length limit, without a stop token.
        reference_token_log_probs: log π_ref of each token.
        reference_stop_log_probs: log π_ref(stop | prefix) before each token.
        behaviour_token_log_probs: log π of each token when it was sampled.
        log_flow: Learned log flow of the prefix before each token.
        action_ends: True on the last token of each action: of each turn of the policy in an episode, of each
            line of a program of one turn.
        information: What the turns that ended before each token were expected to tell of the environment.
        prefix_log_reward: log R of stopping at each prefix, the whole program last.
        prefix_known: Where `prefix_log_reward` is known.
    """

    task_index: Int[Tensor, " batch"]
    reference_log_prob: Float[Tensor, " batch"]
    stored_reference_log_prob: Float[Tensor, " batch"]
    behaviour_log_prob: Float[Tensor, " batch"]
    mask: Bool[Tensor, "batch time"]
    token_log_probs: Float[Tensor, "batch time"]
    stop_log_probs: Float[Tensor, "batch time"]
    forced_stop: Bool[Tensor, " batch"]
    reference_token_log_probs: Float[Tensor, "batch time"]
    reference_stop_log_probs: Float[Tensor, "batch time"]
    behaviour_token_log_probs: Float[Tensor, "batch time"]
    log_flow: Float[Tensor, "batch time"]
    action_ends: Bool[Tensor, "batch time"]
    information: Float[Tensor, "batch time"]
    prefix_log_reward: Float[Tensor, "batch prefixes"]
    prefix_known: Bool[Tensor, "batch prefixes"]


class Objective(nn.Module, ABC):
    """A loss over a batch of trajectories.

    Subclasses hold settings and any learned state; the mathematics is a pure function beside them.

    Attributes:
        needs: Keys of `ObjectiveInputs` without which the loss cannot be computed.
        learns_log_z: Whether the loss trains log Z; elsewhere it follows the log-variance estimate.
        groups_span_ranks: Whether programs are compared with those of their task on all ranks.
        group_means: Means over programs of a task that one loss takes on all ranks, where groups span them.
        on_policy: Whether the loss is that of fresh programs: drawn at temperature 1 from the policy as it is
            now, or was a few steps ago, each once.
        reset_reference_every: Training steps after which the reference policy becomes the current one; 0
            keeps it.
    """

    needs: frozenset[str] = frozenset()
    learns_log_z: bool = True
    groups_span_ranks: bool = False
    group_means: int = 1
    on_policy: bool = False
    reset_reference_every: int = 0

    def forward(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        **inputs: Unpack[ObjectiveInputs],
    ) -> LossOutput:
        """The loss of one batch.

        Args:
            log_prob: Log-probability of each program under the current policy, in nats, temperature 1,
                float32.
            log_reward: Log reward of each program, in nats, finite.
            log_z: Learned log Z of each program's task, in nats.
            **inputs: At least what `needs` names.

        Returns:
            Loss, residual and metrics.

        Raises:
            TypeError: If something that `needs` names is missing.
        """
        if missing := sorted(self.needs - inputs.keys()):
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}; got {', '.join(inputs)}")
        # sums over many tokens: whatever autocast the policy runs under ends here
        with torch.autocast(log_prob.device.type, enabled=False):
            given = cast("dict[str, Tensor]", inputs)
            wide = cast(ObjectiveInputs, {name: at_least_float32(value) for name, value in given.items()})
            return self.compute(
                at_least_float32(log_prob), at_least_float32(log_reward), at_least_float32(log_z), wide
            )

    @abstractmethod
    def compute(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        log_z: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> LossOutput:
        """As `forward`, with everything that `needs` names in `inputs`, and no number below float32."""

    def log_target_ratio(
        self,
        log_prob: Float[Tensor, " batch"],
        log_reward: Float[Tensor, " batch"],
        inputs: ObjectiveInputs,
    ) -> Float[Tensor, " batch"]:
        """Log of the target, not normalised, minus log π: equal to log Z for every program at the target.

        Whatever compares the policy with its target asks here: where log Z starts and what it follows,
        residuals, estimates of log Z by importance sampling, shares of the posterior.

        Args:
            log_prob: Log-probability of each program under the policy, in nats.
            log_reward: Log reward of each program, in nats.
            inputs: `task_index`, `reference_log_prob` and `stored_reference_log_prob`; `mask` where
                tokens count.
        """
        return log_reward - log_prob

    def join(self, nothing: Float[Tensor, " none"]) -> None:
        """Takes part, with no programs, in what `compute` exchanges between the ranks of a run.

        A rank without programs calls it instead of `forward`. Only an objective with `groups_span_ranks`
        exchanges anything: it takes `group_means` over ranks.

        Args:
            nothing: A tensor of length 0, on the device and of the type of log-probabilities.
        """
        for _ in range(self.group_means if self.groups_span_ranks else 0):
            group_mean(nothing, nothing.long(), across_ranks=True)


def at_least_float32(value: Tensor) -> Tensor:
    """A tensor with numbers of half precision in float32; float64, integers and truth values as they are."""
    return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value


def loss_output(loss: Float[Tensor, ""], residual: Float[Tensor, " batch"], **metrics: Tensor) -> LossOutput:
    """A `LossOutput` with the residual's mean and standard deviation among its metrics."""
    residual = residual.detach()
    named = {"residual_mean": residual.mean(), "residual_std": residual.std(correction=0)}
    return LossOutput(loss, residual, named | {name: value.detach() for name, value in metrics.items()})

"""A reference policy that follows the policy at a distance."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.policy import Policy, adapter_as, copy_adapter
from synthstats_lightning.replay import TrajectoryBatch


class MovingReference:
    """The policy as it was some steps ago, for objectives that reset their reference to it.

    Until the first reset the reference is the prior, given the prior's prompt; then it is a former policy,
    which is given what the policy is.

    Args:
        every_n_steps: Training steps between resets; with 0 the reference stays what it was at the start.

    Attributes:
        adapter: The adapter at the last reset; `None` before the first, when the reference has no adapter.
    """

    def __init__(self, every_n_steps: int) -> None:
        self.every_n_steps = every_n_steps
        self.adapter: dict[str, Tensor] | None = None
        self._reset_at = 0

    def step(self, policy: Policy, global_step: int) -> None:
        """Makes the reference the present policy when it is time; every rank must call it.

        Args:
            policy: The policy that is trained.
            global_step: Training steps so far.
        """
        due = self.every_n_steps > 0 and global_step > 0 and global_step % self.every_n_steps == 0
        if due and global_step != self._reset_at:
            self.adapter, self._reset_at = copy_adapter(policy), global_step

    def log_probs(
        self, policy: Policy, batch: TrajectoryBatch, min_new_tokens: int
    ) -> Float[Tensor, " batch"]:
        """Log-probability of each program under the reference, in nats.

        Args:
            policy: The policy, which lends its base weights.
            batch: Trajectories whose programs are read.
            min_new_tokens: Tokens before which the policy could not stop when it sampled, as in
                `SamplingSettings`.
        """
        if self.adapter is None:
            return batch.reference_log_prob
        with adapter_as(policy, self.adapter), policy.evaluating():
            return policy.program_log_probs(
                batch.prompt_ids,
                batch.program_ids,
                batch.program_mask,
                batch.prompt_mask,
                min_new_tokens=min_new_tokens,
                own_mask=batch.own_mask,
            )

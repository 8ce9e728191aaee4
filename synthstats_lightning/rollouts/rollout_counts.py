"""What servers have done for a rank since the last log."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class RolloutCounts:
    """Sums, of which ranks' can be added up.

    Attributes:
        tokens: Tokens that servers have written.
        seconds: For which programs were asked for and not yet there.
        waiting_seconds: For which the trainer did nothing but wait for them.
        programs: How many there were.
        age: Sum over programs of the training steps since their adapter was published.
        gap: Sum of absolute differences between the server's log-probabilities and the trainer's own under
            the same weights, in nats.
        compared: Tokens of that sum.
        failed: Requests that had to be made again.
        published: Adapters that were published.
        publish_seconds: What that took.
    """

    tokens: int = 0
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    programs: int = 0
    age: int = 0
    gap: float = 0.0
    compared: int = 0
    failed: int = 0
    published: int = 0
    publish_seconds: float = 0.0

    def __add__(self, other: RolloutCounts) -> RolloutCounts:
        return RolloutCounts(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(RolloutCounts))
        )

    def metrics(self) -> dict[str, float]:
        """What is logged: see `ServerRollouts`."""
        found = {
            "rollout/waiting_seconds": self.waiting_seconds,
            "rollout/failed_requests": float(self.failed),
        }
        if self.seconds > 0:
            found["rollout/tokens_per_second"] = self.tokens / self.seconds
        if self.programs:
            found["rollout/version_age"] = self.age / self.programs
        if self.compared:
            found["rollout/server_gap"] = self.gap / self.compared
        if self.published:
            found["rollout/publish_seconds"] = self.publish_seconds / self.published
        return found

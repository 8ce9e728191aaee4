"""What goes wrong between a run and an inference server."""

from __future__ import annotations


class RolloutError(RuntimeError):
    """Programs cannot be drawn by a server: a line that says why."""


class ServerAwayError(RolloutError):
    """A server did not answer, or not yet: it may a moment later."""


class RefusedError(RolloutError):
    """A server will not do what it was asked.

    Args:
        url: What was asked.
        status: The status of its answer.
        message: Its own words.
    """

    def __init__(self, url: str, status: int, message: str) -> None:
        super().__init__(f"{url}: status {status}: {message}")
        self.status = status
        self.message = message


class AnswerError(RolloutError):
    """An answer breaks what was asked for; nothing may be learned from it."""


class WeightsError(RolloutError):
    """A server's log-probabilities are not those of the weights that it should have."""


class AdapterError(RolloutError, ValueError):
    """An adapter that a server would load in part, or not at all."""

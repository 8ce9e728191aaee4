"""How a backend reaches who writes programs: a server over HTTP, or an engine in its own process."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from synthstats_lightning.rollouts.dialects import Dialect


@runtime_checkable
class Transport(Protocol):
    """Takes requests in a dialect; may be used by many threads at once.

    Attributes:
        url: Who is asked, as messages name it.
        dialect: In what it is asked for programs and told of adapters.
        patience_s: Seconds for which it is asked again while it is away.
        trouble: Why it is away at present; empty while it answers.
        away_since: Since when it has been, on the clock of `time.monotonic`.
        failed: Requests so far that had to be made again.
    """

    url: str
    dialect: Dialect
    patience_s: float
    trouble: str
    away_since: float
    failed: int

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to one request.

        Args:
            path: What is asked for.
            body: The request's fields.

        Raises:
            RolloutError: If there is none.
        """
        ...

    def ask_patiently(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """As `ask`, again and again while nobody answers.

        Args:
            path: What is asked for.
            body: The request's fields.

        Raises:
            RolloutError: If there is no answer, or the run ends.
        """
        ...

    def rest(self, seconds: float) -> None:
        """Waits, unless the run ends.

        Args:
            seconds: How long it waits at most.

        Raises:
            RolloutError: If the run ends.
        """
        ...

    def close(self) -> None:
        """Ends what waits for an answer."""
        ...

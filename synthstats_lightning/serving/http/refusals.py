"""What a request gets instead of an answer."""

from __future__ import annotations

from typing import Any, ClassVar

MOST_WORDS = 500
"""Characters that are told of an error."""


class Refusal(Exception):
    """A request that is not answered; its text is one line for the client.

    Attributes:
        status: Status of the answer.
        category: Why, in a word that clients and metrics count by.
        retry_after: Whole seconds after which another attempt may fare better; 0 if it will not.
    """

    status: ClassVar[int] = 500
    category: ClassVar[str] = "internal"
    retry_after: int = 0

    @property
    def body(self) -> dict[str, Any]:
        """What the client is told, ready for JSON."""
        return {"error": {"category": self.category, "message": str(self)[:MOST_WORDS]}}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        return {"Retry-After": str(self.retry_after)} if self.retry_after else {}


class InvalidRequestError(Refusal):
    """A task, a score or an episode that there is not."""

    status = 422
    category = "invalid"


class NoSuchPathError(Refusal):
    """A path that there is not."""

    status = 404
    category = "not_found"


class WrongMethodError(Refusal):
    """A path that there is, but not with this method.

    Args:
        allowed: The methods that it has, as the header `Allow` says them.
    """

    status = 405
    category = "wrong_method"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"the method must be {allowed}")
        self._allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        """Says which methods there are."""
        return {"Allow": self._allowed}


class UnauthorizedError(Refusal):
    """A request without the key."""

    status = 401
    category = "unauthorized"

    @property
    def headers(self) -> dict[str, str]:
        """Says which key is asked for."""
        return {"WWW-Authenticate": "Bearer"}


class TooLargeError(Refusal):
    """A body beyond the limit."""

    status = 413
    category = "too_large"


class SlowRequestError(Refusal):
    """A body that does not come."""

    status = 408
    category = "slow_request"


class QueueFullError(Refusal):
    """No more programs are taken on at present.

    Args:
        retry_after: Whole seconds after which there may be room.
    """

    status = 429
    category = "queue_full"

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class StoppingError(Refusal):
    """The server stops."""

    status = 503
    category = "stopping"
    retry_after = 5

    def __init__(self) -> None:
        super().__init__("the server stops; ask another one, or this one later")

    @property
    def headers(self) -> dict[str, str]:
        """Ends the connection, too."""
        return {**super().headers, "Connection": "close"}


class TooLateError(Refusal):
    """A program has no score in time."""

    status = 504
    category = "no_score_in_time"


class ClientLeftError(Refusal):
    """The client does not wait any more."""

    status = 499
    category = "client_left"


class ServerFailedError(Refusal):
    """Something went wrong that is none of the client's business."""

    def __init__(self) -> None:
        super().__init__("the server failed; its log says why")

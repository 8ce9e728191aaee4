"""Questions to an OpenAI-compatible endpoint, with time-outs, retries and a budget."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, NamedTuple

from synthstats_lightning.runtime.background_loop import run_within
from synthstats_lightning.scoring.terms.term import TermUnavailableError

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Answers of a server that may be others a moment later."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class ChatError(TermUnavailableError):
    """There is no answer.

    Args:
        message: Why, in one line.
        category: Of what kind that is: `timeout`, `connection`, `status`, `no_answer` or `budget`.
    """

    def __init__(self, message: str, category: str) -> None:
        super().__init__(message)
        self.category = category


class ChatAnswer(NamedTuple):
    """What a model has said.

    Attributes:
        text: What the model has written.
        ended: Why it ended, in the endpoint's word: `"stop"`, `"length"`, ...; empty if it does not say.
        read: Tokens of the messages, as the endpoint counts them; 0 if it does not say.
        written: Tokens of the answer, thoughts included, as the endpoint counts them; 0 if it does not say.
    """

    text: str
    ended: str = ""
    read: int = 0
    written: int = 0


class _Attempt(NamedTuple):
    """What came of a request.

    Attributes:
        answer: An answer; `None` if there is none.
        reason: Why there is none.
        category: The kind that the reason is of.
        pause: The least pause before another attempt, in seconds; `None` for no other.
    """

    answer: ChatAnswer | None
    reason: str = ""
    category: str = ""
    pause: float | None = None


class ChatEndpoint:
    """Asks `/chat/completions` below a base URL; may be used by many threads at once.

    Args:
        base_url: Where the endpoint is, up to and without `/chat/completions`.
        model: Name of the model there.
        api_key_env: Name of the environment variable that holds the key; `None` for none.
        timeout_s: Seconds that one request may take, from looking up the host to the last byte, however
            slowly bytes come in.
        retries: Further attempts after one that failed for a reason that may pass.
        budget: Most requests of this process, retries counted; `None` for no limit.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        timeout_s: float = 60.0,
        retries: int = 2,
        budget: int | None = None,
    ) -> None:
        self.url = f"{base_url.rstrip('/')}/chat/completions"
        self.model = model
        self.api_key_env = api_key_env
        self.timeout_s = timeout_s
        self.retries = retries
        self.budget = budget
        self.requests = 0
        self._lock = threading.Lock()
        self._client: Any = None

    def ask(self, messages: list[dict[str, str]]) -> str:
        """The text of one answer, at temperature 0.

        Args:
            messages: The conversation, each with `role` and `content`.

        Raises:
            TermUnavailableError: If there is none after all retries, or the budget is spent.
            ValueError: If the environment has no key of that name.
        """
        return self.answer(messages, temperature=0).text

    def answer(self, messages: list[dict[str, str]], **settings: Any) -> ChatAnswer:
        """One answer.

        Args:
            messages: The conversation, each with `role` and `content`.
            **settings: Further fields of the request, such as `temperature`.

        Raises:
            ChatError: If there is none after all retries, or the budget is spent.
            ValueError: If the environment has no key of that name.
        """
        client, headers = self._connected(), self.headers()
        body = {"model": self.model, "messages": messages, **settings}
        found = _Attempt(None)
        for attempt in range(self.retries + 1):
            self._spend()
            found = self._try(client, body, headers)
            if found.answer is not None:
                return found.answer
            if found.pause is None:
                break
            if attempt < self.retries:
                time.sleep(min(max(found.pause, FIRST_PAUSE * 2**attempt), LONGEST_PAUSE))
        raise ChatError(f"{self.url}: {found.reason}", found.category)

    def _try(self, client: Any, body: dict[str, Any], headers: dict[str, str]) -> _Attempt:
        import httpx2

        try:
            response = run_within(client.post(self.url, json=body, headers=headers), self.timeout_s)
        except TimeoutError:
            reason = f"Timeout: no whole answer within {self.timeout_s:g} s"
            return _Attempt(None, reason, "timeout", 0.0)
        except httpx2.HTTPError as error:
            return _Attempt(None, f"{type(error).__name__}: {error}", "connection", 0.0)
        if response.status_code != 200:
            after = response.headers.get("retry-after", "")
            pause = float(after) if after.isdecimal() else 0.0
            again = pause if response.status_code in RETRIED else None
            return _Attempt(None, f"status {response.status_code}", "status", again)
        try:
            document = response.json()
            choice = document["choices"][0]
            content, ended = choice["message"]["content"], choice.get("finish_reason")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            return _Attempt(None, f"no chat completion: {error!r}", "no_answer", 0.0)
        if not isinstance(content, str):
            return _Attempt(None, "an answer without text", "no_answer", 0.0)
        counted = [_tokens(document, name) for name in ("prompt_tokens", "completion_tokens")]
        return _Attempt(ChatAnswer(content, ended if isinstance(ended, str) else "", *counted))

    def _spend(self) -> None:
        with self._lock:
            if self.budget is not None and self.requests >= self.budget:
                raise ChatError(f"{self.url}: the budget of {self.budget} requests is spent", "budget")
            self.requests += 1

    def headers(self) -> dict[str, str]:
        """What tells the endpoint who asks.

        Raises:
            ValueError: If the environment has no key of that name.
        """
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ValueError(f"api_key_env must name a variable of the environment, got {self.api_key_env!r}")
        return {"Authorization": f"Bearer {key}"}

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                try:
                    import httpx2
                except ImportError:
                    raise ValueError(
                        "chat endpoints need the verifier extra: pip install 'synthstats-lightning[verifier]'"
                    ) from None
                # its own limits are of the silence between bytes, not of a request
                self._client = httpx2.AsyncClient(timeout=None)
            return self._client


def _tokens(document: dict[str, Any], name: str) -> int:
    """A count of an answer's `usage`; 0 if there is none."""
    usage = document.get("usage")
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and value > 0 else 0

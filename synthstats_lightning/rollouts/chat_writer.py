"""Programs of a chat model behind an OpenAI-compatible endpoint, which says nothing of their probability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from synthstats_lightning.programs.answers import extract_source
from synthstats_lightning.rollouts.connection import check_url
from synthstats_lightning.rollouts.request_threads import RequestThreads
from synthstats_lightning.scoring.terms.chat_endpoint import ChatEndpoint, ChatError
from synthstats_lightning.tasks import Prompt

PREFIX = "openai:"
"""How a policy is named that is a chat model: `openai:MODEL@URL`."""
CUT, NO_PROGRAM = "cut_off", "no_program"
"""Answers that came and hold no whole program."""
UNANSWERED = frozenset({"timeout", "connection", "status"})
"""Failures of an endpoint that may be asked again later, and of no model."""


@dataclass(frozen=True)
class ChatSettings:
    """How a chat model is asked for programs.

    Attributes:
        api_key_env: Name of the environment variable that holds the endpoint's key; `None` for none.
        temperature: Temperature that the model samples at, from 0.
        max_tokens: Tokens of an answer; `None` leaves it to the endpoint.
        timeout_s: Seconds that one request may take.
        retries: Further attempts after a time-out, a lost connection or an answer that asks for patience.
        at_once: Most requests at once, of one process.

    Raises:
        ValueError: If a number is out of range.
    """

    api_key_env: str | None = None
    temperature: float = 1.0
    max_tokens: int | None = 2048
    timeout_s: float = 120.0
    retries: int = 2
    at_once: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature must be finite and at least 0, got {self.temperature}")
        if not 0 < self.timeout_s < float("inf"):
            raise ValueError(f"timeout_s must be positive and finite, got {self.timeout_s}")
        least = {"max_tokens": 1, "retries": 0, "at_once": 1}
        for name, bound in least.items():
            number = getattr(self, name)
            if number is not None and number < bound:
                raise ValueError(f"{name} must be at least {bound}, got {number}")


class ChatProgram(NamedTuple):
    """What came of asking for a program.

    Attributes:
        source: Source text of the program; empty if there is none.
        failure: Why there is none: `timeout`, `connection`, `status`, `no_answer`, `cut_off` or `no_program`;
            empty if there is one.
        message: The same in words.
        read: Tokens of the prompt, as the endpoint counts them; 0 if it does not say.
        written: Tokens of the answer, likewise.
    """

    source: str
    failure: str = ""
    message: str = ""
    read: int = 0
    written: int = 0


class ChatWriter:
    """Asks a chat model for programs.

    Args:
        model: Name of the model at the endpoint.
        url: Where the endpoint is, with or without `/v1`.
        settings: How it is asked.

    Attributes:
        name: The model and where it is.

    Raises:
        ValueError: If the URL is none, or the environment has no key of that name.
    """

    def __init__(self, model: str, url: str, settings: ChatSettings = ChatSettings()) -> None:
        if not model:
            raise ValueError("model must name a model of the endpoint, got an empty name")
        base = f"{check_url(url)}/v1"
        given = settings.api_key_env, settings.timeout_s, settings.retries
        self.endpoint = ChatEndpoint(base, model, *given)
        self.endpoint.headers()  # a missing key is an error here
        self.settings = settings
        self.name = f"{model}@{base}"
        self._threads = RequestThreads(settings.at_once)

    def begin(self, prompts: Sequence[Prompt], number: int) -> list[list[Future[ChatProgram]]]:
        """Asks for programs and returns at once.

        Args:
            prompts: One a task.
            number: Programs of each.

        Returns:
            What comes of each request, by prompt.
        """
        return [
            [self._threads.submit(partial(self.one, prompt)) for _ in range(number)] for prompt in prompts
        ]

    def one(self, prompt: Prompt) -> ChatProgram:
        """One program, or why there is none.

        Args:
            prompt: The prompt of a task.
        """
        request = f"{prompt.request}\n{prompt.data}" if prompt.data else prompt.request
        messages = [{"role": "system", "content": prompt.rules}, {"role": "user", "content": request}]
        limit = {} if self.settings.max_tokens is None else {"max_tokens": self.settings.max_tokens}
        try:
            answer = self.endpoint.answer(messages, temperature=self.settings.temperature, **limit)
        except ChatError as error:
            return ChatProgram("", error.category, str(error))
        counted = answer.read, answer.written
        if answer.ended == "length":
            return ChatProgram(
                "", CUT, f"an answer was cut off after {len(answer.text)} characters", *counted
            )
        source = extract_source(answer.text)
        if not source.strip():
            return ChatProgram("", NO_PROGRAM, f"no program in {answer.text[:60]!r}", *counted)
        return ChatProgram(source, "", "", *counted)

    def close(self) -> None:
        """Ends the threads; what is under way is left."""
        self._threads.close(0.0)


def parsed_name(policy: str) -> tuple[str, str]:
    """Model and URL of a policy's name.

    Args:
        policy: Such as `openai:MODEL@https://HOST/v1`.

    Raises:
        ValueError: If it is no such name.
    """
    model, _, url = policy.removeprefix(PREFIX).rpartition("@")
    if not policy.startswith(PREFIX) or not model or not url:
        raise ValueError(f"policy must be openai:MODEL@URL, got {policy!r}")
    check_url(url)
    return model, url


def failures(programs: Sequence[ChatProgram]) -> Counter[str]:
    """How many requests gave no program, by why.

    Args:
        programs: What came of the requests.
    """
    return Counter(program.failure for program in programs if program.failure)

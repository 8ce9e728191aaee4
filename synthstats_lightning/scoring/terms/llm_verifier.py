"""A language model that judges models by a rubric: it sees what a program means, never its text."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Literal, get_args

from synthstats_lightning.scoring.terms.chat_endpoint import ChatEndpoint
from synthstats_lightning.scoring.terms.term import RewardTerm, ScoredProgram, TermUnavailableError

OnFailure = Literal["zero", "fail", "stop"]
BEST = 10
"""The best mark that the endpoint gives."""
RUBRIC = (
    "Is this a model that a careful statistician would defend for these data? Judge whether the response"
    " distribution suits the response, whether the predictors enter in a plausible way, and whether the"
    " priors are sensible."
)
INSTRUCTIONS = (
    "You judge statistical models. You are given a description of data and one model of them, as PyMC"
    " statements that were generated from its mathematical form. {rubric}\nAnswer with one JSON object and"
    ' nothing else: {{"mark": M}}, where M is a number from 0 (worthless) to {best} (excellent).'
)
_MARK = re.compile(r'\{\s*"mark"\s*:\s*(-?\d+(?:\.\d+)?)\s*\}')


class LLMVerifier(RewardTerm):
    """Marks from 0 to 1 of any OpenAI-compatible endpoint, for the model graph rendered anew.

    Comments, names and layout of a program do not reach the endpoint, so that a program cannot talk to it;
    programs of one canonical form are judged once.

    Args:
        base_url: Where the endpoint is, such as `https://HOST/v1`.
        model: Name of the model there.
        api_key_env: Name of the environment variable that holds the key; `None` for none.
        rubric: What the marks are for, in words.
        weight: Nats between the worst mark and the best.
        timeout_s: Seconds that one request may take, from looking up the host to the last byte.
        max_concurrency: Most requests at once, of one process.
        budget: Most requests of one process, retries counted; `None` for no limit.
        on_failure: A program without a mark, after all retries or beyond the budget, has 0 and is judged
            again when it comes again (`"zero"`), has no score (`"fail"`), or ends the run (`"stop"`).
        retries: Further attempts after a time-out, a lost connection or an answer that asks for patience.
        name: What logs and records call the term.

    Raises:
        ValueError: If a number is out of range or `on_failure` is unknown.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key_env: str | None = None,
        rubric: str = RUBRIC,
        weight: float = 1.0,
        timeout_s: float = 60.0,
        max_concurrency: int = 4,
        budget: int | None = None,
        on_failure: OnFailure = "zero",
        retries: int = 2,
        name: str = "LLMVerifier",
    ) -> None:
        super().__init__(weight, name, max_concurrency)
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be above 0, got {timeout_s}")
        for label, number in {"budget": budget, "retries": retries}.items():
            if number is not None and number < 0:
                raise ValueError(f"{label} must be 0 or more, got {number}")
        if on_failure not in get_args(OnFailure):
            raise ValueError(
                f"on_failure must be one of {', '.join(get_args(OnFailure))}, got {on_failure!r}"
            )
        self.rubric = rubric
        self.failure = on_failure
        self.endpoint = ChatEndpoint(base_url, model, api_key_env, timeout_s, retries, budget)

    @property
    def key(self) -> str:
        """The name, with a digest of model and rubric."""
        asked = json.dumps([self.endpoint.url, self.endpoint.model, self.rubric])
        return f"{self.name}@{hashlib.sha256(asked.encode()).hexdigest()[:12]}"

    def on_failure(self, error: TermUnavailableError) -> str:
        """As the argument says."""
        return self.failure

    def value(self, program: ScoredProgram) -> float:
        """The endpoint's mark, from 0 to 1."""
        return self._mark(f"Data: {_described(program)}\n\nModel:\n{program.model}")

    def ready(self) -> str:
        """Asks the endpoint for one mark.

        Raises:
            TermUnavailableError: If it gives none.
        """
        mark = self._mark("Data: lengths y of 10 rods.\n\nModel:\ny = pm.Normal('y', 2, 1)")
        return f"{self.endpoint.url} answers ({self.endpoint.model}: mark {mark:g}); {super().ready()}"

    def _mark(self, question: str) -> float:
        system = INSTRUCTIONS.format(rubric=self.rubric, best=BEST)
        answer = self.endpoint.ask(
            [{"role": "system", "content": system}, {"role": "user", "content": question}]
        )
        marks = _MARK.findall(answer)
        mark = float(marks[-1]) if marks else -1.0
        if not 0 <= mark <= BEST:
            raise TermUnavailableError(f"{self.endpoint.url}: no mark in {answer[:80]!r}")
        return mark / BEST


def _described(program: ScoredProgram) -> str:
    """The task in words, and its columns; no value of the response."""
    task = program.task
    columns = ", ".join(f"{name} ({column.kind})" for name, column in task.columns.items())
    return f"{task.description} {task.num_rows} rows; columns: {columns}; response: {task.response}."

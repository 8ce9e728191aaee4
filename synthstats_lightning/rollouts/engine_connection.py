"""An engine in this process that is asked as a server is."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, runtime_checkable

from synthstats_lightning.rollouts.dialects import VLLM, Dialect
from synthstats_lightning.rollouts.errors import RefusedError, RolloutError
from synthstats_lightning.rollouts.vllm_engine import BASE

IN_PROCESS = "vLLM in this process"
GATHER_SECONDS = 0.02
"""For which further requests are waited for before those that came are written together."""
CLOSE_SECONDS = 60.0
"""For which programs that are being written are waited for when a run ends."""


@runtime_checkable
class Engine(Protocol):
    """What writes programs; see `VLLMEngine`."""

    def load(self, name: str, path: str) -> None:
        """Reads an adapter."""
        ...

    def unload(self, name: str) -> None:
        """Forgets an adapter."""
        ...

    def has(self, name: str) -> bool:
        """Whether requests may name a model."""
        ...

    def complete(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Answers to requests, written together."""
        ...

    def close(self) -> None:
        """Gives back what it took."""
        ...


class _Asked(NamedTuple):
    path: str
    body: dict[str, Any]
    answer: Future[Any]


class EngineConnection:
    """Asks an engine in this process, in the words of vLLM's server; may be used by many threads at once.

    One thread makes the engine and every call of it. Requests for programs that come within
    `GATHER_SECONDS` are written together; adapters are loaded before them and unloaded behind them.

    Args:
        start: Makes the engine.

    Attributes:
        url: Who is asked, as messages name it.
        dialect: That of vLLM's server.
        patience_s: Nothing: an engine that fails has failed.
        trouble: Nothing: it is never away.
        away_since: Nothing, for the same reason.
        failed: Nothing; a failure is raised where it happens.

    Raises:
        RolloutError: If the engine does not start.
    """

    def __init__(self, start: Callable[[], Engine]) -> None:
        self.url = IN_PROCESS
        self.dialect: Dialect = VLLM()
        self.patience_s = 0.0
        self.trouble = ""
        self.away_since = 0.0
        self.failed = 0
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(start, started), daemon=True, name="rollout-engine"
        )
        self._thread.start()
        try:
            started.result()
        except Exception as error:
            raise RolloutError(f"{self.url} does not start: {_words(error)}") from error

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to one request, as vLLM's server gives it.

        Args:
            path: What a server would be asked for.
            body: The request's fields.

        Raises:
            RefusedError: If a model is asked for that is not there.
            RolloutError: If the engine fails, or the run ends.
        """
        if path == "/v1/models":
            return {"data": [{"id": BASE, "parent": None}]}
        asked = _Asked(path, body or {}, Future())
        self._asked.put(asked)
        while not self._ended.is_set():
            try:
                return asked.answer.result(1.0)
            except TimeoutError:
                continue
        raise RolloutError(f"{self.url}: the run ends")

    def ask_patiently(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """As `ask`: there is nothing to wait for.

        Args:
            path: What a server would be asked for.
            body: The request's fields.
        """
        return self.ask(path, body)

    def rest(self, seconds: float) -> None:
        """Waits, unless the run ends.

        Args:
            seconds: How long it waits at most.

        Raises:
            RolloutError: If the run ends.
        """
        if self._ended.wait(seconds):
            raise RolloutError(f"{self.url}: the run ends")

    def close(self) -> None:
        """Ends the engine, behind what it is writing."""
        if not self._ended.is_set():
            self._ended.set()
            self._asked.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _run(self, start: Callable[[], Engine], started: Future[None]) -> None:
        try:
            engine = start()
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(None)
        batch: list[_Asked | None] = []
        while None not in batch:
            batch = self._gathered()
            self._serve(engine, [each for each in batch if each is not None])
        engine.close()

    def _gathered(self) -> list[_Asked | None]:
        """What was asked, and what is asked right behind it; ends with `None` where the run does."""
        batch = [self._asked.get()]
        while batch[-1] is not None:
            try:
                batch.append(self._asked.get(timeout=GATHER_SECONDS))
            except queue.Empty:
                break
        return batch

    def _serve(self, engine: Engine, batch: Sequence[_Asked]) -> None:
        """Answers requests that came together."""
        for each in batch:
            if each.path == self.dialect.load:
                self._call(each, lambda body: engine.load(body["lora_name"], body["lora_path"]))
        known = []
        for each in batch:
            if each.path != self.dialect.path:
                continue
            if engine.has(each.body["model"]):
                known.append(each)
            else:
                words = f"the model {each.body['model']!r} does not exist"
                each.answer.set_exception(RefusedError(self.url, 404, words))
        if known and not self._ended.is_set():
            self._complete(engine, known)
        for each in batch:
            if each.path == self.dialect.unload:
                self._call(each, lambda body: engine.unload(body["lora_name"]))

    def _complete(self, engine: Engine, asked: Sequence[_Asked]) -> None:
        try:
            documents = engine.complete([each.body for each in asked])
        except Exception as error:
            for each in asked:
                each.answer.set_exception(RolloutError(f"{self.url}: {_words(error)}"))
            return
        for each, answer in zip(asked, documents, strict=True):
            each.answer.set_result(answer)

    def _call(self, asked: _Asked, call: Callable[[dict[str, Any]], None]) -> None:
        try:
            call(asked.body)
        except Exception as error:
            asked.answer.set_exception(RefusedError(self.url, 400, _words(error)))
        else:
            asked.answer.set_result("ok")


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

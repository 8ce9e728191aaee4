"""What servers are asked in, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from synthstats_lightning.rollouts import completions, native_generation
from synthstats_lightning.rollouts.completions import Completion, CompletionRequest
from synthstats_lightning.rollouts.errors import RefusedError

Api = Literal["vllm", "sglang"]
"""Which server: vLLM's completions, or SGLang's native generation."""
LogProbsMode = Literal["raw", "tempered", "processed"]
"""Of what a server's log-probabilities are: the model at temperature 1, at the programs' temperature, or what
programs are drawn from, `top_p` and least length too."""
NO_SUCH_PATH = "Not Found"
"""What a server says that has no such endpoint at all."""


@runtime_checkable
class Dialect(Protocol):
    """How a kind of server is asked for programs and told of adapters."""

    @property
    def path(self) -> str:
        """Where programs are asked for."""
        ...

    @property
    def load(self) -> str:
        """Where it is told to load an adapter, of `lora_name` and `lora_path`."""
        ...

    @property
    def unload(self) -> str:
        """Where it is told to forget one."""
        ...

    @property
    def warm(self) -> LogProbsMode:
        """Of what its log-probabilities are, if not of the model at temperature 1."""
        ...

    @property
    def hint(self) -> str:
        """How it must be started to load adapters."""
        ...

    def body(self, request: CompletionRequest, model: str, adapter: bool) -> dict[str, Any]:
        """What is posted.

        Args:
            request: Programs of one prompt.
            model: Name of the base model, or of an adapter, at the server.
            adapter: Whether it is that of an adapter.
        """
        ...

    def read(self, answer: Any, request: CompletionRequest) -> list[Completion] | None:
        """The programs of an answer, in the order of their seeds; `None` if the server broke one off.

        Args:
            answer: What the server has sent.
            request: What it was asked.

        Raises:
            AnswerError: If a field is missing, or its value is not what was asked for.
        """
        ...

    def lost(self, error: RefusedError) -> bool:
        """Whether a server says that it does not have an adapter, as one that was started anew.

        Args:
            error: What it has answered to a request for programs.
        """
        ...

    def unseen(self, error: RefusedError) -> bool:
        """Whether a server says that it does not see an adapter's folder, or not yet.

        Args:
            error: What it has answered to a request to load it.
        """
        ...


@dataclass(frozen=True)
class VLLM:
    """vLLM's completions API."""

    path: str = completions.PATH
    load: str = "/v1/load_lora_adapter"
    unload: str = "/v1/unload_lora_adapter"
    warm: LogProbsMode = "processed"
    hint: str = "--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1,"

    def body(self, request: CompletionRequest, model: str, adapter: bool) -> dict[str, Any]:
        """What is posted; see `Dialect`."""
        return request.body(model)

    def read(self, answer: Any, request: CompletionRequest) -> list[Completion] | None:
        """The programs of an answer; see `Dialect`."""
        return completions.read_completions(answer, request)

    def lost(self, error: RefusedError) -> bool:
        """Whether the server does not have an adapter; see `Dialect`."""
        return error.status == 404

    def unseen(self, error: RefusedError) -> bool:
        """Whether the server does not see a folder; see `Dialect`."""
        return error.status == 404 and error.message != NO_SUCH_PATH


@dataclass(frozen=True)
class SGLang:
    """SGLang's native API: log-probabilities are of the tempered model unless it is told otherwise."""

    path: str = native_generation.PATH
    load: str = "/load_lora_adapter"
    unload: str = "/unload_lora_adapter"
    warm: LogProbsMode = "tempered"
    hint: str = "--enable-lora, --max-lora-rank and --lora-target-modules, without data parallelism,"

    def body(self, request: CompletionRequest, model: str, adapter: bool) -> dict[str, Any]:
        """What is posted; see `Dialect`."""
        return native_generation.generation_body(request, model if adapter else None)

    def read(self, answer: Any, request: CompletionRequest) -> list[Completion] | None:
        """The programs of an answer; see `Dialect`."""
        return native_generation.read_generations(answer, request)

    def lost(self, error: RefusedError) -> bool:
        """Whether the server does not have an adapter; see `Dialect`."""
        return error.status == 400 and "not loaded" in error.message

    def unseen(self, error: RefusedError) -> bool:
        """Whether the server does not see a folder; see `Dialect`."""
        words = ("No such file", "not exist", "Repo id", "adapter_config.json")
        return error.status == 400 and any(each in error.message for each in words)


DIALECTS: dict[Api, Dialect] = {"vllm": VLLM(), "sglang": SGLang()}
"""The kinds of servers that a run can ask."""

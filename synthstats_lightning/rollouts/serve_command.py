"""The command that starts an inference server for a run, as vLLM and SGLang take it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from synthstats_lightning.rollouts.adapter_versions import ADAPTED
from synthstats_lightning.rollouts.dialects import Api
from synthstats_lightning.rollouts.weight_check import PROMPT_TOKENS, TOKENS

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM's `--max-lora-rank` may be."""
PORTS = {"http": 80, "https": 443}
"""Where addresses without a port lead."""


@dataclass(frozen=True)
class ServedModel:
    """What a server has to hold for a run.

    Attributes:
        model: Folder or hub name of the base model.
        name: What requests call the base model.
        dtype: Number type of its weights: `"float32"`, `"bfloat16"` or `"float16"`.
        rank: Rank of the adapters.
        keep: Versions besides the present one that the server keeps.
        max_tokens: Tokens of the longest prompt and program together.
        revision: Which revision of a hub repository; `None` for its default.
        four_bit: Whether the trainer holds the base in 4 bits.
        on_cpu: Whether the server computes on processors.
        api_key_env: Name of the environment variable that holds the server's key; `None` for none.

    Raises:
        ValueError: If the rank is more than servers take.
    """

    model: str
    name: str
    dtype: str
    rank: int
    keep: int
    max_tokens: int
    revision: str | None = None
    four_bit: bool = False
    on_cpu: bool = False
    api_key_env: str | None = None

    def __post_init__(self) -> None:
        if self.rank > RANKS[-1]:
            raise ValueError(f"lora.rank must be at most {RANKS[-1]} where a server samples, got {self.rank}")

    @property
    def max_rank(self) -> int:
        """The least rank that vLLM takes and that has room for the adapters."""
        return next(rank for rank in RANKS if rank >= self.rank)

    @property
    def context(self) -> int:
        """Tokens that the server has to have room for: those of a run, and of the check of its weights."""
        return max(self.max_tokens, PROMPT_TOKENS + TOKENS)

    @property
    def at_once(self) -> int:
        """Adapters that may be in use at once: a version is loaded before the oldest goes."""
        return self.keep + 1

    @property
    def loaded(self) -> int:
        """Adapters that the server may hold, in use or not."""
        return max(2 * self.keep, self.at_once)


class ServeCommand(NamedTuple):
    """A command and what has to be in its environment.

    Attributes:
        environment: Values by name; one that begins with `$` is another variable's.
        arguments: The command, word by word.
    """

    environment: dict[str, str]
    arguments: list[str]

    def shell(self) -> str:
        """As one types it, an option a line."""
        words = [f"{name}={_quoted(value)}" for name, value in self.environment.items()]
        lines = [" ".join([*words, *_head(self.arguments)]), *_options(self.arguments)]
        return " \\\n  ".join(lines)


@dataclass(frozen=True)
class _Words:
    """A command that grows."""

    arguments: list[str] = field(default_factory=list)

    def add(self, option: str, *values: object) -> None:
        self.arguments.extend([option, *map(str, values)])

    def add_model(self, served: ServedModel, host: str, port: int) -> None:
        """What both servers call the same."""
        self.add("--served-model-name", served.name)
        self.add("--host", host)
        self.add("--port", port)
        self.add("--dtype", served.dtype)
        if served.revision is not None:
            self.add("--revision", served.revision)


def serve_command(served: ServedModel, url: str, api: Api = "vllm") -> ServeCommand:
    """What starts a server for a run at one address.

    Args:
        served: What it has to hold.
        url: Where it is to listen.
        api: Which server: `"vllm"` or `"sglang"`.

    Raises:
        ValueError: If the server cannot hold it.
    """
    return (_vllm if api == "vllm" else _sglang)(served, *_listens(url))


def _vllm(served: ServedModel, host: str, port: int) -> ServeCommand:
    environment = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    if served.api_key_env is not None:
        environment["VLLM_API_KEY"] = f"${served.api_key_env}"
    words = _Words(["vllm", "serve", served.model])
    if served.on_cpu:
        # processors of a trainer beside it: one thread, and a cache of 1 GiB
        environment |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1"}
        environment |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
        words = _Words(["python", "-m", "vllm.entrypoints.openai.api_server", "--model", served.model])
    words.add_model(served, host, port)
    if served.four_bit:
        words.add("--quantization", "bitsandbytes")
    words.add("--max-model-len", served.context)
    words.add("--enable-lora")
    words.add("--max-lora-rank", served.max_rank)
    words.add("--max-loras", served.at_once)
    words.add("--max-cpu-loras", served.loaded)
    words.add("--generation-config", "vllm")
    if served.on_cpu:
        words.add("--enforce-eager")
        # prompts read in pieces end vLLM's engine on processors where requests have seeds
        words.add("--no-enable-chunked-prefill")
    return ServeCommand(environment, words.arguments)


def _sglang(served: ServedModel, host: str, port: int) -> ServeCommand:
    if served.on_cpu:
        raise ValueError("SGLang's packages are for GPUs: give --dialect vllm, or --cpu false")
    words = _Words(["python", "-m", "sglang.launch_server", "--model-path", served.model])
    words.add_model(served, host, port)
    if served.four_bit:
        words.add("--load-format", "bitsandbytes")
    words.add("--context-length", served.context)
    words.add("--enable-lora")
    words.add("--max-lora-rank", served.rank)
    words.add("--lora-target-modules", *ADAPTED)
    words.add("--max-loras-per-batch", served.at_once)
    words.add("--max-loaded-loras", served.loaded)
    words.add("--sampling-defaults", "openai")
    if served.api_key_env is not None:
        words.add("--api-key", f"${served.api_key_env}")
    return ServeCommand({}, words.arguments)


def _listens(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or PORTS[parts.scheme]


def _quoted(word: str) -> str:
    """A word for a shell; a variable stays one."""
    return f'"{word}"' if word.startswith("$") else shlex.quote(word)


def _head(arguments: list[str]) -> Iterator[str]:
    """Everything before the first long option, and that one where it names the model."""
    for word in arguments:
        if word.startswith("--") and word not in ("--model", "--model-path"):
            return
        yield _quoted(word)


def _options(arguments: list[str]) -> Iterator[str]:
    """Each further option with its values."""
    rest = arguments[len(list(_head(arguments))) :]
    starts = [place for place, word in enumerate(rest) if word.startswith("--")]
    for start, end in zip(starts, [*starts[1:], len(rest)], strict=True):
        yield " ".join(map(_quoted, rest[start:end]))

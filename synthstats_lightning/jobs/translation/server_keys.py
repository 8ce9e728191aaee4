"""The keys of an inference server that writes training programs."""

from __future__ import annotations

from synthstats_lightning.jobs.translation.key import Key

WEIGHT_SYNC = (
    Key(
        "training.weight_sync.enable",
        "boolean",
        "Must be true with a server, which would otherwise write by the base model for ever.",
        default=True,
    ),
    Key(
        "training.weight_sync.targets",
        "texts",
        "What is published: the policy, for nothing else learns.",
        allowed=("policy",),
        default="policy",
    ),
    Key(
        "training.weight_sync.mode",
        "text",
        "Versions of the adapter go to the servers, each under a name of its own.",
        allowed=("direct", "adapter"),
        default="direct",
    ),
    Key(
        "training.weight_sync.direct",
        "boolean",
        "Must be true: versions go from the trainer to the servers.",
        default=True,
    ),
    Key(
        "training.weight_sync.verify_every_k",
        "integer",
        "Must be 1: every version is checked against the trainer before it is used.",
        unit="versions",
        least=0,
        default=1,
    ),
)
SERVERS_OWN = {
    "tensor_parallel_size": "--tensor-parallel-size",
    "max_model_len": "--max-model-len",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "max_loras": "--max-loras",
    "max_lora_rank": "--max-lora-rank",
    "dtype": "--dtype",
}
"""Keys of `[vllm]` that only a server itself can be given, and its options."""


def _of_server(name: str, option: str) -> Key:
    kind = "text" if name == "dtype" else "number"
    return Key(f"vllm.{name}", kind, f"Is refused: it is the server's own option `{option}`.")  # type: ignore[arg-type]


VLLM = (
    Key(
        "vllm.url",
        "texts",
        "Address of the server, or of several, one a replica; needed where `rollout.policy_name` is vllm.",
    ),
    Key("vllm.base_model", "text", "The base model's name at the server.", path="rollouts.base_model"),
    Key(
        "vllm.keep",
        "integer",
        "Versions of the adapter that the server keeps besides the present one.",
        unit="versions",
        least=0,
        path="rollouts.keep",
    ),
    Key(
        "vllm.adapter_folder",
        "text",
        "Folder that versions are written to.",
        path="rollouts.adapter_folder",
    ),
    Key(
        "vllm.path_on_server",
        "text",
        "Where the server sees that folder, if elsewhere.",
        path="rollouts.path_on_server",
    ),
    Key(
        "vllm.api_key_env",
        "text",
        "Name of the environment variable that holds the server's key.",
        path="rollouts.api_key_env",
    ),
    Key(
        "vllm.timeout_s",
        "number",
        "How long the server may send nothing before it is asked again.",
        unit="seconds",
        above=0,
        path="rollouts.timeout_s",
    ),
    Key(
        "vllm.patience_s",
        "number",
        "How long a server that is away is waited for.",
        unit="seconds",
        above=0,
        path="rollouts.patience_s",
    ),
    Key(
        "vllm.overlap",
        "boolean",
        "Whether the next round is written while the trainer learns.",
        path="rollouts.overlap",
    ),
    Key(
        "vllm.max_gap",
        "number",
        "Largest difference between server and trainer in the check of a version.",
        unit="nats a token",
        above=0,
        path="rollouts.max_gap",
    ),
    *(_of_server(name, option) for name, option in SERVERS_OWN.items()),
)

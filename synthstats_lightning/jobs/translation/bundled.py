"""What job files need to know of policies, without what loading one takes."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path

BUNDLED = ("tiny", "tiny-episodes", "writer")
"""Policies that come with the package, as `policy.loading` has them."""
POINTS = "writer"
"""The one among them whose tokens stand for columns, which no server knows."""
HUB = "policy/qwen3"
"""The configuration that goes over a job's base for any other policy."""
OWN = {"tiny": "policy/tiny", "writer": "policy/writer"}
"""Configurations of the bundled policies that write programs from a request."""
ADAPTER_FILES = {"base_model.json": "name", "adapter_config.json": "base_model_name_or_path"}
"""Files beside a saved adapter, and the key of each that names the base model."""


def policy_configs(policy: str | None, episodes: bool) -> list[str]:
    """Configurations that go over a job's base for its policy.

    Args:
        policy: Name of the base model; `None` for that of the base configuration.
        episodes: Whether the policy experiments, which the base's configuration of episodes is for.
    """
    if policy is None or (episodes and policy in BUNDLED):
        return []
    return [OWN[policy]] if policy in OWN else [] if policy in BUNDLED else [HUB]


def misspelt(policy: str) -> str | None:
    """The bundled policy that a name was probably meant for; `None` where it may be another model's.

    Args:
        policy: Name of a base model, as the job says it.
    """
    if policy in BUNDLED or "/" in policy or Path(policy).exists():
        return None
    near = get_close_matches(policy.lower(), BUNDLED, n=1, cutoff=0.7)
    return near[0] if near else None


def base_of(source: str) -> str | None:
    """The base model that a saved adapter is of; `None` where its folder does not say.

    Args:
        source: Folder of the adapter.

    Raises:
        ValueError: If a file that would say it cannot be read.
    """
    for name, key in ADAPTER_FILES.items():
        path = Path(source) / name
        if not path.is_file():
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError(f"{path} is no JSON object")
        if found := document.get(key):
            return str(found)
    return None

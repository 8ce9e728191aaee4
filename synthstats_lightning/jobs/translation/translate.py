"""From a job file's mapping to the configuration of a run: a pure function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from synthstats_lightning.jobs.translation.configuration import Configuration
from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.graph import (
    GRAPH_KEYS,
    GraphSettings,
    graph_settings,
    translate_graph,
)
from synthstats_lightning.jobs.translation.key import Key
from synthstats_lightning.jobs.translation.reading import Read, read_values
from synthstats_lightning.jobs.translation.rl import translate_rl
from synthstats_lightning.jobs.translation.rl_keys import RL_KEYS
from synthstats_lightning.jobs.translation.sft import translate_sft
from synthstats_lightning.jobs.translation.sft_keys import SFT_KEYS

JobKind = Literal["rl", "sft", "graph"]
KEYS: Mapping[JobKind, tuple[Key, ...]] = {"rl": RL_KEYS, "sft": SFT_KEYS, "graph": GRAPH_KEYS}
"""Every key of each kind of job: the one table that is checked, translated and documented."""
TRANSLATORS: Mapping[JobKind, Callable[[Mapping[str, Any]], Draft]] = {
    "rl": translate_rl,
    "sft": translate_sft,
    "graph": translate_graph,
}
TYPES = ("online", "offline", "graph")
"""What `[algorithm] type` can be."""
NAMES: Mapping[JobKind, str] = {"rl": "an RL job", "sft": "an SFT job", "graph": "a graph search"}


@dataclass(frozen=True)
class Translation:
    """What a job file comes to.

    Attributes:
        configuration: What `fit` is given, or `search`.
        problems: Everything that is wrong, a line each; with any of them there is nothing to run.
        warnings: What the user should know, a line each.
        kind: What kind of job it is.
        values: Values by dotted key under its present name, of those that are right.
        search: The search that a graph job asks for; `None` for jobs that train.
        smoke: Whether the job is tried before it runs (`"first"`), or only tried (`"only"`).
    """

    configuration: Configuration
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    kind: JobKind = "rl"
    values: Mapping[str, Any] = field(default_factory=dict)
    search: GraphSettings | None = None
    smoke: Literal["no", "first", "only"] = "no"


def translate(document: Mapping[str, Any], kind: JobKind | None = None) -> Translation:
    """Translates a job file.

    Args:
        document: What the file holds: nested tables.
        kind: What kind of job it is; by default what `[algorithm]` and the sections say.

    Returns:
        The configuration with everything that is wrong and everything to know; it reads no file but the
        package's own and the base model's name beside a saved adapter.
    """
    found = job_kind(document) if kind is None else kind
    read = read_values(document, KEYS[found], NAMES[found])
    if (told := algorithm_type(document)) not in (*TYPES, None):  # not what the keys of one kind say of it
        read.problems[:] = [line for line in read.problems if not line.startswith("algorithm.type ")]
        kinds = ", ".join(map(repr, TYPES))
        read.problems.insert(
            0, f"algorithm.type must be one of {kinds}, got {told!r}; read as {NAMES[found]}"
        )
    draft = TRANSLATORS[found](read.values)
    return Translation(
        draft.configuration,
        list(dict.fromkeys([*read.problems, *draft.problems])),
        list(dict.fromkeys([*read.warnings, *draft.warnings])),
        found,
        read.values,
        graph_settings(read.values) if found == "graph" else None,
        smoke=_smoke(read),
    )


def job_kind(document: Mapping[str, Any]) -> JobKind:
    """What kind of job a file describes, also where it is not all right.

    Args:
        document: What the file holds.
    """
    told = _algorithm(document)
    if "graph" in document or told.get("type") == "graph":
        return "graph"
    if told.get("type") == "offline" or told.get("method") == "sft":
        return "sft"
    named = told.get("type") == "online" or "method" in told
    return "sft" if not named and {"job", "hyperparameters"} & set(document) else "rl"


def algorithm_type(document: Mapping[str, Any]) -> Any:
    """What a file says `[algorithm] type` is; `None` where it says nothing.

    Args:
        document: What the file holds.
    """
    return _algorithm(document).get("type")


def _algorithm(document: Mapping[str, Any]) -> Mapping[str, Any]:
    algorithm = document.get("algorithm")
    return algorithm if isinstance(algorithm, Mapping) else {}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as nested tables.

    Args:
        values: Values by dotted key.
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        place = found
        *sections, last = name.split(".")
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return found


def _smoke(read: Read) -> Literal["no", "first", "only"]:
    if read.values.get("smoke.only"):
        return "only"
    return "first" if read.values.get("smoke.enabled") else "no"

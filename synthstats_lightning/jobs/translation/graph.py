"""The keys of a job that searches among model graphs, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from synthstats_lightning.jobs.translation.key import Key
from synthstats_lightning.jobs.translation.shared_keys import TAGS

EFFORTS = ("low", "medium", "high")
GRAPH_KEYS = (
    Key("algorithm.type", "text", "`graph` searches among models.", allowed=("graph",), default="graph"),
    Key("graph.policy_model", "text", "The language model that writes the first programs.", default="tiny"),
    Key(
        "graph.rollout_budget",
        "integer",
        "Programs that are scored, all generations together.",
        unit="programs",
        least=1,
        default=1000,
    ),
    Key(
        "graph.proposer_effort",
        "text",
        "How much is tried for each new program.",
        allowed=EFFORTS,
        default="medium",
    ),
    Key(
        "graph.population_size",
        "integer",
        "Programs of a generation.",
        unit="programs",
        least=2,
        default=50,
    ),
    Key(
        "graph.num_generations",
        "integer",
        "How often the population is renewed.",
        unit="generations",
        least=1,
        default=20,
    ),
    Key("graph.verifier_model", "text", "The model that gives marks beside the score."),
    Key("rollout.env_name", "text", "The task, as in a job that learns from rewards.", default="dugongs"),
    Key("rollout.env_config", "table", "Arguments of the task."),
    TAGS,
)
"""Every key of a job that searches."""
MISSING = "the evolutionary searcher that [graph] is for is not part of this version"
"""Why such a job is refused."""


@dataclass(frozen=True)
class GraphSettings:
    """An evolutionary search among programs.

    Attributes:
        policy_model: Name of the language model that writes the first programs.
        rollout_budget: Programs that are scored, all generations together.
        proposer_effort: How much is tried for each new program: `"low"`, `"medium"` or `"high"`.
        population_size: How many programs a generation has.
        num_generations: How often the population is renewed.
        verifier_model: Name of the model that gives marks; `None` for none.
        env_name: Name of the task.
    """

    policy_model: str = "tiny"
    rollout_budget: int = 1000
    proposer_effort: Literal["low", "medium", "high"] = "medium"
    population_size: int = 50
    num_generations: int = 20
    verifier_model: str | None = None
    env_name: str = "dugongs"


def graph_settings(values: Mapping[str, Any]) -> GraphSettings:
    """The search that a job file describes.

    Args:
        values: Values by dotted key, all of the right type.
    """
    own = {name.partition(".")[2]: value for name, value in values.items() if name.startswith("graph.")}
    if "rollout.env_name" in values:
        own["env_name"] = values["rollout.env_name"]
    return GraphSettings(**own)

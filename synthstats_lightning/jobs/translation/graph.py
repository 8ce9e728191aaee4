"""A job that searches among programs without training: its keys, and its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from synthstats_lightning.jobs.translation.bundled import policy_configs
from synthstats_lightning.jobs.translation.configuration import shipped
from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.environment import translate_environment
from synthstats_lightning.jobs.translation.hardware import translate_compute
from synthstats_lightning.jobs.translation.key import Key
from synthstats_lightning.jobs.translation.placing import place_run
from synthstats_lightning.jobs.translation.reward_keys import VERIFIER
from synthstats_lightning.jobs.translation.shared_keys import COMPUTE, TAGS
from synthstats_lightning.jobs.translation.verifier import translate_verifier

BASES = ("quickstart", "searchers/evolution")
"""The configurations that such a job's goes over."""
METHOD = "search.method.init_args"
EFFORTS = ("low", "medium", "high")
GRAPH_KEYS = (
    Key("algorithm.type", "text", "`graph` searches among models.", allowed=("graph",), default="graph"),
    Key(
        "graph.policy_model",
        "text",
        "The language model that writes first programs and new ends.",
        default="writer",
    ),
    Key(
        "graph.rollout_budget",
        "integer",
        "Programs that are scored, all generations together.",
        unit="programs",
        least=1,
        path="scoring.max_programs",
    ),
    Key(
        "graph.proposer_effort",
        "text",
        "How many children the policy writes: a tenth, a third or two thirds.",
        allowed=EFFORTS,
        path=f"{METHOD}.proposer_effort",
    ),
    Key(
        "graph.population_size",
        "integer",
        "Programs of a generation.",
        unit="programs",
        least=1,
        path=f"{METHOD}.population_size",
    ),
    Key(
        "graph.num_generations",
        "integer",
        "Generations, the first one included.",
        unit="generations",
        least=1,
        default="as the budget pays for",
        path=f"{METHOD}.num_generations",
    ),
    Key(
        "graph.verifier_model",
        "text",
        "The model that gives marks beside the score, as `verifier.options.model`; needs its address.",
    ),
    Key("graph.label", "text", "The run's name: its folder is `OUTPUT/LABEL/version_N`.", default="graph"),
    Key("rollout.env_name", "text", "The task, as in a job that learns from rewards.", default="dugongs"),
    Key("rollout.env_config", "table", "Arguments of the task."),
    Key("services.verifier_url", "text", "Address of the verifier's OpenAI-compatible endpoint."),
    *VERIFIER,
    *COMPUTE,
    TAGS,
)
"""Every key of a job that searches."""


@dataclass(frozen=True)
class GraphSettings:
    """An evolutionary search among programs.

    Attributes:
        policy_model: Name of the language model that writes first programs and new ends.
        rollout_budget: Programs that are scored, all generations together.
        proposer_effort: How many children the policy writes: a tenth (`"low"`), a third (`"medium"`) or two
            thirds (`"high"`).
        population_size: How many programs a generation has.
        num_generations: How many generations there are, the first one included; `None` for as many as the
            budget pays for.
        verifier_model: Name of the model that gives marks; `None` for none.
        label: What the run is called.
        env_name: Name of the task.
    """

    policy_model: str = "writer"
    rollout_budget: int = 1000
    proposer_effort: Literal["low", "medium", "high"] = "medium"
    population_size: int = 64
    num_generations: int | None = None
    verifier_model: str | None = None
    label: str = "graph"
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


def translate_graph(values: Mapping[str, Any]) -> Draft:
    """The configuration of a job that searches.

    Args:
        values: Values by dotted key, all of the right type.
    """
    settings = graph_settings(values)
    marks = {} if settings.verifier_model is None else {"verifier.options.model": settings.verifier_model}
    found = Draft({**values, **marks}, {})
    environment = translate_environment(found)
    draft = Draft(
        found.values,
        shipped(*BASES, *policy_configs(settings.policy_model, environment.episodes)),
        found.problems,
        found.warnings,
    )
    if marks and "verifier.options.model" in values:
        draft.problems.append("graph must have verifier_model, or verifier.options model, and has both")
    draft.put("model.init_args.policy", settings.policy_model)
    draft.pass_on(GRAPH_KEYS)
    draft.put(f"{METHOD}.rollout_budget", draft.get("scoring.max_programs"))
    draft.put("data.init_args.tasks", environment.tasks)
    translate_compute(draft)
    if draft.get("trainer.devices") != 1 or draft.get("trainer.num_nodes", 1) != 1:
        draft.problems.append("compute must be of one process for a search, which runs in one")
    translate_verifier(draft)
    place_run(draft, settings.label)
    return draft

"""From `[rollout] env_name` and `env_config` to the run's tasks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from synthstats_lightning.jobs.translation.draft import Draft
from synthstats_lightning.jobs.translation.value_types import argument_problems
from synthstats_lightning.tasks import CSVTask, SimulatedTask, SimulatedTasks
from synthstats_lightning.tasks.experiments import ExperimentTask, ExperimentTasks
from synthstats_lightning.tasks.registry import BUNDLED_TASKS
from synthstats_lightning.tasks.simulators import SIMULATORS

USUAL = "dugongs"
"""The task where none is named."""
FILES = (".csv", ".tsv", ".txt", ".parquet", ".feather", ".arrow", ".json", ".jsonl", ".xlsx")
"""Endings by which a name is that of a file of data."""


@dataclass(frozen=True)
class Environment:
    """What a job's programs are about.

    Attributes:
        tasks: Entries of `data.init_args.tasks`.
        number: How many tasks they are.
        episodes: Whether the policy experiments before it writes a program.
        simulator: Name of the simulator; `None` where the data are given.
        seeds: Seeds of the simulator's instances.
        settings: Arguments of a single instance.
    """

    tasks: Sequence[Any]
    number: int = 1
    episodes: bool = False
    simulator: str | None = None
    seeds: Sequence[int] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def instance(self, seed: int) -> dict[str, Any]:
        """The entry of another instance.

        Args:
            seed: Seed of the instance, which its name says.
        """
        kind = ExperimentTask if self.episodes else SimulatedTask
        told = {
            **self.settings,
            "simulator": self.simulator,
            "seed": seed,
            "name": f"{self.simulator}/{seed}",
        }
        return _entry(kind, told)


def is_data_file(name: str) -> bool:
    """Whether the name of a job's task is that of a file of data.

    Args:
        name: What the job file says.
    """
    return Path(name).suffix.lower() in FILES


def translate_environment(draft: Draft) -> Environment:
    """The run's tasks.

    Args:
        draft: The configuration in the making.
    """
    name, given = draft.given("rollout.env_name", USUAL), dict(draft.given("rollout.env_config", {}))
    _refuse_services(draft)
    turns = _turns(draft)
    if name in SIMULATORS:
        return _simulated(draft, name, given, turns)
    if turns > 1:
        draft.problems.append(
            f"rollout.max_turns must be 1 where rollout.env_name is no simulator, got {turns} for {name!r}"
        )
    if name in BUNDLED_TASKS:
        if given:
            draft.problems.append(
                f"rollout.env_config must be empty for the data set {name!r}, got {given!r}"
            )
        return Environment([name])
    if is_data_file(name):
        _check(draft, CSVTask, given, ("path",))
        if "response" not in given:
            draft.problems.append(
                "rollout.env_config.response must name the column that programs are to explain"
            )
        return Environment([_entry(CSVTask, {"path": name, **given})])
    if Path(name).suffix.lower() in (".yaml", ".yml", ".toml"):
        draft.problems.append(
            "rollout.env_name must be the file of data itself where there is one, with env_config, got"
            f" {name!r} (`job run --config` takes configurations)"
        )
        return Environment([USUAL])
    if "." in name and all(part.isidentifier() for part in name.split(".")):
        return Environment([{"class_path": name, "init_args": given}])
    known = [*BUNDLED_TASKS, *SIMULATORS]
    near = get_close_matches(name, known, n=1)
    hint = f" (nearest: {near[0]})" if near else ""
    draft.problems.append(
        f"rollout.env_name must be one of {', '.join(known)}, a file of data or the dotted path of a class,"
        f" got {name!r}{hint}"
    )
    return Environment([USUAL])


def _simulated(draft: Draft, name: str, given: dict[str, Any], turns: int) -> Environment:
    episodes = turns > 1
    kind: type[Any] = ExperimentTask if episodes else SimulatedTask
    if episodes:
        given.setdefault("turns", turns)
        if given["turns"] != turns:
            draft.problems.append(
                f"rollout.env_config.turns must be rollout.max_turns, {turns}, got {given['turns']}"
            )
    number, own = given.pop("instances", None), "first_seed" if "first_seed" in given else "seed"
    first = given.pop("first_seed", given.get("seed", 0))
    if own == "first_seed" and (number is None or "seed" in given):
        draft.problems.append(
            "rollout.env_config.first_seed must be left out where there are no instances, or seed says it,"
            f" got {first!r}"
        )
    _check(draft, kind, given, ("simulator",), ("instances", "first_seed"), ("seed",))
    for key, value, least in (("instances", number, 1), (own, first, 0)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            draft.problems.append(
                f"rollout.env_config.{key} must be an integer, at least {least}, got {value!r}"
            )
            return Environment([USUAL])
    settings = {key: value for key, value in given.items() if key not in ("seed", "name")}
    if number is None:
        return Environment(
            [_entry(kind, {"simulator": name, **given})], 1, episodes, name, (first,), settings
        )
    group = ExperimentTasks if episodes else SimulatedTasks
    given.pop("seed", None)
    told = {"simulator": name, "instances": number, "first_seed": first, **given}
    seeds = tuple(range(first, first + number))
    return Environment([_entry(group, told)], number, episodes, name, seeds, settings)


def _turns(draft: Draft) -> int:
    names = ("rollout.max_turns", "training.max_turns")
    given = [draft.given(name) for name in names if draft.given(name) is not None]
    if len(set(given)) > 1:
        draft.refuse("training.max_turns", f"as rollout.max_turns, {given[0]}")
    return int(given[0]) if given else 1


def _refuse_services(draft: Draft) -> None:
    if draft.given("services.task_url") is not None:
        draft.problems.append(
            "services.task_url is not supported: programs are built and scored on this machine; name the task"
            " in rollout.env_name"
        )


def _check(
    draft: Draft,
    kind: type[Any],
    given: Mapping[str, Any],
    own: Sequence[str],
    more: Sequence[str] = (),
    told: Sequence[str] = (),
) -> None:
    """Notes arguments that the task does not take, and values that are of another type.

    Args:
        draft: The configuration in the making.
        kind: The class of the task.
        given: Its arguments, as the job file has them.
        own: Arguments that the job file says elsewhere.
        more: Names that are taken beside the arguments.
        told: Arguments whose values are checked elsewhere.
    """
    known = [name for name in inspect.signature(kind).parameters if name not in own]
    for name in given:
        if name not in known:
            near = get_close_matches(name, [*known, *more], n=1)
            hint = f"; the nearest is {near[0]}" if near else ""
            draft.problems.append(f"rollout.env_config.{name} is no argument of {kind.__name__}{hint}")
    typed = {name: value for name, value in given.items() if name not in told}
    draft.problems += argument_problems(kind, typed, "rollout.env_config.")


def _entry(kind: type[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"class_path": f"{kind.__module__}.{kind.__qualname__}", "init_args": dict(arguments)}

"""Whether the shipped overlays can be given together: every pair of them, in either order, on every base.

Only what an overlay's own text names may change, and where two do not name the same key their order is of no
account. The sections of a run (scoring, report, checkpoint, ...) go through the command line's own parser.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import timedelta
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import yaml

from synthstats_lightning.cli.parser import ConfigByName, OneLineErrors
from synthstats_lightning.cli.sections import SECTIONS, add_sections
from synthstats_lightning.runtime.shipped import shipped_configs

BASES = {
    "quickstart": ("quickstart",),
    "six_tasks": ("quickstart", "six_tasks"),
    "episodes": ("quickstart", "episodes/dugongs"),
}
"""What overlays are laid over."""
ROOMS = ("objective", "policy", "replay", "rollouts", "searchers", "tasks", "trainer")
ONE_OF_A_KIND = (
    {"trainer/cpu", "trainer/ddp", "trainer/torchrun", "trainer/slurm"},  # each starts the processes
    {"trainer/synchronous", "trainer/asynchronous"},
    {"rollouts/server", "trainer/exploration"},  # a server mixes no uniform tokens in
    {"policy/vllm", "trainer/exploration"},
    {"rollouts/vllm", "trainer/exploration"},
    {"rollouts/server", "rollouts/vllm"},
    {"rollouts/vllm", "trainer/ddp", "trainer/torchrun", "trainer/slurm"},  # its engine is of one process
)
"""Overlays of which a run has one at most; so it is with objectives, policies, searchers and tasks."""
NOT_ON: dict[str, tuple[str, ...]] = {
    # they take the place of the tasks that these bases are about
    "six_tasks": ("tasks/",),
    # these policies do not know the protocol; the others take a prefix for a program, or need programs
    "episodes": (
        "tasks/",
        "policy/",
        "replay/demonstrations",
        "searchers/",
        "replay/proposals",
        "objective/modified_sub_trajectory_balance",
        "objective/interpolated_sub_trajectory_balance",
        "objective/rap_trajectory_balance",
        "trainer/exploration",
        "trainer/screened",
        "trainer/benchmark_evaluation",
    ),
}
"""Beginnings of the names of overlays that make no sense on a base."""
OVER_EPISODES = {
    "episodes/instances": "tasks",
    "episodes/three_environments": "tasks",
    "episodes/actions": "objective",
    "episodes/information": "objective",
}
"""Overlays for the base of episodes alone, and the room whose part they take."""

Leaves = dict[str, Any]


class Pair(NamedTuple):
    """Two overlays that make sense together on a base."""

    base: str
    first: str
    second: str


def overlays(base: str) -> list[str]:
    """Names of the overlays that make sense on a base."""
    folder = shipped_configs()
    names = [
        f"{room}/{path.stem}"
        for room in ROOMS
        for path in sorted((folder / room).glob("*.yaml"))
        if not path.stem.endswith("pretraining")
    ]
    names = [name for name in names if not name.startswith(NOT_ON.get(base, ()))]
    return names + (list(OVER_EPISODES) if base == "episodes" else [])


def overlay_pairs() -> Iterator[Pair]:
    """Every pair of overlays that makes sense, on every base."""
    for base in BASES:
        for first, second in combinations(overlays(base), 2):
            rooms = {OVER_EPISODES.get(name, name.partition("/")[0]) for name in (first, second)}
            alone = len(rooms) == 1 and rooms <= {"objective", "policy", "searchers", "tasks"}
            if not alone and not any({first, second} <= kind for kind in ONE_OF_A_KIND):
                yield Pair(base, first, second)


def failing_pairs(pairs: Iterable[Pair] | None = None) -> dict[Pair, list[str]]:
    """Pairs that change what neither overlay names, or whose order matters although they share no key.

    Args:
        pairs: Which to look at; all by default.

    Returns:
        What is wrong with each of them.
    """
    return {pair: wrong for pair in (pairs or overlay_pairs()) if (wrong := faults(pair))}


def faults(pair: Pair) -> list[str]:
    """What is wrong with a pair, in either order; nothing if they go together."""
    base, named = BASES[pair.base], {name: leaves(text(name)) for name in (pair.first, pair.second)}
    before, found = merged(base), []
    orders = [(pair.first, pair.second), (pair.second, pair.first)]
    after = [merged((*base, *order)) for order in orders]
    for order, config in zip(orders, after, strict=True):
        for key in sorted(before.keys() | config.keys()):
            if before.get(key) != config.get(key) and not any(_named(key, own) for own in named.values()):
                found.append(f"{' + '.join(order)} changes {key}, which neither names")
        for key, value in named[order[1]].items():
            if key.partition(".")[0] in SECTIONS and key in config and config[key] != value:
                found.append(f"{' + '.join(order)}: {key} is {config[key]!r} instead of {value!r}")
    shared = [key for key in named[pair.first] if _named(key, named[pair.second])]
    shared += [key for key in named[pair.second] if _named(key, named[pair.first])]
    for key in sorted(after[0].keys() | after[1].keys()):
        if after[0].get(key) != after[1].get(key) and not _named(key, dict.fromkeys(shared)):
            found.append(
                f"{pair.first} and {pair.second}: their order decides {key}, which they do not share"
            )
    return found


@cache
def text(name: str) -> dict[str, Any]:
    """What a configuration says."""
    content: dict[str, Any] = yaml.safe_load((shipped_configs() / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def merged(names: tuple[str, ...]) -> Leaves:
    """What configurations come to: sections by the parser, the rest as plain mappings."""
    sections = [json.dumps({key: text(name)[key] for key in text(name) if key in SECTIONS}) for name in names]
    rest: dict[str, Any] = {}
    for name in names:
        _merge(rest, {key: value for key, value in text(name).items() if key not in SECTIONS})
    return leaves(rest) | _parsed(tuple(part for part in sections if part != "{}"))


def leaves(content: Mapping[str, Any], prefix: str = "") -> Leaves:
    """Values by dotted key; lists and empty mappings are values."""
    found: Leaves = {}
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            found |= leaves(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


@cache
def _parser() -> Any:
    parser = OneLineErrors(exit_on_error=False)
    parser.add_argument("--config", action=ConfigByName)
    add_sections(parser)
    return parser


@cache
def _parsed(sections: tuple[str, ...]) -> Leaves:
    parser = _parser()
    config = parser.parse_args([part for section in sections for part in ("--config", section)])
    found = leaves({name: config[name].as_dict() for name in SECTIONS})
    return {key: _written(value) for key, value in found.items()}


def _written(value: Any) -> Any:
    """A value as YAML has it."""
    return str(value) if isinstance(value, timedelta) else list(value) if isinstance(value, tuple) else value


def _merge(into: dict[str, Any], content: Mapping[str, Any]) -> None:
    for key, value in content.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = deepcopy(value)


def _named(key: str, own: Leaves) -> bool:
    """Whether a key, one above it or one below it is among those that an overlay names."""
    return any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in own)

"""From a job file's mapping to values by dotted key, with everything that is wrong said at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from synthstats_lightning.jobs.translation.former_names import SYNONYMS, present_name
from synthstats_lightning.jobs.translation.key import Key


class Read(NamedTuple):
    """What a job file holds.

    Attributes:
        values: Values that are right, by dotted key under its present name.
        problems: What is wrong, a line each.
        warnings: What has another name by now, a line each.
    """

    values: dict[str, Any]
    problems: list[str]
    warnings: list[str]


def read_values(document: Mapping[str, Any], keys: Sequence[Key], job: str) -> Read:
    """Checks a job file against the keys of its kind.

    Args:
        document: As TOML has it: nested tables.
        keys: The keys that there are.
        job: What kind of job it is, for the messages.
    """
    by_name = {key.name: key for key in keys}
    found = Read({}, [], [])
    names: dict[str, str] = {}
    for given, value in _entries(document, by_name, ""):
        name = present_name(given)
        if name != given and given not in SYNONYMS and name in by_name:
            found.warnings.append(f"{given} is called {name} by now")
        key = by_name.get(name)
        if key is None:
            found.problems.append(_unknown(given, name, value, by_name, job))
        elif name in names:
            other = given if given != name else names[name]
            found.problems.append(f"{name} is given twice, as {other} too")
        elif (problem := key.problem(value)) is not None:
            found.problems.append(problem)
        else:
            found.values[name], names[name] = copy.deepcopy(value), given
    return found


def _entries(table: Mapping[str, Any], keys: Mapping[str, Key], prefix: str) -> list[tuple[str, Any]]:
    """Dotted keys as they are written, with their values; tables that are sections are gone into."""
    found: list[tuple[str, Any]] = []
    for part, value in table.items():
        name = f"{prefix}{part}"
        if isinstance(value, dict) and _is_section(present_name(name), keys):
            found += _entries(value, keys, f"{name}.")
        else:
            found.append((name, value))
    return found


def _is_section(name: str, keys: Mapping[str, Key]) -> bool:
    return name not in keys and any(key.startswith(f"{name}.") for key in keys)


def _unknown(given: str, name: str, value: Any, keys: Mapping[str, Key], job: str) -> str:
    if _is_section(name, keys):
        return f"{given} must be a table, got {value!r}"
    sections = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 1)}
    pool = sorted(sections) if isinstance(value, dict) else list(keys)
    elsewhere = [key for key in pool if key.rpartition(".")[2] == name.rpartition(".")[2]]
    near = elsewhere if len(elsewhere) == 1 else get_close_matches(name, pool, n=1, cutoff=0.5)
    if not near:
        last = {key.rpartition(".")[2]: key for key in pool}
        near = [last[found] for found in get_close_matches(name.rpartition(".")[2], last, n=1)]
    what = "section" if isinstance(value, dict) else "key"
    hint = f"; the nearest is {near[0]}" if near else ""
    return f"{given} is no {what} of {job}{hint}"

"""The reference of job files: every key, from the table that they are checked against."""

from __future__ import annotations

from typing import Any

from configuration_pages import written

from synthstats_lightning.jobs.translation import KEYS, Key
from synthstats_lightning.jobs.translation.configuration import get, shipped

TITLES = {
    "rl": ("RL jobs", "quickstart", "`[algorithm] type` is `online`, or left out."),
    "sft": ("SFT jobs", "warm_start", "`[algorithm] type` is `offline`."),
    "graph": ("Graph searches", "searchers/evolution", "There is a section `[graph]`."),
}
CLASS_DEFAULTS = {"rollouts": "ServerRollouts", "unseen_tasks": "UnseenTasks"}
"""Sections that a job's base leaves alone, and the classes whose defaults hold."""


def default(key: Key, base: str) -> str:
    """What holds where a key is not given.

    Args:
        key: The key.
        base: Name of the configuration that the job goes over; empty for none.
    """
    if key.default is not None:
        return written(key.default)
    section = key.path.split(".")[0]
    if section in CLASS_DEFAULTS:
        return class_default(CLASS_DEFAULTS[section], key.path.rpartition(".")[2])
    value = get(shipped(base), key.path) if base and key.path else None
    return "" if value is None else written(value)


def class_default(name: str, argument: str) -> str:
    """The default of a callback's argument, as YAML writes it.

    Args:
        name: Of the callback.
        argument: Which of its arguments is asked for.
    """
    import inspect

    from synthstats_lightning.callbacks import UnseenTasks
    from synthstats_lightning.rollouts import ServerRollouts

    kind: Any = {"ServerRollouts": ServerRollouts, "UnseenTasks": UnseenTasks}[name]
    return written(inspect.signature(kind).parameters[argument].default)


def job_page() -> str:
    """Every key of every kind of job."""
    lines = [
        "# Keys of job files",
        "",
        "Made from the table that [job files](../how-to/jobs.md) are checked against.",
        "",
    ]
    for kind, keys in KEYS.items():
        title, base, text = TITLES[kind]
        lines += [f"## {title}", "", text, "", "| key | value | default | effect | in the configuration |"]
        lines.append("|---|---|---|---|---|")
        for key in keys:
            cells = [
                f"`{key.name}`",
                key.may_be(),
                default(key, base),
                key.effect,
                f"`{key.path}`" if key.path else "",
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)

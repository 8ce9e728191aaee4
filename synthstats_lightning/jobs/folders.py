"""Runs in a folder: what each was, how it ended and what it came to, from what they leave behind."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from synthstats_lightning.jobs.event_log import EVENTS, Event, plain, read_events
from synthstats_lightning.jobs.process import is_alive
from synthstats_lightning.jobs.results import FIGURES, read_result

CONFIGURATION = "config.yaml"
REPORT = "report.json"
METRICS = "metrics.csv"
LEFT_BEHIND = (EVENTS, CONFIGURATION, METRICS, "programs.jsonl")
"""Files by which a folder is known to be a run's."""
FROM_REPORT = (
    "log_z_learned",
    "log_z_importance",
    "log_z_found",
    "valid_rate",
    "best_evidence",
    "structures",
)
"""Numbers of a task in `report.json` that runs are compared by, where they are there."""


@dataclass(frozen=True)
class RunSummary:
    """A run, as its folder tells of it.

    Attributes:
        folder: The run's folder.
        status: `"succeeded"`, `"failed"`, `"running"`, `"stopped"` where it ended without a word,
            `"unknown"` where it wrote no events, or `"unreadable"` where a file cannot be read.
        kind: Whether it learned from rewards (`"rl"`) or imitated examples (`"sft"`); `None` if not known.
        label: What it is called; `None` where nothing says it.
        started: Time of its first event, in UTC.
        seconds: From its first event to its last one.
        steps: Training steps that it has taken.
        settings: Its configuration, flat: dotted keys to values.
        figures: What it came to: last values of metrics, numbers of its report, final reward or loss.
        tags: What the job file said to remember.
        error: Why it failed, or what cannot be read.
        checkpoints: Its checkpoints, as `result.json` lists them.
    """

    folder: Path
    status: str
    kind: str | None = None
    label: str | None = None
    started: str | None = None
    seconds: float | None = None
    steps: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    checkpoints: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return dict(plain({**vars(self), "checkpoints": list(self.checkpoints)}))


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run.

    Args:
        folder: A folder that may be that of a run.
    """
    return any((folder / name).is_file() for name in LEFT_BEHIND)


def find_runs(folder: Path) -> Iterator[Path]:
    """Folders of runs in a folder and below it, in the order of their names; none below those of runs.

    Args:
        folder: Where to look.
    """
    if is_run(folder):
        yield folder
        return
    for each in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
        yield from find_runs(each)


def read_run(folder: Path) -> RunSummary:
    """What a run's folder tells.

    Args:
        folder: The run's folder.

    Raises:
        FileNotFoundError: If it is none.
        ValueError: If a file in it cannot be read.
    """
    if not is_run(folder):
        raise FileNotFoundError(f"no run at {folder}: it holds none of {', '.join(LEFT_BEHIND)}")
    events = list(read_events(folder / EVENTS))
    result = read_result(folder) or {}
    settings = flat(_document(folder / CONFIGURATION))
    first, last = (events[0], events[-1]) if events else (None, None)
    metrics = last_metrics(folder / METRICS)
    steps = None if last is None else last.step
    if steps is None and "step" in metrics:
        steps = int(metrics["step"]) + 1
    label = first.data.get("label") if first is not None else settings.get("trainer.logger.init_args.name")
    return RunSummary(
        folder=folder,
        status=_status(events),
        kind=first.event.partition(".")[0] if first is not None else None,
        label=label,
        started=first.time if first is not None else None,
        seconds=_seconds(first, last),
        steps=steps,
        settings=settings,
        figures=_figures(result, metrics, folder),
        tags=first.data.get("tags") or {} if first is not None else {},
        error=result.get("error"),
        checkpoints=tuple(result.get("checkpoints") or ()),
    )


def flat(document: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings and lists as one mapping from dotted keys to values; empty ones are values.

    Args:
        document: Mappings and lists, such as a configuration.
        prefix: What stands before each key.
    """
    if isinstance(document, list) and any(isinstance(item, dict | list) for item in document):
        document = {str(number): item for number, item in enumerate(document)}
    if not isinstance(document, dict) or not document:
        return {prefix: document} if prefix else {}
    found: dict[str, Any] = {}
    for key, value in document.items():
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys by which two configurations differ, with both values; what one lacks is `None`.

    Args:
        first: A flat configuration.
        second: The flat configuration that it is compared with.
    """
    keys = [*first, *(key for key in second if key not in first)]
    pairs = {key: (first.get(key), second.get(key)) for key in keys}
    return {key: (one, other) for key, (one, other) in pairs.items() if one != other}


def last_metrics(path: Path) -> dict[str, float]:
    """The last finite value of every column of a run's `metrics.csv`; empty where there is none.

    Args:
        path: Where the file is, or would be.
    """
    found: dict[str, float] = {}
    if not path.is_file():
        return found
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.DictReader(file):
            for name, text in row.items():
                value = _number(text)
                if name and value is not None:
                    found[name] = value
    return found


def _figures(result: Mapping[str, Any], metrics: Mapping[str, float], folder: Path) -> dict[str, float]:
    found = {name: float(result[name]) for name in FIGURES.values() if result.get(name) is not None}
    report = _document(folder / REPORT)
    for task, numbers in report.items():
        for name in FROM_REPORT:
            value = numbers.get(name) if isinstance(numbers, dict) else None
            if isinstance(value, int | float) and math.isfinite(value):
                found[f"report/{name}/{task}"] = float(value)
    return found | {name: value for name, value in metrics.items() if name not in ("step", "epoch")}


def _document(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    return found if isinstance(found, dict) else {}


def _status(events: list[Event]) -> str:
    if not events:
        return "unknown"
    if events[-1].ending is not None:
        return str(events[-1].ending)
    told = next((event for event in reversed(events) if "pid" in event.data), events[-1])
    return "running" if is_alive(told) else "stopped"


def _seconds(first: Event | None, last: Event | None) -> float | None:
    if first is None or last is None:
        return None
    begun, ended = (datetime.fromisoformat(event.time.replace("Z", "+00:00")) for event in (first, last))
    return (ended - begun).total_seconds()


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None

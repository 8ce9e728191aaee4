"""The search of a graph job in a process of its own, with the events that it does not write itself."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synthstats_lightning.jobs.event_log import EVENTS, EventLog
from synthstats_lightning.jobs.process import Ended, run_process
from synthstats_lightning.jobs.results import Result, rewards_in, write_result
from synthstats_lightning.reports.search_outcome import SEARCH
from synthstats_lightning.searchers.loop import INTERRUPTED


def run_search_process(
    arguments: Sequence[str],
    folder: Path,
    told: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a search and waits for its end: `graph.created`, `graph.running`, `graph.succeeded` or `failed`.

    Args:
        arguments: What follows the interpreter on the process's command line.
        folder: The run's folder.
        told: What the first event tells: label and tags.
        environment: Variables that the process has beside those of this one.

    Raises:
        OSError: If the process cannot be started, or the result cannot be written.
    """
    process = {"pid": os.getpid(), "host": socket.gethostname()}
    log = EventLog(folder / EVENTS)
    if log.last is None:
        log.append("graph.created", 0, {"kind": "graph", **told, **process})
    log.append("graph.running", 0, process)
    log.close()
    return run_process(arguments, folder, "graph", environment, found_programs, told)


def found_programs(folder: Path) -> Result:
    """What a search that has ended came to.

    Args:
        folder: The run's folder, with its programs.
    """
    outcome = folder / SEARCH
    told = json.loads(outcome.read_text(encoding="utf-8"))["tasks"] if outcome.is_file() else {}
    if any(task["ended"] == INTERRUPTED for task in told.values()):
        return Result("graph", "failed", error="interrupted by SIGINT")
    rewards = rewards_in(folder)
    if not rewards:
        return Result("graph", "failed", error="the search found no program that has a score")
    result = Result("graph", "succeeded", max(rewards))
    write_result(folder, result)
    log = EventLog(folder / EVENTS)
    log.append("graph.succeeded", len(rewards), result.to_dict())
    log.close()
    return result

"""`synthstats-lightning job follow RUN`: a run's events as they come."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.jobs.event_log import EVENTS, Event, follow_events
from synthstats_lightning.jobs.process import is_alive

TEXT = "print a run's events as they come, until it ends"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("run", type=str, help="folder of the run, such as runs/rl/version_0")
    parser.add_argument("--after", type=int, default=-1, help="number of the last event that is known")
    parser.add_argument("--json", action="store_true", help="print the lines of events.jsonl as they are")


def run(options: Namespace) -> Any:
    """Prints events until one ends the run, or its process is gone.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The last event that was printed.

    Raises:
        SystemExit: With `WRONG_USAGE` if there is no such folder or its events cannot be read; with `FAILED`
            if the run has failed, or is gone without a word.
    """
    folder = Path(options.run)
    if not folder.is_dir():
        fail(f"no folder of a run at {folder}; give one such as runs/rl/version_0")
    last: Event | None = None
    if not (folder / EVENTS).is_file():
        print(f"waiting for {folder / EVENTS}", file=sys.stderr)
    try:
        for event in follow_events(folder / EVENTS, alive=is_alive):
            last = event
            if event.sequence > options.after:
                print(event.line() if options.json else shown(event), flush=True)
    except ValueError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(FAILED) from None
    except BrokenPipeError:  # who reads it, such as `head`, has enough; so that Python's end is quiet, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return last
    if last is None or last.ending is None:
        fail(f"the process that wrote {folder / EVENTS} is gone, and did not say how it ended", FAILED)
    if last.ending == "failed":
        raise SystemExit(FAILED)
    return last


def shown(event: Event) -> str:
    """An event in a line for people: number, time, kind, step and its figures.

    Args:
        event: Any event of a run.
    """
    told = [f"{name} {_short(value)}" for name, value in event.data.items() if _is_told(value)]
    parts = [f"#{event.sequence}", event.time, event.event, f"step {event.step}", *told]
    return "  ".join(parts)


def _is_told(value: Any) -> bool:
    return value is not None and not isinstance(value, dict | list) and value != ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

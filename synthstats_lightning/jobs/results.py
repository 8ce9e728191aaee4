"""What a run came to, in a file that other systems read: status, figure, model, checkpoints, error."""

from __future__ import annotations

import json
import pickletools
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from synthstats_lightning.jobs.event_log import EVENTS, Event, EventLog, plain, read_events
from synthstats_lightning.runtime.durable_files import is_temporary, read_json_lines, write_text

RESULT = "result.json"
"""Name of the file in the run's folder."""
Kind = Literal["rl", "sft", "graph"]
"""What a run does: it learns from rewards, imitates examples or searches; how its events' names begin."""
FIGURES: Mapping[Kind, str] = {"rl": "final_reward", "sft": "final_loss", "graph": "final_reward"}
"""What the figure of a result is called."""
UNTOLD = "the training process ended without having trained"
"""The error of a run that ended by itself and said nothing."""
_STEP = re.compile(r"step[=_-]?(\d+)")
_EPOCH = re.compile(r"epoch[=_-]?(\d+)")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a run.

    Attributes:
        path: Where the file is.
        step: Training steps that it holds; `None` where that is not known.
        epoch: Epochs that it holds; `None` where that is not known.
        loss: Loss of that step, in nats; `None` where that is not known.
    """

    path: str
    step: int | None = None
    epoch: int | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Result:
    """What a run came to.

    Attributes:
        kind: Whether the run learns from rewards, imitates examples or searches.
        status: `"succeeded"` or `"failed"`.
        figure: Mean log reward of the last programs, or the last loss, in nats; `None` where there is none.
        model_id: Folder of the adapter, or else the last checkpoint, that another run can start from.
        checkpoints: Checkpoints that are on the disk, in the order of their steps.
        error: Why the run failed, in one line.
    """

    kind: Kind
    status: Literal["succeeded", "failed"]
    figure: float | None = None
    model_id: str | None = None
    checkpoints: Sequence[Checkpoint] = field(default_factory=list)
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """What `result.json` holds."""
        found = {
            "status": self.status,
            FIGURES[self.kind]: self.figure,
            "model_id": self.model_id,
            "checkpoints": [asdict(checkpoint) for checkpoint in self.checkpoints],
            "error": self.error,
        }
        return dict(plain(found))


def write_result(folder: Path, result: Result) -> None:
    """Writes `result.json`, whole or not at all.

    Args:
        folder: The run's folder.
        result: What the run came to.
    """
    write_text(folder / RESULT, json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n")


def read_result(folder: Path) -> dict[str, Any] | None:
    """What `result.json` of a run holds; `None` where there is none.

    Args:
        folder: The run's folder.

    Raises:
        ValueError: If it is no JSON document, or no object.
    """
    path = folder / RESULT
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} cannot be read: it holds no object")
    return found


def conclude(
    folder: Path, kind: Kind, after: int, error: str | None, told: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Writes what a run whose process has ended could not write itself.

    A run that has said how it ended keeps its word; of one that failed the checkpoints are looked for again,
    for the last is written after everything else. One that has not said it, such as one that was killed, has
    failed.

    Args:
        folder: The run's folder.
        kind: Whether the run learns from rewards, imitates examples or searches.
        after: Number of the last event before the process began; -1 where there was none.
        error: Why the process ended, in one line; `None` where it ended by itself.
        told: What the first event tells where there is none yet: label and tags.

    Returns:
        What `result.json` holds.
    """
    events = list(read_events(folder / EVENTS))
    mine = [event for event in events if event.sequence > after]
    said = next((event for event in reversed(mine) if event.ending is not None), None)
    found = read_result(folder) if said is not None else None
    if said is not None and found is not None and found["status"] == "succeeded":
        return found
    reason = said.data.get("error") if said is not None else error
    figure = figure_of(events, kind)
    last = mine[-1].step if mine else 0
    if kind == "graph":
        rewards = rewards_in(folder)
        figure, last = max(rewards, default=None), len(rewards)
    checkpoints = checkpoints_in(folder, events)
    result = Result(kind, "failed", figure, model_in(folder, checkpoints), checkpoints, reason or UNTOLD)
    if said is None:
        log = EventLog(folder / EVENTS)
        if not events:
            log.append(f"{kind}.created", 0, {"kind": kind, **(told or {})})
        log.append(f"{kind}.failed", last, result.to_dict())
        log.close()
    write_result(folder, result)
    return result.to_dict()


def rewards_in(folder: Path) -> list[float]:
    """Log rewards, in nats, of the programs with a score that a run's folder holds.

    Args:
        folder: The run's folder.
    """
    return [
        float(row["log_reward"])
        for path in sorted(folder.glob("programs*.jsonl"))
        for row in read_json_lines(path)
        if row.get("status") == "scored" and row.get("log_reward") is not None
    ]


def checkpoints_in(folder: Path, events: Sequence[Event] = ()) -> list[Checkpoint]:
    """The checkpoints that a run's folder holds, with what names and events say of them.

    Args:
        folder: The run's folder.
        events: Events of the run, which say the loss at each step.
    """
    told = [event for event in events if event.data.get("loss") is not None]
    losses = [(event.step, float(event.data["loss"])) for event in told]
    saved = {event.data.get("path"): event for event in events if event.event.endswith("checkpoint.saved")}
    found = []
    for path in sorted(folder.rglob("*.ckpt")):
        if is_temporary(path):
            continue
        known = saved.get(str(path))
        held = _held(path) if known is None else {}
        step = known.step if known is not None else _first(_number(_STEP, path.stem), held.get("global_step"))
        epoch = (
            known.data.get("epoch")
            if known is not None
            else _first(_number(_EPOCH, path.stem), held.get("epoch"))
        )
        before = [loss for at, loss in losses if step is not None and at <= step]
        loss = before[-1] if before else None
        if known is not None and known.data.get("loss") is not None:
            loss = float(known.data["loss"])
        found.append(Checkpoint(str(path), step, epoch, loss))
    return sorted(found, key=lambda each: (each.step is None, each.step or 0))


def model_in(folder: Path, checkpoints: Sequence[Checkpoint] = ()) -> str | None:
    """What another run can start from: the adapter or model in a run's folder, else its last checkpoint.

    Args:
        folder: The run's folder.
        checkpoints: The run's checkpoints, in the order of their steps.
    """
    for kind, file in (("adapter", "adapter_config.json"), ("model", "config.json")):
        if (folder / kind / file).is_file():
            return str(folder / kind)
    return checkpoints[-1].path if checkpoints else None


def figure_of(events: Sequence[Event], kind: Kind) -> float | None:
    """The last reward or loss that events tell of; `None` where they tell none.

    Args:
        events: Events of a run.
        kind: Whether the run learns from rewards, imitates examples or searches.
    """
    names = ("reward",) if kind != "sft" else ("validation_loss", "loss")
    for event in reversed(events):
        for name in names:
            if (value := event.data.get(name)) is not None:
                return float(value)
    return None


def _held(path: Path) -> dict[str, int]:
    """Step and epoch that a checkpoint of Lightning holds, as `last.ckpt` does not say by its name.

    They are looked for in its pickle, which is neither run nor loaded.
    """
    found: dict[str, int] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(each for each in archive.namelist() if each.endswith("/data.pkl"))
            key = None
            for code, value, _ in pickletools.genops(archive.read(name)):
                if key is not None and isinstance(value, int) and code.name.startswith("BININT"):
                    found.setdefault(key, value)
                if code.name not in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                    key = value if value in ("global_step", "epoch") else None
                if len(found) == 2:
                    break
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile, KeyError):
        pass  # of another kind, or torn
    return found


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None

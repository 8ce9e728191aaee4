"""What an evaluation has measured so far, in a file that outlives it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthstats_lightning.evaluation.entrants import Usage
from synthstats_lightning.evaluation.measurement import Measurement
from synthstats_lightning.evaluation.units import Unit
from synthstats_lightning.runtime.durable_files import GrowingFile, read_json_lines


class KeptMeasurements:
    """The measurements of an evaluation, piece by piece: a piece that is there is not measured again.

    Args:
        path: A file of JSON lines: what the evaluation is of, then one piece a line.
        of: What decides the measurements: the policy and the settings; JSON-ready.

    Attributes:
        done: Pieces that were measured, with their measurements.
        seconds: What they took together, in seconds.
        usage: Tokens that they took together.

    Raises:
        ValueError: If the file is of another evaluation, of which something was measured, or of none.
    """

    def __init__(self, path: Path, of: dict[str, Any]) -> None:
        self.path = path
        self.done: dict[Unit, list[Measurement]] = {}
        self.seconds = 0.0
        self.usage = Usage()
        self._file = GrowingFile(path)
        lines = list(read_json_lines(path)) if path.is_file() else []
        of = json.loads(json.dumps(of))
        if len(lines) == 1 and set(lines[0]) == {"of"} and lines[0]["of"] != of:
            path.unlink()  # another evaluation, of which nothing was measured: there is nothing to keep
            lines = []
        if not lines:
            self._file.append(json.dumps({"of": of}) + "\n")
            self._file.sync()
            return
        if (kept := lines[0].get("of")) != of:
            raise ValueError(
                f"{path} is of another evaluation ({_difference(kept, of)}); give another --output"
            )
        for line in lines[1:]:
            unit = Unit(*line["unit"])
            self.done[unit] = [_measurement(fields) for fields in line["measurements"]]
            self._count(line["seconds"], Usage(*line["tokens"]))

    def add(self, unit: Unit, measurements: Sequence[Measurement], seconds: float, usage: Usage) -> None:
        """Keeps a piece, durably.

        Args:
            unit: The piece that was measured.
            measurements: What was measured of it.
            seconds: What it took, in seconds.
            usage: Tokens that it took.
        """
        self.done[unit] = list(measurements)
        self._count(seconds, usage)
        fields = {
            "unit": list(unit),
            "seconds": seconds,
            "tokens": [usage.read, usage.written],
            "measurements": [item.to_dict() for item in measurements],
        }
        self._file.append(json.dumps(fields) + "\n")
        self._file.sync()

    def measurements(self, units: Sequence[Unit]) -> list[Measurement]:
        """The measurements of pieces that were measured, in their order.

        Args:
            units: The pieces that are wanted.
        """
        return [item for unit in units for item in self.done.get(unit, ())]

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _count(self, seconds: float, usage: Usage) -> None:
        self.seconds += seconds
        self.usage = Usage(self.usage.read + usage.read, self.usage.written + usage.written)


def _measurement(fields: dict[str, Any]) -> Measurement:
    return Measurement(**{**fields, "messages": tuple(fields["messages"])})


def _difference(kept: Any, of: dict[str, Any]) -> str:
    """The first thing in which two evaluations differ."""
    if not isinstance(kept, dict):
        return "it does not say of what"
    for name in of:
        if kept.get(name) != of[name]:
            if isinstance(kept.get(name), dict) and isinstance(of[name], dict):
                return f"{name}: {_difference(kept[name], of[name])}"
            return f"{name} is {kept.get(name)!r} there and {of[name]!r} here"
    return "it has more settings"

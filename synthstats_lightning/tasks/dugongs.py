"""Lengths and ages of 27 dugongs (sea cows), the growth-curve example of BUGS volume II."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from synthstats_lightning.tasks.task import Task


class Dugongs(Task):
    """The 27 dugongs of Carlin and Gelfand (1991), as in BUGS volume II.

    Args:
        shown_rows: Rows of the response that the prompt shows; they only condition.
        rounding: 0.01 to score the lengths as what they are, recorded to the centimetre; see `Task`.
    """

    def __init__(self, shown_rows: int = 0, rounding: float | None = None) -> None:
        text = files(__package__).joinpath("data/dugongs.csv").read_text(encoding="utf-8")
        rows = [line.split(",") for line in text.split()[1:]]
        super().__init__(
            name="dugongs",
            description="Lengths of dugongs (sea cows) of known age.",
            data={
                "age": np.array([float(row[0]) for row in rows]),
                "length": np.array([float(row[1]) for row in rows]),
            },
            response="length",
            units={"age": "years", "length": "metres"},
            shown_rows=shown_rows,
            rounding=rounding,
        )

"""Lengths and ages of 27 dugongs (sea cows), the growth-curve example of BUGS volume II."""

from __future__ import annotations

from synthstats_lightning.tasks.csv_file import bundled_csv
from synthstats_lightning.tasks.task import Task


class Dugongs(Task):
    """The 27 dugongs of Ratkowsky (1983) in Carlin and Gelfand (1991), as in BUGS volume II.

    The values are those of posteriordb (`dugongs_data`, BSD-3-Clause).

    Args:
        shown_rows: Rows of the response that the prompt shows; they only condition.
        rounding: The lengths were recorded to the centimetre; see `Task`. `None` scores them as exact.
        held_out: Last rows, those of the oldest animals, that are predicted from the others; see `Task`.
        domain_knowledge: Whether the prompt says what the data are; see `Task`.
    """

    def __init__(
        self,
        shown_rows: int = 0,
        rounding: float | None = 0.01,
        held_out: int = 0,
        domain_knowledge: bool = True,
    ) -> None:
        super().__init__(
            name="dugongs",
            description="Lengths of dugongs (sea cows) of known age.",
            data={key: values.astype(float) for key, values in bundled_csv("dugongs").items()},
            response="length",
            units={"age": "years", "length": "metres"},
            shown_rows=shown_rows,
            rounding=rounding,
            held_out=held_out,
            domain_knowledge=domain_knowledge,
        )

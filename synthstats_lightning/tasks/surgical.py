"""Deaths after heart surgery on infants in twelve hospitals, with numbers of operations."""

from __future__ import annotations

from synthstats_lightning.tasks.csv_file import bundled_csv
from synthstats_lightning.tasks.facts import LEFT_OUT
from synthstats_lightning.tasks.task import Task


class Surgical(Task):
    """Infant mortality after cardiac surgery in twelve hospitals, as in BUGS volume I ("surgical").

    One row a hospital: its number, its operations, and how many of these were followed by a death. The values
    are those of posteriordb (`surgical_data`, BSD-3-Clause), where hospitals are A to L.

    Args:
        shown_rows: Rows of the response that the prompt shows; they only condition.
        held_out: Last hospitals, that are predicted from the others; see `Task`.
        domain_knowledge: Whether the prompt says what the data are; see `Task`.
    """

    def __init__(self, shown_rows: int = 0, held_out: int = 0, domain_knowledge: bool = True) -> None:
        super().__init__(
            name="surgical",
            description="Deaths after heart surgery on infants by hospital.",
            data=bundled_csv("surgical"),
            response="deaths",
            shown_rows=shown_rows,
            response_kind="count",
            held_out=held_out,
            total="operations",
            plain_description="Counts in groups of known size.",
            domain_knowledge=domain_knowledge,
        )
        self.roles = {self.column_names["hospital"]: LEFT_OUT}

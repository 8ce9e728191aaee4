"""Effects of coaching in eight schools, each with its known standard error."""

from __future__ import annotations

from synthstats_lightning.tasks.csv_file import bundled_csv
from synthstats_lightning.tasks.facts import LEFT_OUT
from synthstats_lightning.tasks.task import Task


class EightSchools(Task):
    """The eight schools of Rubin (1981), as in Gelman et al., Bayesian Data Analysis, section 5.5.

    One row a school: its number, the standard error of its estimate, which is known, and the estimated effect
    of coaching. The values are those of posteriordb (`eight_schools`, BSD-3-Clause), where schools are A to
    H.

    Args:
        shown_rows: Rows of the response that the prompt shows; they only condition.
        rounding: The effects were recorded to whole points; see `Task`. `None` scores them as exact.
        held_out: Last schools, that are predicted from the others; see `Task`.
        domain_knowledge: Whether the prompt says what the data are; see `Task`.
    """

    def __init__(
        self,
        shown_rows: int = 0,
        rounding: float | None = 1.0,
        held_out: int = 0,
        domain_knowledge: bool = True,
    ) -> None:
        data = bundled_csv("eight_schools")
        data["standard_error"] = data["standard_error"].astype(float)
        super().__init__(
            name="eight_schools",
            description="Effects of coaching on test scores in schools, with known standard errors.",
            data=data,
            response="effect",
            units={"standard_error": "points", "effect": "points"},
            shown_rows=shown_rows,
            response_kind="continuous",
            rounding=rounding,
            held_out=held_out,
            plain_description="A response of groups, with known standard errors.",
            domain_knowledge=domain_knowledge,
        )
        names = self.column_names
        self.roles = {names["school"]: LEFT_OUT, names["standard_error"]: "standard error"}

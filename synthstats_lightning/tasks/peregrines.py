"""Peregrine falcons in the French Jura, 1964 to 2003."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.tasks.csv_file import bundled_csv
from synthstats_lightning.tasks.task import Task


class Peregrines(Task):
    """Adult pairs of peregrines counted each year, 1964 to 2003 (Monneret's survey).

    The values are the column of adult pairs in `falcons.txt`, which Kéry and Schaub published with Bayesian
    Population Analysis using WinBUGS (2012, chapter 3); the file states no licence. They are not the series
    of posteriordb's `GLM_Poisson_Data`, which is simulated.

    Args:
        standardised_year: Whether there is a column `time` as well, the year standardised to mean 0 and
            standard deviation 1, on which polynomials are well conditioned.
        shown_rows: Rows of the response that the prompt shows; they only condition.
        held_out: Last years, that are predicted from the others; see `Task`.
        domain_knowledge: Whether the prompt says what the data are; see `Task`.
    """

    def __init__(
        self,
        standardised_year: bool = True,
        shown_rows: int = 0,
        held_out: int = 0,
        domain_knowledge: bool = True,
    ) -> None:
        data = bundled_csv("peregrines")
        if standardised_year:
            year = data["year"]
            time = np.round((year - year.mean()) / year.std(ddof=1), 6)
            data = {"year": year, "time": time, "adult_pairs": data["adult_pairs"]}
        super().__init__(
            name="peregrines",
            description="Adult pairs of peregrine falcons counted in the French Jura by year.",
            data=data,
            response="adult_pairs",
            shown_rows=shown_rows,
            response_kind="count",
            held_out=held_out,
            plain_description="Counts over time.",
            domain_knowledge=domain_knowledge,
        )

"""A user's own data: a task from a CSV or Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthstats_lightning.runtime.shipped import own_or_shipped
from synthstats_lightning.tasks.intake import understand
from synthstats_lightning.tasks.intake.names import python_name
from synthstats_lightning.tasks.table_task import TableTask


class CSVTask(TableTask):
    """A task from a CSV file with a header line, or a Parquet file, as people have them.

    Text columns become categories, dates numbers, awkward names Python names; names of rows are left out, and
    so are rows with missing cells. `synthstats-lightning data FILE --response NAME` shows what is understood.
    Columns may be named as the file has them or by the name that programs use.

    Args:
        path: The file; a relative path is taken from the working directory.
        response: Name of the response column.
        description: One sentence for the prompt; by default the columns' names.
        name: Short name; the file's name without its ending by default.
        columns: Columns to use; by default all but those of no use.
        units: Column name to unit, for the prompt; by default what the file says.
        shown_rows: Rows of the response that the prompt shows.
        response_kind: What the response is: `"continuous"`, `"count"`, `"binary"` or `"ordinal"`; by default
            what its values look like.
        rounding: Spacing of the values that a continuous response was recorded to, such as 0.01; it is then
            scored by the probability of each row's interval.
        held_out: Number of last rows that `heldout_lpd` predicts and nothing else counts.
        total: What a count response is out of: a number, or the name of a column.
        ranges: Column name to smallest and largest value, as the prompt gives them; by default those of the
            data.
        plain_description: The description without domain knowledge, for `domain_knowledge=False`.
        domain_knowledge: Whether the prompt has the columns' own names and units; without it they are `x` and
            `y`.
        limits: Smallest value, `"lower"`, and largest, `"upper"`, at which a continuous response could be
            observed: `pm.Censored` may have them.
        response_transform: `"log"`, `"standardised"` or `"scaled"` (by a power of ten): programs see a
            continuous response so, and every score has the transform's Jacobian.
        quantities: Name to meaning of what a program must declare with `pm.Deterministic`.
        roles: Column name to what it is for: `covariate`, `group`, `exposure`, `total`, `failures` (beside
            the response's successes), `standard_error`, `upper_limit`, `lower_limit`, `event` (1 where it was
            seen), `censored` (1 where a time was cut short), `label` (names the rows) or `left_out`; by
            default what names and values look like.
        kinds: Column name to what it holds: `number`, `category`, `ordinal`, `date` or `text`; by default
            what its cells look like.
        levels: Column name to its levels in their order.
        gaps: What is done with missing cells of covariates: `drop` their rows, `refuse` the file, or add an
            `indicator` column and fill them.
        missing: Further spellings of a missing cell, such as `"-999"`.
        date_parts: Column name to what else is made of its dates: `month`, `weekday` or both.
        views: Whether programs may also use standardised covariates (`age_z`) and indicators of levels.
        tell_views: Whether the prompt names these views, for large language models; the bundled policy has
            never seen such a line.
        screen: Number of covariates to keep, those that go with the response best; by default all, of which
            the bundled policy is told of 32 chosen so.
        delimiter: What separates the fields of a CSV file; by default what cuts its lines evenly.
        encoding: Encoding of a CSV file; by default what its bytes say.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If the response is not a column or is constant, what is said of a column does not hold, or
            `Task` refuses the data.
    """

    def __init__(
        self,
        path: str | Path,
        response: str,
        description: str | None = None,
        name: str | None = None,
        columns: list[str] | None = None,
        units: dict[str, str] | None = None,
        shown_rows: int = 0,
        response_kind: str | None = None,
        rounding: float | None = None,
        held_out: int = 0,
        total: str | int | None = None,
        ranges: dict[str, tuple[float, float]] | None = None,
        plain_description: str | None = None,
        domain_knowledge: bool = True,
        quantities: dict[str, str] | None = None,
        limits: dict[str, float] | None = None,
        response_transform: str | None = None,
        roles: dict[str, str] | None = None,
        kinds: dict[str, str] | None = None,
        levels: dict[str, list[str]] | None = None,
        gaps: str = "drop",
        missing: list[str] | None = None,
        date_parts: dict[str, list[str]] | None = None,
        views: bool = True,
        tell_views: bool = False,
        screen: int | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> None:
        path = own_or_shipped(path)
        understood = understand(
            path,
            response,
            columns,
            roles,
            kinds,
            levels,
            gaps=gaps,
            missing=missing or (),
            date_parts=date_parts,
            kind=response_kind,
            views=views,
            screen=screen,
            delimiter=delimiter,
            encoding=encoding,
            held_out=held_out,
        )
        more: dict[str, Any] = {
            "shown_rows": shown_rows,
            "rounding": rounding,
            "held_out": held_out,
            "plain_description": plain_description,
            "domain_knowledge": domain_knowledge,
            "quantities": quantities,
            "limits": limits,
            "response_transform": response_transform,
            "tell_views": tell_views,
        }
        super().__init__(
            understood, description, name or python_name(path.stem), units, total, ranges, **more
        )

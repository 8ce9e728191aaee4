"""The table of an evaluation, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table as RichTable

from synthstats_lightning.evaluation.measurement import Measurement, Table
from synthstats_lightning.evaluation.settings import ROWS

POLICY_ROWS = ("policy_best", "policy_set")


def environment_table(environment: str, rows: Table, title: str = "") -> RichTable:
    """One environment: a line for each row and budget.

    Args:
        environment: Which of the table's environments.
        rows: The whole table.
        title: Another title than the environment's name.
    """
    table = RichTable(title=title or environment)
    table.add_column("row")
    columns = ("budget", "raw error", "standardised", "lpd gain (nats/point)", "EIG regret (nats)", "failed")
    for column in columns:
        table.add_column(column, justify="right")
    by_row = rows[environment]
    for name in [name for name in ROWS if name in by_row]:
        for budget, figures in by_row[name].items():
            table.add_row(
                name,
                budget,
                _with_error(figures["raw_error"], figures["raw_error_se"]),
                _number(figures["standardised_error"], "+.2f"),
                _number(figures["lpd_gain"], "+.3f"),
                _number(figures["eig_regret"], ".3f"),
                f"{figures['failures']}/{figures['runs']}",
            )
        table.add_section()
    return table


def notes(measurements: Sequence[Measurement], most: int = 5) -> list[str]:
    """Why programs failed, why regrets are missing, and how many points counted as the floor, a line each.

    Args:
        measurements: What was measured of one environment.
        most: Reasons to list, the most frequent first.
    """
    counted = [item for item in measurements if item.row != "policy_best"]  # it shares the set's programs
    failures = Counter(f"{item.row}: {message}" for item in counted for message in item.messages)
    lines = [f"failed {count} times: {reason}" for reason, count in failures.most_common(most)]
    lines += [f"no EIG regret: {reason}" for reason in sorted({item.no_regret for item in counted} - {""})]
    budgets = {row: {item.budget for item in measurements if item.row == row} for row in POLICY_ROWS}
    if 0 in budgets["policy_set"] - budgets["policy_best"]:
        lines += ["no policy_best before any data: the policy gives no log-probabilities to choose by"]
    floored = Counter({item.row: 0 for item in measurements})
    for item in measurements:
        floored[item.row] += item.floored
    lines += [f"{row}: {count} points at the floor" for row, count in floored.items() if count]
    return lines


def _with_error(value: float | int | None, error: float | int | None) -> str:
    return _number(value, ".4g") + ("" if error is None else f" ± {error:.2g}")


def _number(value: float | int | None, form: str) -> str:
    return "-" if value is None else format(value, form)

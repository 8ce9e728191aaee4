"""An evaluation in writing: one JSON document, and a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthstats_lightning.evaluation.headline import headline
from synthstats_lightning.evaluation.measurement import Measurement, summarise
from synthstats_lightning.evaluation.report import notes
from synthstats_lightning.evaluation.settings import ROWS

COLUMNS = (
    ("raw error", "raw_error", ".4g"),
    ("± se", "raw_error_se", ".2g"),
    ("standardised", "standardised_error", "+.2f"),
    ("lpd gain (nats/point)", "lpd_gain", "+.3f"),
    ("EIG regret (nats)", "eig_regret", ".3f"),
)


def document(
    measurements: Sequence[Measurement], of: Mapping[str, Any], cost: Mapping[str, float]
) -> dict[str, Any]:
    """The JSON document of an evaluation.

    Args:
        measurements: Everything that was measured.
        of: The policy and the settings.
        cost: What it took, in seconds and tokens.
    """
    table = summarise(measurements)
    return {
        **of,
        "headline": headline(table),
        "cost": dict(cost),
        "table": table,
        "measurements": [item.to_dict() for item in measurements],
    }


def markdown(measurements: Sequence[Measurement], policy: str, cost: Mapping[str, float]) -> str:
    """The tables of an evaluation, one for each environment, with what is to be said of them.

    Args:
        measurements: Everything that was measured.
        policy: What the policy is called.
        cost: What it took, in seconds and tokens.
    """
    table = summarise(measurements)
    lines = [f"# BoxingGym's protocol: {policy}", ""]
    summary = headline(table)
    if summary:
        lines += [
            f"Means over {len(table)} environments after the largest budget, of the policy's weighted"
            f" programs: lpd"
            f" gain {summary['lpd_gain']:+.3f} nats a point, standardised error"
            f" {summary['standardised_error']:+.2f}.",
            "",
        ]
    read, written = (f"{cost[name]:.0f} tokens" for name in ("tokens_read", "tokens_written"))
    spent = f"{cost['seconds']:.0f} seconds, {read} read, {written} written"
    lines += [f"Cost: {spent}.", ""]
    head = ["row", "budget", *(title for title, _, _ in COLUMNS), "failed"]
    for environment, rows in table.items():
        seeds = sorted({item.seed for item in measurements if item.environment == environment})
        lines += [f"## {environment}", "", f"Instances {', '.join(map(str, seeds))}.", ""]
        lines += [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
        for row in [name for name in ROWS if name in rows]:
            for budget, figures in rows[row].items():
                cells = [_number(figures[name], form) for _, name, form in COLUMNS]
                cells.append(f"{figures['failures']}/{figures['runs']}")
                lines.append(f"| {' | '.join([row, budget, *cells])} |")
        lines.append("")
        said = notes([item for item in measurements if item.environment == environment])
        if said:
            lines += [*(f"- {_plain(line)}" for line in said), ""]
    return "\n".join(lines)


def _number(value: float | int | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _plain(text: str) -> str:
    """A program's own words without what Markdown would take for its own."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|!" else letter for letter in text)

"""Leave-one-out scores of published programs on the four real data sets, beside the published ones.

    python benchmarks/scoring_accuracy.py --published --json elpd.json

`elpd_programs/DATA/PROGRAM.py` are the programs, `elpd_programs/published.json` their scores by PSIS on long
runs of NUTS, with the rows whose Pareto k was above 0.7: there PSIS is unreliable, the engine refits
exactly, and the two may differ by much. JSON: `{data: {program: {elpd, elpd_se, mcse, pareto_k, published,
high_pareto_k}}}`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.table import Table

from synthstats_lightning import ProgramScorer, get_task

PROGRAMS = Path(__file__).parents[1] / "elpd_programs"
TOLERANCE = 0.3


def scores() -> dict[str, dict[str, dict[str, Any]]]:
    """Scores every program on its data."""
    published = json.loads((PROGRAMS / "published.json").read_text())
    found: dict[str, dict[str, dict[str, Any]]] = {}
    with ProgramScorer(1) as scorer:
        for data, programs in published.items():
            task = get_task(data)
            for program, row in programs.items():
                score = scorer.score((PROGRAMS / data / f"{program}.py").read_text(), task)
                if not score.scored:
                    raise RuntimeError(f"{data}/{program}: {score.failure}: {score.message}")
                found.setdefault(data, {})[program] = {
                    "elpd": score.elpd,
                    "elpd_se": score.elpd_se,
                    "mcse": score.diagnostics["elpd"].mcse,
                    "pareto_k": score.pareto_k,
                    "published": row["elpd"],
                    "high_pareto_k": row["high_pareto_k"],
                }
    return found


def table(document: dict[str, dict[str, dict[str, Any]]]) -> Table:
    """Scores beside the published ones; red where they differ and PSIS was reliable."""
    shown = Table(title=f"elpd, nats (target: within {TOLERANCE} where no Pareto k is high)")
    for heading in ("data", "program", "elpd", "published", "rows of high Pareto k"):
        shown.add_column(heading)
    for data, programs in document.items():
        for program, row in programs.items():
            off = row["high_pareto_k"] == 0 and abs(row["elpd"] - row["published"]) > TOLERANCE
            cells = (f"{row['elpd']:.1f}", f"{row['published']:.1f}", str(row["high_pareto_k"]))
            shown.add_row(data, program, *cells, style="red" if off else "")
    return shown

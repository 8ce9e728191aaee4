"""What a run shows at its end: the posterior over programs as a table, a file and a picture."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.reports.posterior_plot import PREDICTIVE_QUANTILES, Band, plot_posterior
from synthstats_lightning.reports.records import ProgramRecord, ProgramRecords
from synthstats_lightning.reports.shares import (
    StructureShare,
    evaluation_metrics,
    merged_records,
    structure_shares,
)
from synthstats_lightning.runtime.distributed import gather_objects
from synthstats_lightning.runtime.durable_files import write_text
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import Task

TABLE_WIDTH = 110
"""Columns of the table, also where the output is no terminal."""


class PosteriorReport(Callback):
    """Samples the trained policy once more and reports what it has learned.

    Prints a table of the best structures and, per task, learned log Z beside its importance-sampling
    estimate;
    writes `programs.jsonl` (every program of the run), `report.json` (per task what `evaluation_metrics`
    says of the
    fresh programs) and `posterior.png` (`posterior-TASK.png` for each of several tasks) into the run's
    folder.

    Args:
        num_programs: Fresh programs per task, shared among the processes of a run; with `None` there is
            no report.
        top: Structures in the table.
        plotted: Structures in the picture.
    """

    def __init__(self, num_programs: int | None = 2000, top: int = 10, plotted: int = 4) -> None:
        for name, value in {"num_programs": num_programs, "top": top, "plotted": plotted}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_programs = num_programs
        self.top = top
        self.plotted = plotted
        self.metrics: dict[str, dict[str, float]] = {}

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the report; nothing after `fast_dev_run`, which leaves no run folder."""
        if self.num_programs is None or trainer.fast_dev_run or trainer.interrupted:  # type: ignore[attr-defined]
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        scoring.on_train_end(trainer, module)
        share = math.ceil(self.num_programs / trainer.world_size)
        fresh = merged_records(gather_objects(scoring.evaluate(trainer, module, share, Stream.REPORT.at())))
        of_ranks = gather_objects(scoring.records.to_json_lines())
        if not trainer.is_global_zero:
            return
        for lines in of_ranks[1:]:
            for record in ProgramRecords.from_json_lines(lines):
                scoring.records.add(record)
        for records in fresh.values():
            for record in records:
                scoring.records.add(record)
        folder = run_folder(trainer)
        scoring.records.write(folder / "programs.jsonl")
        console = Console()
        console.width = max(console.width, TABLE_WIDTH)
        for index, task in enumerate(scoring.scorer.tasks):
            records = fresh[index]
            shares = structure_shares(records, module.objective)
            metrics = evaluation_metrics(records, module.learned_log_z(index), module.objective)
            self.metrics[task.name] = metrics
            console.print(structure_table(task, shares[: self.top], len(records)))
            for category, count in Counter(r.score.failure for r in records if r.score.failure).most_common():
                console.print(f"failed: {count} of {len(records)} fresh programs, {category}")
            console.print(log_z_line(task, metrics, module.learned_log_z(index), len(records)))
            suffix = "" if len(scoring.scorer.tasks) == 1 else f"-{task.name.replace('/', '-')}"
            name = f"posterior{suffix}.png"
            self._plot(scoring, task, shares, folder / name)
        write_text(folder / "report.json", json.dumps(self.metrics, indent=2) + "\n")
        console.print(
            f"{len(scoring.records)} distinct programs in {folder / 'programs.jsonl'}", soft_wrap=True
        )

    def _plot(self, scoring: ProgramScoring, task: Task, shares: list[StructureShare], path: Path) -> None:
        bands = [
            Band(
                label=_label(share.best),
                share=share.posterior_share,
                quantiles=scoring.scorer.pool.predict(share.best.source, task, list(PREDICTIVE_QUANTILES)),
            )
            for share in shares[: self.plotted]
        ]
        if bands:
            plot_posterior(task, bands, path)


def run_folder(trainer: Trainer) -> Path:
    """The folder of this run: its logger's, or the trainer's root folder."""
    return Path(trainer.log_dir or trainer.default_root_dir)


def structure_table(task: Task, shares: list[StructureShare], num_programs: int) -> Table:
    """The best structures of a task.

    Args:
        task: The task.
        shares: Rows, in order.
        num_programs: Fresh programs that the shares come from.
    """
    table = Table(title=f"Posterior over programs: {task.name} ({num_programs} fresh programs)")
    table.add_column("posterior share", justify="right")
    table.add_column("evidence", justify="right")
    table.add_column("elpd", justify="right")
    table.add_column("count", justify="right")
    table.add_column("best program of the structure")
    for share in shares:
        score = share.best.score
        table.add_row(
            f"{share.posterior_share:.1%}",
            f"{score.evidence:.2f}",
            f"{score.elpd:.2f}",
            str(share.num_programs),
            escape(_label(share.best)),
        )
    return table


def log_z_line(task: Task, metrics: dict[str, float], log_z: float, num_programs: int) -> str:
    """Learned log Z beside its importance-sampling estimate, in one line."""
    return (
        f"log Z of {task.name}: learned {log_z:.2f}, importance sampling {metrics['log_z_importance']:.2f}"
        f" ± {metrics['log_z_importance_se']:.2f} from {num_programs} fresh programs"
        f" (effective {metrics['effective_sample_size']:.0f}), gap {metrics['log_z_gap']:+.2f} nats;"
        f" residual standard deviation {metrics['residual_std']:.2f} nats"
    )


def _label(record: ProgramRecord) -> str:
    return record.score.summary or ""

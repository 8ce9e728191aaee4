"""`synthstats-lightning search --config ...`: programs by a method that does not train the policy."""

from __future__ import annotations

import logging
import math
import sys
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback

from synthstats_lightning.callbacks import PosteriorReport, ProgramScoring
from synthstats_lightning.callbacks.posterior_report import INTERRUPTED_SECONDS
from synthstats_lightning.callbacks.proposals.first_regressions import FirstRegressions
from synthstats_lightning.callbacks.time_budget import TimeBudget
from synthstats_lightning.cli.errors import fail
from synthstats_lightning.cli.lightning import GFlowNetCLI, RunParser, run_lightning
from synthstats_lightning.policy import Environment
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.journal import journals
from synthstats_lightning.searchers.loop import Progress
from synthstats_lightning.searchers.run import SearchRun, said
from synthstats_lightning.searchers.settings import SearchSettings
from synthstats_lightning.tasks import Task
from synthstats_lightning.warm_start import DemonstrationDataModule

QUIET = ("lightning.pytorch", "lightning.fabric")
"""Loggers that say nothing of devices here, and their warnings only."""
EVERY = 10.0
"""Seconds between two lines of how far a search has come."""


class SearchParser(RunParser):
    """The parser of this subcommand."""

    built = ("search",)


class SearchTrainer(Trainer):
    """A trainer that trains nothing: it knows devices, precision and the run's folder."""

    search = Trainer.fit


class SearchCLI(GFlowNetCLI):
    """`search` with what `fit` takes, and a section that says how."""

    own_parser = SearchParser
    own_trainer = SearchTrainer

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """`search`, which takes what `fit` does, but for checkpoints."""
        return {"search": LightningCLI.subcommands()["fit"] | {"ckpt_path", "weights_only"}}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Sections, and that of the method."""
        super().add_arguments_to_parser(parser)
        parser.add_class_arguments(SearchSettings, "search", fail_untyped=False, sub_configs=True)

    def search(self, **parts: Any) -> None:
        """Searches, and writes the report.

        Args:
            **parts: Module and data module, which the command line has as well.

        Raises:
            SystemExit: With `WRONG_USAGE` if the configuration is none of a search.
        """
        settings: SearchSettings = self.config_init.search.search
        callbacks: list[Any] = self.trainer.callbacks  # type: ignore[attr-defined]
        scoring = next(made for made in callbacks if isinstance(made, ProgramScoring))
        budget = next((made for made in callbacks if isinstance(made, TimeBudget)), None)
        report = next((made for made in callbacks if isinstance(made, PosteriorReport)), None)
        regressions = next((made for made in callbacks if isinstance(made, FirstRegressions)), None)
        tasks = self._tasks(settings, scoring, budget)
        folder = Path(settings.folder or self.trainer.log_dir or self.trainer.default_root_dir)
        again = bool(journals(folder))
        self._save_configuration(folder)
        print(f"{'going on' if again else 'searching'} in {folder}", file=sys.stderr)
        self.model.configure_model()
        self.model.to(self.trainer.strategy.root_device)
        made = SearchRun(
            settings.method,
            self.model,
            scoring,
            folder,
            context=self.trainer.precision_plugin.forward_context,
            deadline=math.inf if budget is None else budget.end - budget.report_seconds,
            most_proposals=settings.most_proposals,
            families=0 if regressions is None else regressions.families,
            tell=_Teller(),
        )
        self.searched = made
        try:
            made.run(tasks)
            self._report(made, report, tasks, budget)
        except RuntimeError as error:
            if "baseline program" not in str(error):
                raise
            fail(str(error))
        finally:
            made.close()

    def _tasks(
        self, settings: SearchSettings, scoring: ProgramScoring, budget: TimeBudget | None
    ) -> list[Any]:
        """The tasks, if all of the configuration makes sense."""
        if isinstance(self.datamodule, DemonstrationDataModule):
            fail("search scores programs: data must be a ReplayDataModule, got a DemonstrationDataModule")
        tasks: list[Task] = list(self.datamodule.tasks)
        if any(isinstance(task, Environment) for task in tasks):
            fail(f"search is for tasks of one turn, and {tasks[0].name} has several")
        if self.trainer.world_size > 1:
            fail(f"search runs in one process: trainer.devices must be 1, got {self.trainer.world_size}")
        limits = (scoring.max_programs, settings.method.most_programs, budget)
        if all(limit is None for limit in limits):
            fail("search needs an end: scoring.max_programs, or budget.minutes")
        return tasks

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """As for `fit`, with callbacks none of which trains."""
        self._refuse_what_trains()
        return super().instantiate_trainer(**options)

    def _refuse_what_trains(self) -> None:
        """A key that nothing would read is an error."""
        given = self.config_init.search
        trains = {
            "rollouts.url": given.rollouts.url,
            "rollouts.backend": "" if given.rollouts.backend == "server" else given.rollouts.backend,
            "proposals.url": given.proposals.url,
            "unseen_tasks.tasks": given.unseen_tasks.tasks,
            "benchmark.num_programs": given.benchmark.num_programs,
        }
        for key, value in trains.items():
            if value:
                fail(f"{key} must be left out of a search, which trains no policy; got {value!r}")

    def _save_configuration(self, folder: Path) -> None:
        """As `fit` does before it trains; a search that goes on keeps its own."""
        callbacks: list[Any] = self.trainer.callbacks  # type: ignore[attr-defined]
        saving = next((each for each in callbacks if isinstance(each, SaveConfigCallback)), None)
        path = folder / "config.yaml"
        if saving is not None and not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            saving.parser.save(saving.config, str(path), skip_none=False, overwrite=True, multifile=False)

    def _report(
        self, made: SearchRun, report: PosteriorReport | None, tasks: list[Task], budget: TimeBudget | None
    ) -> None:
        if report is None:
            return
        if not len(made.journal.records):
            print("no report: the search ended before any program had a score", file=sys.stderr)
            return
        seconds = report.deadline
        if budget is not None:
            seconds = min(seconds, max(1.0, budget.end - time.monotonic()))
        if made.interrupted:
            seconds = INTERRUPTED_SECONDS
        self.found = from_folder(
            made.folder,
            tasks,
            workers=None if made.scorer is None else made.scorer.pool,
            compare=report.compare,
            left_out=["what was not there when the search was interrupted"] if made.interrupted else [],
            top=report.top,
            plotted=report.plotted,
            deadline=seconds,
        )
        print(f"{len(made.journal.records)} distinct programs in {made.folder}")


class _Teller:
    """Says how far a search has come, now and then."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, name: str, progress: Progress, budget: int | None) -> None:
        if time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            print(said(name, progress, budget), file=sys.stderr, flush=True)


def run_search(arguments: list[str]) -> GFlowNetCLI:
    """Parses arguments and searches.

    Args:
        arguments: Without the program's name.
    """
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return run_lightning(arguments, SearchCLI)

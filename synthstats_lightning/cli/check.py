"""`synthstats-lightning check --config ...`: what a run would meet, tried out in seconds."""

from __future__ import annotations

import logging
import tempfile
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningCLI

from synthstats_lightning.callbacks import ProgramScoring
from synthstats_lightning.callbacks.posterior_report import ROUND
from synthstats_lightning.callbacks.preflight.estimate import RunLength
from synthstats_lightning.callbacks.preflight.preflight import (
    STEPS,
    Preflight,
    SampledAtOnce,
    shorten_warmup,
)
from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.cli.lightning import GFlowNetCLI, RunParser, check_callbacks, run_lightning
from synthstats_lightning.cli.sections import section_callbacks
from synthstats_lightning.runtime.cores import own_cores, scoring_workers
from synthstats_lightning.warm_start import DemonstrationDataModule

TASKS = 4
"""Tasks that are tried, the first ones."""
PROGRAMS = 16
"""Programs of the warm-up, all tasks together."""
QUIET = ("lightning.pytorch", "lightning.fabric")
"""Loggers that say nothing of devices here, and their warnings only."""


class CheckParser(RunParser):
    """The parser of this subcommand."""

    built = ("check",)


class CheckTrainer(Trainer):
    """A trainer to which `check` is another word for `fit`."""

    check = Trainer.fit


class CheckCLI(GFlowNetCLI):
    """`check` of a configuration of `fit`."""

    own_parser = CheckParser
    own_trainer = CheckTrainer

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """`check`, which takes what `fit` does, but for checkpoints."""
        return {"check": LightningCLI.subcommands()["fit"] | {"ckpt_path", "weights_only"}}

    def before_instantiate_classes(self) -> None:
        """As for `fit`; the run's folder stays as it is."""
        super().before_instantiate_classes()
        self.save_config_callback = None
        self.folder = tempfile.TemporaryDirectory(prefix="synthstats-check-")

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """A trainer of few steps on one device; every section's values are looked at, and few are used."""
        if isinstance(self.datamodule, DemonstrationDataModule):
            self.folder.cleanup()
            fail("check tries runs that score programs; --trainer.fast_dev_run true tries one that imitates")
        made = section_callbacks(self.config_init.check, self.datamodule.tasks)
        check_callbacks(made, self.model, self.datamodule, "fit")
        scoring = next(callback for callback in made if isinstance(callback, ProgramScoring))
        tasks = self.datamodule.tasks[:TASKS]
        self.preflight = Preflight(scoring, self._length(scoring), self._at_once(scoring))
        shorten_warmup(scoring, tasks, max(2, PROGRAMS // len(tasks)))
        given = self.config_init.check.trainer.devices
        return LightningCLI.instantiate_trainer(
            self,
            callbacks=[self.preflight, scoring],
            devices=given[:1] if isinstance(given, list) else 1,
            num_nodes=1,
            strategy="auto",
            max_steps=STEPS,
            max_epochs=-1,
            max_time=None,
            limit_val_batches=0,
            num_sanity_val_steps=0,
            accumulate_grad_batches=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=self.folder.name,
            **options,
        )

    def check(self, **parts: Any) -> None:
        """Tries the configuration out and prints the table.

        Args:
            **parts: Module and data module.

        Raises:
            SystemExit: With `FAILED` if a run had better not begin.
        """
        table = self.preflight.table
        try:
            self.trainer.fit(**parts)
        except Exception:  # whatever it is, it would have ended the run, and is in the table
            if not table.failed:
                raise
        finally:
            self.folder.cleanup()
        print(table)
        if table.failed:
            raise SystemExit(FAILED)

    def _length(self, scoring: ProgramScoring) -> RunLength:
        """How long the run itself would be."""
        config = self.config_init.check
        trainer, data, tasks = config.trainer, self.datamodule, len(self.datamodule.tasks)
        batches = trainer.accumulate_grad_batches
        steps = trainer.max_steps if trainer.max_steps >= 0 else None
        if trainer.max_epochs is not None and trainer.max_epochs >= 0:
            epochs = trainer.max_epochs * max(1, data.steps_per_epoch // batches)
            steps = epochs if steps is None else min(steps, epochs)
        kept, every = config.checkpoint.save_top_k, config.checkpoint.every_n_train_steps
        if kept < 0:
            kept = (steps or 0) // every if every else 1
        return RunLength(
            steps=steps,
            batches_per_step=batches,
            every_n_steps=scoring.every_n_steps,
            programs_per_round=scoring.programs_per_step * tasks,
            warmup=scoring.warmup_programs * tasks,
            report=(config.report.num_programs or 0) * tasks,
            workers=scoring.num_workers or scoring_workers(own_cores()),
            waits=scoring.synchronous or self.model.objective.on_policy,
            minutes=config.budget.minutes,
            max_records=scoring.max_records,
            checkpoints=kept + bool(config.checkpoint.save_last),
        )

    def _at_once(self, scoring: ProgramScoring) -> SampledAtOnce:
        tasks = len(self.datamodule.tasks)
        return SampledAtOnce(
            training=max(scoring.programs_per_step, scoring.warmup_programs, scoring.warmup_candidates)
            * tasks,
            evaluation=min(self.datamodule.eval_batch_size, self.datamodule.eval_programs) * tasks,
            report=min((self.config_init.check.report.num_programs or 0) * tasks, ROUND),
        )


def run_check(arguments: list[str]) -> GFlowNetCLI:
    """Parses arguments and tries the configuration that they name.

    Args:
        arguments: Without the program's name.
    """
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return run_lightning(arguments, CheckCLI)

"""LightningCLI in subclass mode on both sides, with errors in one line."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any, NoReturn

from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from synthstats_lightning.callbacks import (
    BenchmarkEvaluation,
    PosteriorReport,
    PredictionWriter,
    ProgramScoring,
    TrainingMetrics,
    UnseenTasks,
)
from synthstats_lightning.callbacks.episodes.episode_scoring import EpisodeScoring
from synthstats_lightning.cli.checkpoint_choice import choose_checkpoint
from synthstats_lightning.cli.errors import fail
from synthstats_lightning.datamodule import ReplayDataModule
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.runtime.checkpoints import DurableCheckpointIO, TornCheckpointError
from synthstats_lightning.runtime.durable_files import out_of_space
from synthstats_lightning.runtime.strategies import check_strategy
from synthstats_lightning.runtime.threads import limit_threads


def shorten(message: str) -> str:
    """The one reason in a message that lists every alternative of a union and quotes the whole value.

    Args:
        message: Of jsonargparse; several lines.
    """
    text = " ".join(message.split())
    if "Errors: - " not in text:
        return text
    key = re.match(r'Parser key "[^"]+": ', text)
    reasons = text.split("Errors: - ")[-1].split(" Given value type: ")[0].split(" - ")
    telling = [reason for reason in reasons if not reason.startswith("Expected a <class ")]
    return (key[0] if key else "") + (telling or reasons)[0]


class _Parser(LightningArgumentParser):
    """A parser whose errors are one line and exit code 2."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        fail(shorten(message))


class GFlowNetCLI(LightningCLI):
    """`fit`, `validate`, `test` and `predict` of a `GFlowNetModule` on a `ReplayDataModule`."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """The module learns from the data module how many log Z it needs."""
        parser.link_arguments("data.task_names", "model.init_args.tasks", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parses arguments; `--ckpt_path` then names a whole checkpoint."""
        super().parse_arguments(parser, args)
        chosen = self.config[self.config.subcommand] if "subcommand" in self.config else self.config
        if "ckpt_path" in chosen:
            try:
                chosen.ckpt_path = choose_checkpoint(chosen)
            except (FileNotFoundError, TornCheckpointError) as error:
                fail(str(error))

    def instantiate_classes(self) -> None:
        """Builds module, data module and trainer; a value that one of them refuses is the user's to mend."""
        try:
            # before the trainer is built: Lightning's own words on such a strategy are about something else
            strategy = self.config[self.subcommand].trainer.strategy
            check_strategy(getattr(strategy, "class_path", strategy))
            super().instantiate_classes()
            strategy = self.trainer.strategy
            if type(strategy.checkpoint_io) is TorchCheckpointIO:
                strategy.checkpoint_io = DurableCheckpointIO()
        except (ValueError, FileNotFoundError) as error:
            fail(shorten(str(error)))


def run_lightning(arguments: list[str], description: str) -> GFlowNetCLI:
    """Parses arguments and runs the subcommand that they name.

    Args:
        arguments: Without the program's name.
        description: Head of the help text.
    """
    limit_threads()
    with warnings.catch_warnings():
        # Lightning's own calls that jsonargparse 5 removes (Lightning issue 21900); nothing a user could do
        # about
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="lightning.pytorch.cli")
        warnings.filterwarnings(
            "ignore", category=FutureWarning, module="lightning.pytorch.utilities._pytree"
        )
        # distributed training starts its other processes with the arguments of this one
        saved, sys.argv = sys.argv, [sys.argv[0], *arguments]
        try:
            return GFlowNetCLI(
                GFlowNetModule,
                ReplayDataModule,
                subclass_mode_model=True,
                subclass_mode_data=True,
                auto_configure_optimizers=False,
                seed_everything_default=0,
                save_config_kwargs={"overwrite": True},
                parser_class=_Parser,
                parser_kwargs={"description": description},
            )
        except FileNotFoundError as error:
            fail(str(error))
        except OSError as error:
            if out_of_space(error):
                print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
                raise SystemExit(1) from error
            raise
        finally:
            sys.argv = saved


SHORT_NAMES = (
    BenchmarkEvaluation,
    EpisodeScoring,
    PosteriorReport,
    PredictionWriter,
    ProgramScoring,
    TrainingMetrics,
    UnseenTasks,
)
"""Imported so that configurations may name them without their module."""

"""LightningCLI in subclass mode on both sides, with sections of a run's own and errors in one line."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from synthstats_lightning.callbacks import BenchmarkEvaluation, ProgramScoring
from synthstats_lightning.callbacks.agreement import check_agreement
from synthstats_lightning.callbacks.findings.unscored import NothingScoredError
from synthstats_lightning.callbacks.proposals.chat_proposals import ChatProposals
from synthstats_lightning.cli.checkpoint_choice import choose_checkpoint
from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.cli.parser import (
    COMMANDS,
    DESCRIPTION,
    PROGRAM,
    TRAINER_COMMANDS,
    ConfigByName,
    OneLineErrors,
    add_commands,
    chosen_command,
)
from synthstats_lightning.cli.sections import (
    add_sections,
    chat_callbacks,
    imitation_callbacks,
    section_callbacks,
)
from synthstats_lightning.cli.step_count import set_steps
from synthstats_lightning.datamodule import ReplayDataModule
from synthstats_lightning.evaluation.chat_module import ChatModule
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy.language_part import PolicyError
from synthstats_lightning.policy.prompt_room import PromptError
from synthstats_lightning.rollouts import RolloutError, ServerRollouts
from synthstats_lightning.rollouts.chat_writer import ChatSettings
from synthstats_lightning.runtime.checkpoints import DurableCheckpointIO, TornCheckpointError
from synthstats_lightning.runtime.durable_files import out_of_space
from synthstats_lightning.runtime.former_names import saved_hyper_parameters
from synthstats_lightning.runtime.strategies import check_strategy
from synthstats_lightning.runtime.threads import limit_threads
from synthstats_lightning.runtime.union_errors import shorten
from synthstats_lightning.warm_start import DemonstrationDataModule

LOOKING = ("validate", "test", "predict")
"""Subcommands that change no policy."""


class RunParser(OneLineErrors, LightningArgumentParser):
    """Lightning's parser with errors in one line, and with the subcommands that it does not build."""

    built: tuple[str, ...] = ("fit", "validate", "test", "predict")

    def add_subcommands(self, **options: Any) -> Any:
        """Adds those of this package; Lightning adds those that it builds."""
        subcommands = super().add_subcommands(**options)
        add_commands(subcommands, {name: COMMANDS[name] for name in COMMANDS if name not in self.built})
        return subcommands


class GFlowNetCLI(LightningCLI):
    """`fit`, `validate`, `test` and `predict` of a `GFlowNetModule` on a `ReplayDataModule`.

    Args:
        *args: What `LightningCLI` takes.
        chosen: The subcommand that is run, where it is known: the others are named in the help and take no
            arguments.
        **options: What `LightningCLI` takes.
    """

    own_parser: type[LightningArgumentParser] = RunParser
    own_trainer: type[Trainer] = Trainer

    def __init__(self, *args: Any, chosen: str | None = None, **options: Any) -> None:
        self.chosen = chosen
        super().__init__(*args, **options)

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """A parser whose `--config` knows the package's configurations by their names."""
        parser = self.parser_class(**kwargs)
        parser.add_argument(
            "-c",
            "--config",
            action=ConfigByName,
            help="YAML file, or name of a configuration of the package; later ones go over earlier ones",
        )
        return parser

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Sections; and the module learns from the data module how many log Z it needs."""
        add_sections(parser)
        parser.add_argument(
            "--steps",
            type=int | None,
            default=None,
            help="training steps: sets trainer.max_steps, and the length of every schedule in proportion",
        )
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

    def _parse_ckpt_path(self) -> None:
        """Settings of the checkpoint hold where none are given now: they are the first of the configurations.

        Lightning's own method puts them over what is given.
        """
        subcommand = self.config.get("subcommand")
        given = self.config[subcommand] if subcommand else {}
        saved = saved_hyper_parameters(given.get("ckpt_path"))
        if not saved:
            return
        model = {"class_path": saved.pop("_class_path", "synthstats_lightning.GFlowNetModule")}
        # the tasks are those of the data module
        model["init_args"] = {name: saved[name] for name in saved if name not in ("tasks", "_instantiator")}
        place = sys.argv.index(subcommand, 1) + 1
        first = ["--config", json.dumps({"model": model})]
        self.config = self.parser.parse_args([*sys.argv[1:place], *first, *sys.argv[place:]])
        for name in ("ckpt_path", "config"):
            self.config[subcommand][name] = given.get(name)

    def before_instantiate_classes(self) -> None:
        """Lets `--steps` set what it stands for, in the configuration that is kept, too."""
        chosen = self.config[self.subcommand] if self.subcommand else self.config
        if chosen.steps is not None:
            try:
                set_steps(chosen, chosen.steps)
            except ValueError as error:
                fail(str(error))
            chosen.steps = None

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> Any:
        """Lightning's own; what only looks at a policy can look at a chat model."""
        if self.chosen not in (None, subcommand):  # the others would be built for their names alone
            return self.parser_class(**kwargs)
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand in LOOKING:
            parser.add_argument(
                "--policy",
                type=str | None,
                default=None,
                help="a chat model in the place of the model's policy, to compare with: openai:MODEL@URL",
            )
            parser.add_class_arguments(ChatSettings, "chat")
        return parser

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """The trainer, with the sections' callbacks before the user's own."""
        config, data = self.config_init[self.subcommand], self.datamodule
        if config.get("policy") is not None:
            if config.ckpt_path is not None:
                raise ValueError(
                    f"ckpt_path must be left out where policy is given, got {config.ckpt_path!r}"
                )
            self.model = ChatModule(config.policy, data.task_names, config.chat)
            made = chat_callbacks(config, data.tasks)
        elif config.get("chat", ChatSettings()) != ChatSettings():
            raise ValueError("chat is for policy openai:MODEL@URL, which is not given")
        elif isinstance(data, DemonstrationDataModule) and self.subcommand in ("fit", "validate"):
            made = imitation_callbacks(config)
        else:
            fits = self.subcommand == "fit" and config.trainer.limit_val_batches == 0
            made = section_callbacks(config, data.tasks, fits)
            check_callbacks(made, self.model, data, str(self.subcommand))
        return super().instantiate_trainer(**{"callbacks": made, **options})

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
        except MisconfigurationException as error:  # Lightning's, of a device that is not there
            given = self.config[self.subcommand].trainer.accelerator
            fail(f"trainer.accelerator {given!r}: {error} With 'cpu' this machine's processors are taken")


def check_callbacks(
    made: Sequence[Callback], model: GFlowNetModule, data: ReplayDataModule, command: str
) -> None:
    """Looks at what sections say of each other: once more than at setup, where an error is no line.

    Args:
        made: The run's callbacks.
        model: The module that they are for.
        data: The data module of the run.
        command: What is run, such as `fit`.

    Raises:
        ValueError: If two of them contradict each other.
    """
    for callback in made:
        if isinstance(callback, ProgramScoring):
            episodes = callback.scorer_type.of_episodes
            check_agreement(model, callback.reward, callback.reward_schedule, callback.sampling, episodes)
        if isinstance(callback, ServerRollouts):
            callback.check(model, made)
        if isinstance(callback, BenchmarkEvaluation):
            callback.check(data.tasks, command)
        if isinstance(callback, ChatProposals):
            callback.check(model, data)


def run_lightning(arguments: list[str], cli: type[GFlowNetCLI] = GFlowNetCLI) -> GFlowNetCLI:
    """Parses arguments and runs the subcommand that they name.

    Args:
        arguments: Without the program's name.
        cli: What runs it.
    """
    limit_threads()
    described = {name: {"description": TRAINER_COMMANDS[name]} for name in cli.subcommands()}
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
            return cli(
                GFlowNetModule,
                ReplayDataModule,
                subclass_mode_model=True,
                subclass_mode_data=True,
                auto_configure_optimizers=False,
                seed_everything_default=0,
                save_config_kwargs={"overwrite": True},
                trainer_class=cli.own_trainer,
                parser_class=cli.own_parser,
                parser_kwargs={"prog": PROGRAM, "description": DESCRIPTION, **described},
                chosen=chosen_command(arguments),
            )
        except NothingScoredError as error:
            print(error.table, file=sys.stderr)
            fail(error.reason)
        except (FileNotFoundError, PromptError, PolicyError) as error:
            fail(str(error))
        except RolloutError as error:
            fail(str(error), FAILED)
        except OSError as error:
            if out_of_space(error):
                fail(str(error), FAILED)
            raise
        finally:
            sys.argv = saved

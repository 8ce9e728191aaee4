"""`synthstats-lightning serve-policy --config ...`: the command that starts an inference server for a run."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from synthstats_lightning.cli.check import QUIET
from synthstats_lightning.cli.errors import fail
from synthstats_lightning.cli.lightning import GFlowNetCLI, RunParser, run_lightning
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import Environment, resolve
from synthstats_lightning.policy.language_part import text_config
from synthstats_lightning.policy.loading import BUNDLED, spelling_of
from synthstats_lightning.policy.pointers.spelling import KEY as SPELLING_KEY
from synthstats_lightning.policy.prompt_room import not_plain
from synthstats_lightning.reports.run_settings import CONFIGURATION
from synthstats_lightning.rollouts.adapter_versions import check_layers
from synthstats_lightning.rollouts.connection import check_url
from synthstats_lightning.rollouts.dialects import Api
from synthstats_lightning.rollouts.serve_command import ServeCommand, ServedModel, serve_command
from synthstats_lightning.tasks import Task, task_prompt

NAME = "serve-policy"
URL = "http://127.0.0.1:8000"
"""Where a server listens if the configuration does not say."""


class ServeParser(RunParser):
    """The parser of this subcommand."""

    built = (NAME,)


class ServeTrainer(Trainer):
    """A trainer that has a subcommand of this name, and is not asked to do anything."""


setattr(ServeTrainer, NAME, Trainer.fit)


class ServePolicyCLI(GFlowNetCLI):
    """The command line of a server for a configuration of `fit`."""

    own_parser = ServeParser
    own_trainer = ServeTrainer

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """One, which takes what `fit` does, but for checkpoints."""
        return {NAME: LightningCLI.subcommands()["fit"] | {"ckpt_path", "weights_only"}}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Those of `fit`, and what only a server needs to know."""
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--run", type=str | None, default=None, help="folder of a run, whose configuration is taken"
        )
        parser.add_argument(
            "--dialect", type=Api | None, default=None, help="which server; by default that of rollouts.api"
        )
        parser.add_argument(
            "--cpu",
            type=bool | None,
            default=None,
            help="whether it computes on processors; by default where trainer.accelerator is cpu",
        )
        parser.add_argument(
            "--max_model_len",
            type=int | None,
            default=None,
            help="tokens of the longest prompt and program together; by default those of the tasks' prompts",
        )

    def before_instantiate_classes(self) -> None:
        """As for `fit`; nothing is written."""
        super().before_instantiate_classes()
        self.save_config_callback = None

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """One of which nothing is asked: the server is on a machine that need not be this one."""
        return ServeTrainer(
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    def serve(self, **parts: Any) -> None:
        """Prints the command of each address.

        Args:
            **parts: Module and data module.

        Raises:
            SystemExit: With `WRONG_USAGE` if no server could hold the configuration's adapter.
        """
        config = self.config_init[NAME]
        given, api = config.rollouts, config.dialect or config.rollouts.api
        addresses = [given.url] if isinstance(given.url, str) else given.url or [URL]
        on_cpu = config.trainer.accelerator == "cpu" if config.cpu is None else config.cpu
        sampling = config.scoring.sampling or self.model.sampling
        try:
            served = served_model(
                self.model,
                self.datamodule.tasks,
                max_new_tokens=sampling.max_new_tokens,
                max_tokens=config.max_model_len,
                name=given.base_model,
                keep=given.keep,
                on_cpu=on_cpu,
                api_key_env=given.api_key_env,
            )
            self.commands: list[ServeCommand] = [
                serve_command(served, check_url(url), api) for url in addresses
            ]
        except (ValueError, OSError) as error:
            fail(str(error))
        print("\n\n".join(command.shell() for command in self.commands))
        for note in _notes(served, given.url is not None):
            print(f"# {note}", file=sys.stderr)


setattr(ServePolicyCLI, NAME, ServePolicyCLI.serve)


def served_model(
    module: GFlowNetModule,
    tasks: Sequence[Task],
    *,
    max_new_tokens: int,
    max_tokens: int | None = None,
    name: str | None = None,
    keep: int = 2,
    on_cpu: bool = False,
    api_key_env: str | None = None,
) -> ServedModel:
    """What a server has to hold for a module and its tasks.

    Args:
        module: Its policy need not be loaded.
        tasks: Those of the run.
        max_new_tokens: Tokens of the longest program, or turn.
        max_tokens: Tokens of the longest prompt and program together, if they are known.
        name: What requests call the base model; by default what the module does.
        keep: Versions besides the present one that the server keeps.
        on_cpu: Whether the server computes on processors.
        api_key_env: Name of the environment variable that holds the server's key.

    Raises:
        ValueError: If a server would not apply the adapter, or in part.
        OSError: If there is no such model, or the hub cannot be reached.
    """
    settings = module.model_settings
    _check_spelling(module)
    return ServedModel(
        model=resolve(module.policy_name),
        name=name or module.policy_name,
        dtype=_dtype(module),
        rank=_rank(module),
        keep=keep,
        max_tokens=_longest(module, tasks, max_new_tokens) if max_tokens is None else max_tokens,
        revision=settings.revision,
        four_bit=settings.load_in_4bit,
        on_cpu=on_cpu,
        api_key_env=api_key_env,
    )


def _dtype(module: GFlowNetModule) -> str:
    """Number type of the trainer's base weights."""
    settings = module.model_settings
    if settings.dtype != "auto":
        return settings.dtype
    if module.policy_name in BUNDLED:
        return "float32"
    return str(getattr(_config(module), "dtype", None) or "float32").rpartition(".")[2]


def _rank(module: GFlowNetModule) -> int:
    """Largest rank of the adapter that is trained."""
    if module.adapter is None:
        check_layers(module.lora.target_modules, module.lora.modules_to_save)
        return module.lora.rank
    text = (Path(module.adapter) / "adapter_config.json").read_text(encoding="utf-8")
    config: dict[str, Any] = json.loads(text)
    check_layers(config["target_modules"], config.get("modules_to_save"))
    return max(int(rank) for rank in [config["r"], *(config.get("rank_pattern") or {}).values()])


def _longest(module: GFlowNetModule, tasks: Sequence[Task], max_new_tokens: int) -> int:
    """Tokens of the longest prompt and program; of episodes as many as the model has positions for."""
    from transformers import AutoTokenizer

    config = text_config(_config(module))
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and any(isinstance(task, Environment) for task in tasks):
        return int(positions)
    settings = module.model_settings
    tokenizer = AutoTokenizer.from_pretrained(
        resolve(module.policy_name), revision=settings.revision or "main"
    )
    spelling = spelling_of(tokenizer, config, module.policy_name)
    longest = 0
    for task in tasks:
        rules, request, thinking, data, facts = task_prompt(task)
        asked = settings.thoughts != "none" if thinking is None else thinking
        longest = max(longest, len(spelling.prompt(rules, request, asked, data, facts)))
    needed = longest + max_new_tokens
    return needed if positions is None else min(needed, int(positions))


def _check_spelling(module: GFlowNetModule) -> None:
    """Refuses a policy of which no server has the model; of those on the hub there is none."""
    declared = Path(resolve(module.policy_name)) / "tokenizer_config.json"
    if declared.is_file() and SPELLING_KEY in json.loads(declared.read_text(encoding="utf-8")):
        raise not_plain(module.policy_name, "sampling on a server")


def _config(module: GFlowNetModule) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(
        resolve(module.policy_name), revision=module.model_settings.revision or "main"
    )


def _notes(served: ServedModel, has_address: bool) -> list[str]:
    """What the command does not say."""
    notes = []
    if not has_address:
        notes.append(
            f"the configuration asks no server: give the run --config rollouts/server --rollouts.url {URL}"
        )
    if served.four_bit:
        notes.append("whether the server's 4 bits are the trainer's is checked when the run begins (max_gap)")
    if Path(served.model).is_dir():
        notes.append(f"{served.model} has to be on the server's machine, too")
    return notes


def run_serve_policy(arguments: list[str]) -> GFlowNetCLI:
    """Parses arguments and prints the commands for the configuration that they name.

    Args:
        arguments: Without the program's name.
    """
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return run_lightning(_with_configuration(arguments), ServePolicyCLI)


def _with_configuration(arguments: list[str]) -> list[str]:
    """`--run` stands for the configuration in its folder, before what else is given."""
    place = arguments.index(NAME) + 1
    for number, word in enumerate(arguments):
        option, _, value = word.partition("=")
        if option != "--run":
            continue
        folder = value or next(iter(arguments[number + 1 :]), "")
        path = Path(folder) / CONFIGURATION
        if not path.is_file():
            fail(f"no run at {folder!r}: there is no {CONFIGURATION} in it")
        return [*arguments[:place], "--config", str(path), *arguments[place:]]
    return arguments

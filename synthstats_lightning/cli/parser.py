"""The one parser: its subcommands, its errors in one line, and configurations by name."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentError
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ActionConfigFile, ArgumentParser

import synthstats_lightning
from synthstats_lightning.__about__ import __version__
from synthstats_lightning.cli.errors import fail
from synthstats_lightning.runtime.shipped import shipped_configs, shipped_file
from synthstats_lightning.runtime.union_errors import shorten

PROGRAM = "synthstats-lightning"
DESCRIPTION = f"""\
synthstats-lightning {__version__}: language models that write probabilistic programs in proportion to how
well they explain data.
"""
TRAINER_COMMANDS = {
    "fit": "train a policy, and report the posterior over programs",
    "validate": "sample and score fresh programs of a policy: val/... metrics",
    "test": "sample and score fresh programs of a policy: test/... metrics",
    "search": "search programs without training a policy, and report: weighting, SMC, evolution",
    "check": "try a configuration of `fit` for seconds: sandbox, data, programs, a step, memory, time",
    "serve-policy": "print the command that starts an inference server for a configuration of `fit`",
    "predict": "write fresh programs of a policy to a file; what programs predict of the data is `forecast`",
}
"""What Lightning's trainer does, and what is said of it."""
OWN_COMMANDS = {
    "data": "show what is understood of a data file, and write the task of it",
    "explore": "from a data file to a posterior over models, in the minutes that it is given",
    "report": "make the closing report of a run from its folder, also of one that was killed",
    "forecast": "predict new rows by the weighted programs of a run",
    "export": "write a form's best program as a PyMC script that stands alone",
    "filter": "choose programs of a run as examples that a policy can imitate",
    "compare": "score one's own programs and put them into the table of a run's forms",
    "job": "run a job file, and follow its events: RL, SFT or graph search",
    "runs": "list, show and compare the runs in a folder",
    "score": "score one program, or audit a program or a run's best",
    "evaluate": "evaluate any policy by BoxingGym's protocol: one JSON and one table",
    "serve": "score programs and roll out episodes over HTTP, for other systems",
    "sandbox": "attack the sandbox from inside, to prove that it holds on this machine",
    "configs": "list the configurations that come with the package, print one or copy it out",
}
"""What needs no trainer; each is a module of this room with `add_arguments` and `run`."""
COMMANDS = TRAINER_COMMANDS | OWN_COMMANDS
MANY_NAMES = 24
"""Up to so many names that would be right are listed."""
UNKNOWN_KEY = re.compile(r"(?:Group '([^']+)' .*)?[Oo]ption '([^']+)'")
UNKNOWN_OPTION = re.compile(r"unrecognized arguments: (--[^\s=]+)")
UNKNOWN_CLASS = re.compile(r"Expected a dot import path string: (\w+)")


class OneLineErrors(ArgumentParser):
    """A parser whose errors are one line and exit code 2, naming the key or class that was perhaps meant.

    Options are written in full: the beginning of one is an error, since it may be that of another tomorrow.

    Args:
        *args: What `ArgumentParser` takes.
        **options: What `ArgumentParser` takes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def validate(self, *args: Any, **kwargs: Any) -> None:
        """Checks a configuration; what is not a key of it is named with the nearest that is."""
        try:
            super().validate(*args, **kwargs)
        except KeyError as error:
            wrong = UNKNOWN_KEY.search(str(error))
            if wrong is None or "nearest" in str(error):
                raise
            known = [action.dest for action in self._actions]
            raise type(error)(f"{error}{nearest('.'.join(filter(None, wrong.groups())), known)}") from None

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Ends the process."""
        text = shorten(message)
        if unknown := UNKNOWN_OPTION.match(text):
            near = _options_like(unknown[1], _options(self))
            text = f"{text} (nearest: {', '.join(near)})" if near else text
        if wrong := UNKNOWN_CLASS.search(text):
            from synthstats_lightning import objectives

            known = [*synthstats_lightning.__all__, *objectives.__all__]
            text = text.replace(wrong[0], f"no class {wrong[1]!r}{nearest(wrong[1], known)}")
        fail(text)


class ConfigByName(ActionConfigFile):
    """`--config` of a file, or of a configuration that the package ships, by its name."""

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        """Adds a configuration's keys to those so far."""
        try:
            path = find_config(values)
        except FileNotFoundError as error:
            raise ArgumentError(self, str(error)) from None
        super().__call__(parser, cfg, path, option_string)


def nearest(wrong: str, known: Collection[str]) -> str:
    """What is said behind a name that is not known: the nearest that is, or all where they are few.

    Args:
        wrong: The name as it was written; of a dotted one, the first part that differs counts.
        known: Names that would be right, dotted or not.
    """
    names = {name for name in known if name != "help" and not name.endswith(".help")}
    tops = sorted({name.split(".")[0] for name in names})
    top = wrong.split(".")[0]
    heads = {".".join(name.split(".")[: wrong.count(".") + 1]) for name in names}
    near = get_close_matches(*((wrong, sorted(heads)) if top in tops else (top, tops)), n=1)
    if near:
        return f" (nearest: {near[0]})"
    return f"; there are {', '.join(tops)}" if 0 < len(tops) <= MANY_NAMES else ""


def _options(parser: ArgumentParser) -> set[str]:
    """Long options of a parser and of the subcommands that it has built."""
    found: set[str] = set()
    for action in parser._actions:
        found.update(option for option in action.option_strings if option.startswith("--"))
        if not action.option_strings and isinstance(action.choices, Mapping):
            for below in action.choices.values():
                found |= _options(below)
    return found


def _options_like(wrong: str, known: Collection[str]) -> list[str]:
    """Options that one which is not known may be the beginning of, at most three, or else the nearest."""
    begun = sorted(option for option in known if option.startswith(wrong) and not option.endswith(".help"))
    return begun[:3] or get_close_matches(wrong, sorted(known), n=1, cutoff=0.7)


def find_config(value: str) -> str:
    """The path of a configuration: a file in the working directory, else one that the package ships.

    Args:
        value: A path, or a name such as `trainer/ddp`; what holds a colon may be a configuration written out,
            and is returned as it is.

    Raises:
        FileNotFoundError: If there is neither.
    """
    if "\n" in value or value.lstrip().startswith(("{", "[")):
        return value
    shipped = shipped_file(value, ("", ".yaml"))
    own = next((path for path in (Path(value), Path(f"{value}.yaml")) if path.is_file()), None)
    if own is None and shipped is None and ":" not in value:
        folder = shipped_configs()
        names = [str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml")]
        near = get_close_matches(value.removesuffix(".yaml").removeprefix("configs/"), names, n=1)
        hint = f" (nearest: {near[0]})" if near else ""
        raise FileNotFoundError(
            f"no file {value!r} and no configuration of that name; `{PROGRAM} configs` lists all{hint}"
        )
    if own is None:
        return value if shipped is None else str(shipped)
    if shipped is not None and not own.samefile(shipped):
        print(f"{own} is the file in the working directory, not the package's configuration", file=sys.stderr)
    return str(own)


def chosen_command(arguments: list[str]) -> str | None:
    """The subcommand that arguments name, if they name one."""
    return next((item for item in arguments if item in COMMANDS), None)


def add_commands(subcommands: Any, commands: dict[str, str], **given: ArgumentParser) -> None:
    """Adds subcommands to a parser, so that its help names them all.

    Args:
        subcommands: What `add_subcommands` of the parser returned.
        commands: What is said of each, by name.
        **given: The parser of the one that is used, by name; the others take no arguments.
    """
    for name, text in commands.items():
        subcommands.add_subcommand(name, given.get(name) or OneLineErrors(description=text), help=text)


def command_line(name: str | None, add_arguments: Callable[[ArgumentParser], None] | None) -> ArgumentParser:
    """The parser of a command line whose subcommand is none of the trainer's.

    Args:
        name: Of the subcommand, if there is one.
        add_arguments: Adds what it takes.
    """
    parser = OneLineErrors(prog=PROGRAM, description=DESCRIPTION, version=__version__)
    given = {}
    if name is not None and add_arguments is not None:
        given[name] = OneLineErrors(description=COMMANDS[name])
    add_commands(parser.add_subcommands(), COMMANDS, **given)
    if name in given and add_arguments is not None:  # now: subcommands of a subcommand come after it
        add_arguments(given[name])
    return parser

"""`synthstats-lightning explore FILE --response NAME`: from a data file to a report, in a given time."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import fail
from synthstats_lightning.cli.parser import PROGRAM, find_config
from synthstats_lightning.runtime.command_time import check_minutes
from synthstats_lightning.runtime.shipped import shipped_file
from synthstats_lightning.searchers.methods import Method, budget_overlay, named_method
from synthstats_lightning.tasks import CSVTask
from synthstats_lightning.tasks.response_transform import transform_into_reach

FEWEST_ROWS = 5
"""Rows of a data set that programs can be compared on."""
FEW_STEPS = 50
"""Training steps that leave a policy much as it was."""
BASE = "quickstart"
"""The configuration that a run starts from."""
POLICY = "writer"
"""The policy where neither `--policy` nor a configuration says another."""
QUIET = ("lightning.pytorch", "lightning.fabric")
"""Loggers that say nothing on devices and tips here, and their warnings only."""
OWN_CHOICE = {"columns", "screen"}
"""Arguments of `CSVTask` by which a user chooses covariates."""
OF_TASK = {"path", "response", "name", "description"}
"""Arguments of `CSVTask` that this subcommand spells itself."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("file", type=str, help="the data: a header line, then a line for each row")
    parser.add_argument("--response", type=str, required=True, help="column that models are to explain")
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="for the whole command, the report included"
    )
    parser.add_argument(
        "--steps",
        type=int | None,
        default=None,
        help="training steps, with every schedule in proportion, instead of --minutes",
    )
    parser.add_argument(
        "--method",
        type=str | None,
        default=None,
        help="how programs are searched for: a name of configs/searchers, or of configs/objective for one"
        " that trains; trajectory balance by default",
    )
    parser.add_argument(
        "--programs",
        type=int | None,
        default=None,
        help="distinct programs to have scored at most, by any method, instead of --minutes",
    )
    parser.add_argument(
        "--policy",
        type=str | None,
        default=None,
        help=f"language model; {POLICY} by default, which reads the data; tiny for at most three covariates",
    )
    parser.add_argument("--description", type=str | None, default=None, help="one sentence on the data")
    parser.add_argument("--name", type=str | None, default=None, help="of the task; by default the file's")
    parser.add_argument("--output", type=str, default="runs", help="folder that gets the run's folder")
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    parser.add_argument(
        "--compare",
        type=str,
        nargs="+",
        default=[],
        help="files with programs of your own, which the report puts beside what it finds",
    )
    parser.add_argument(
        "--config", type=str, nargs="+", default=[], help=f"configurations over {BASE}, by file or name"
    )
    parser.add_argument(
        "--show_config",
        action="store_true",
        help="print what `fit` would be given, and do nothing",
    )
    parser.add_class_arguments(CSVTask, "data", skip=OF_TASK, fail_untyped=False, instantiate=False)


def run(options: Namespace) -> Any:
    """Understands the data, fits and reports.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The `LightningCLI` after its run.

    Raises:
        SystemExit: With `WRONG_USAGE` if the data or an argument is wrong.
    """
    settings = task_settings(options)
    try:
        method, limited, steps = _method(options)
        for path in options.compare:
            if not Path(path).is_file():
                raise FileNotFoundError(f"compare must name files with programs, got {path}, which is none")
        own = [find_config(name) for name in options.config]
        chosen = policy_of(own)
        policy = options.policy or chosen or POLICY
        of_policy = [find_config(name) for name in policy_overlays(policy)]
        # a policy that is named takes the place of one that a configuration chooses
        overlays = [*of_policy, *own] if chosen is None else [*own, *(of_policy if options.policy else [])]
        task = CSVTask(**settings)
        most = most_covariates(policy)
        if most is not None and len(task.understood.predictors) > most and not OWN_CHOICE & set(settings):
            settings["screen"] = most
            task = CSVTask(**settings)
        if policy == POLICY and not options.compare and (into := _into_reach(task, settings)):
            settings["response_transform"] = into
            task = CSVTask(**settings)
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    if task.num_rows < FEWEST_ROWS:
        fail(f"{options.file} must have at least {FEWEST_ROWS} rows, got {task.num_rows}")
    from synthstats_lightning.cli.main import main

    searched = [find_config(method.overlay)] if method is not None else []
    given = ["fit" if method is None else method.command, "--config", BASE]
    for overlay in (
        *searched,
        json.dumps(limited),
        *overlays,
        json.dumps(configuration(options, settings, task.name)),
    ):
        given += ["--config", overlay]
    if steps is not None:
        given += ["--steps", str(steps)]
    if options.show_config:
        return main([*given, "--print_config"])
    print(_understood(task), file=sys.stderr)
    if not OWN_CHOICE & set(task_settings(options)) and "screen" in settings:
        print(
            f"  the policy was made for at most {settings['screen']} covariates: those that go with the"
            " response best are kept; `--data.screen NUMBER` or `--data.columns` choose others",
            file=sys.stderr,
        )
    if task.transform is not None and "response_transform" not in task_settings(options):
        print(
            f"  programs see {task.response} {task.transform.words}, since the policy writes numbers of other"
            " sizes badly; every score is that of the measured values",
            file=sys.stderr,
        )
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    done, timed = main(given), options.steps is None and options.programs is None
    if given[0] == "search":
        folder = done.searched.folder
        print(
            f"all is in {folder}, and `{PROGRAM} search --config {folder / 'config.yaml'} --search.folder"
            f" {folder}` goes on there"
        )
        return done
    folder = Path(done.trainer.log_dir or options.output)
    steps, again = done.trainer.global_step, f"{PROGRAM} fit --config {folder / 'config.yaml'}"
    print(f"training steps: {steps}; all is in {folder}, and `{again}` repeats it")
    if steps < FEW_STEPS:
        more = "--minutes" if timed else "--steps" if options.programs is None else "--programs"
        print(f"so few steps leave the policy much as it was before training: more {more} will change that")
    return done


def _into_reach(task: CSVTask, settings: dict[str, Any]) -> str | None:
    """The transform of a measured response whose size is not one that the policy was made for."""
    if "response_transform" in settings or task.response_kind != "continuous":
        return None
    values = task.data[task.response]
    return transform_into_reach(float(values.min()), float(values.max()))


def _method(options: Namespace) -> tuple[Method | None, dict[str, Any], int | None]:
    """The method, what its budget makes of a configuration, and training steps where they are given.

    Raises:
        ValueError: If there is no such method, or its end is wrong.
    """
    method = None if options.method is None else named_method(options.method)
    if options.steps is not None and options.steps < 1:
        raise ValueError(f"steps must be at least 1, got {options.steps}")
    if options.steps is not None and options.programs is not None:
        raise ValueError(f"programs must not be given with steps, got {options.programs}")
    if options.programs is not None:
        limited, steps = budget_overlay(method or named_method("trajectory_balance"), options.programs)
        return method, limited, steps
    if method is not None and not method.trains:
        if options.steps is not None:
            raise ValueError(f"steps must not be given for {method.name}, which does not train")
        check_minutes(options.minutes)
        return method, {"scoring": {"max_programs": None}}, None
    if options.steps is None:
        check_minutes(options.minutes)
    return method, {}, options.steps


def policy_overlays(policy: str) -> list[str]:
    """Configurations that a bundled policy comes with, beside its name.

    Args:
        policy: Name of the policy.
    """
    from synthstats_lightning.policy.loading import BUNDLED

    if policy not in BUNDLED:
        return []
    name = f"policy/{policy}"
    return [] if shipped_file(name, (".yaml",)) is None else [name]


def policy_of(overlays: Sequence[str]) -> str | None:
    """The policy that configurations choose; `None` where none does.

    Args:
        overlays: Paths of the configurations, of which the last one wins.
    """
    found = None
    for path in overlays:
        settings = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        for key in ("model", "init_args", "policy"):
            settings = settings.get(key) if isinstance(settings, dict) else None
        found = settings or found
    return found


def most_covariates(policy: str) -> int | None:
    """Covariates that a bundled policy takes at most; `None` where that is not known.

    Nor is there such a number where it reads digests: its proposal is told of columns that one speaks for.

    Args:
        policy: Name of the policy.
    """
    from synthstats_lightning.policy.loading import BUNDLED

    if policy not in BUNDLED:
        return None
    text = resources.files("synthstats_lightning.policy").joinpath(BUNDLED[policy], "config.json").read_text()
    config = json.loads(text)
    found: int | None = None if "slot_rows" in config else config.get("max_covariates")
    return found


def task_settings(options: Namespace) -> dict[str, Any]:
    """Arguments of the `CSVTask`, those that are not its defaults.

    Args:
        options: Parsed arguments, those of `add_arguments`.
    """
    usual = ArgumentParser()
    usual.add_class_arguments(CSVTask, "data", skip=OF_TASK, fail_untyped=False, instantiate=False)
    defaults = usual.get_defaults().data.as_dict()
    own = {name: options[name] for name in ("response", "description", "name") if options[name] is not None}
    given = {name: value for name, value in options.data.as_dict().items() if value != defaults[name]}
    return {"path": options.file, **own, **given}


def configuration(options: Namespace, settings: dict[str, Any], name: str) -> dict[str, Any]:
    """What goes over the configurations of the package: the data, the time and where the run's folder is.

    Args:
        options: Parsed arguments, those of `add_arguments`.
        settings: Arguments of the `CSVTask`.
        name: The task's name, which the run's folder takes as well.
    """
    logger = {
        "class_path": "lightning.pytorch.loggers.CSVLogger",
        "init_args": {"save_dir": options.output, "name": name},
    }
    found: dict[str, Any] = {
        "seed_everything": options.seed,
        "data": {"init_args": {"tasks": [{"class_path": "CSVTask", "init_args": settings}]}},
        "trainer": {
            "default_root_dir": str(Path(options.output) / name),
            "logger": logger,
            "enable_model_summary": False,
        },
    }
    if options.steps is None and options.programs is None:
        found["budget"] = {"minutes": options.minutes}
    if options.compare:
        found["report"] = {"compare": list(options.compare)}
    if options.policy is not None:
        found["model"] = {"init_args": {"policy": options.policy}}
    return found


def _understood(task: CSVTask) -> str:
    """What the run is about, and what its user should look at first."""
    response, columns = task.columns[task.response], task.understood.predictors
    others = ", ".join(f"{column.name} ({column.kind})" for column in columns) or "no other column"
    rows = f"{task.num_rows} rows"
    if task.understood.num_rows_read != task.num_rows:
        rows = f"{task.num_rows} of {task.understood.num_rows_read} rows"
    lines = [f"{task.name}: {rows}, {response.kind} response {task.response} by {others}"]
    return "\n".join([*lines, *(f"  {line}" for line in task.understood.warnings)])

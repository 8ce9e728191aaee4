"""The configuration reference: every key with its default and description, from signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from docstring_parser import parse

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"


class Key(NamedTuple):
    """One key of the configuration.

    Attributes:
        name: With the sections above it, separated by dots.
        default: As YAML writes it; empty where the key must be given.
        text: What it does.
    """

    name: str
    default: str
    text: str


def descriptions(thing: Any) -> dict[str, str]:
    """Name of an argument to its description, of a class and those that it inherits from.

    Args:
        thing: A class or a function with a Google docstring.
    """
    found: dict[str, str] = {}
    for each in reversed(getattr(thing, "__mro__", (thing,))):
        for documentation in (each.__doc__, getattr(each.__dict__.get("__init__"), "__doc__", None)):
            for item in parse(documentation or "").params:
                found[item.arg_name] = " ".join((item.description or "").split())
    return found


def dataclasses_in(annotation: Any) -> list[type]:
    """The dataclasses that a type hint names.

    Args:
        annotation: A type, possibly a union.
    """
    parts = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    return [part for part in parts if inspect.isclass(part) and dataclasses.is_dataclass(part)]


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _hints(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing.__init__ if inspect.isclass(thing) else thing)
    except (NameError, TypeError):
        return {}


def written(value: Any) -> str:
    """A default as YAML writes it.

    Args:
        value: Of the signature.
    """
    if value is inspect.Parameter.empty:
        return "(to be given)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return str(list(value)).replace("'", "")
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__name__
    return str(value)


def keys(thing: Callable[..., Any], prefix: str) -> Iterator[Key]:
    """The keys of a class, those of nested settings below their own.

    Args:
        thing: The class.
        prefix: The section that its arguments are given in.
    """
    texts, hints = descriptions(thing), _hints(thing)
    for name, parameter in inspect.signature(thing).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        key = f"{prefix}.{name}" if prefix else name
        nested = dataclasses_in(hints.get(name))
        yield Key(key, "(below)" if nested else written(parameter.default), texts.get(name, ""))
        for settings in nested:
            yield from keys(settings, key)


def shown_keys(thing: Callable[..., Any], prefix: str, parsed: dict[str, Key]) -> list[Key]:
    """The keys of a class; of a section those that the parser has, with its defaults.

    Args:
        thing: The class.
        prefix: See `keys`.
        parsed: See `section_keys`.
    """
    found = list(keys(thing, prefix))
    of_section = {name: key for name, key in parsed.items() if name.startswith(f"{prefix}.")}
    if not of_section:
        return found
    tops = {".".join(name.split(".")[:2]) for name in of_section}
    shown = []
    for key in found:
        if ".".join(key.name.split(".")[:2]) in tops:
            given = of_section.get(key.name)
            shown.append(
                key if given is None or key.default == "(below)" else key._replace(default=given.default)
            )
    names = {key.name for key in shown}
    return shown + [key for name, key in of_section.items() if name not in names and name.count(".") == 1]


def table(thing: Callable[..., Any], prefix: str, parsed: dict[str, Key]) -> str:
    """The keys of a class as a table.

    Args:
        thing: The class.
        prefix: See `keys`.
        parsed: See `section_keys`.
    """
    lines = [f"| key of `{prefix}` | default | what it does |", "|---|---|---|"]
    for key in shown_keys(thing, prefix, parsed):
        text = key.text.replace("|", "\\|")
        if not thing.__module__.startswith("synthstats_lightning."):
            # other projects' texts go on with examples and notes in reStructuredText
            text = text.split(". ")[0].split(" Example")[0].replace("``", "`").rstrip(".") + "."
        lines.append(f"| `{key.name.removeprefix(f'{prefix}.')}` | `{key.default}` | {text} |")
    return "\n".join(lines)


SECTION_TEXTS = {
    "budget": "Time for a whole run, the report included; off with `budget.minutes: null`.",
    "rollouts": "Training programs from inference servers.",
    "scoring": "Sampling, reward and workers.",
    "regressions": "What an analyst would write first, scored before anything else; off with `families: 0`.",
    "proposals": "Programs of a chat model that the policy learns from; off with `proposals.url: null`.",
    "report": "What a run shows at its end; off with `report.num_programs: null`.",
    "checkpoint": "Lightning's own `ModelCheckpoint`.",
    "metrics": "How training goes, from fresh programs.",
    "unseen_tasks": "Tasks that are never trained on.",
    "benchmark": "BoxingGym's protocol, in `validate` and `test`.",
}


def sections() -> list[tuple[str, str, list[tuple[str, type]]]]:
    """Title, opening sentence, and classes by section, in the order of the page."""
    import synthstats_lightning.tasks as tasks
    from synthstats_lightning import DemonstrationDataModule, GFlowNetModule, ReplayDataModule
    from synthstats_lightning.cli.sections import SECTIONS
    from synthstats_lightning.searchers import Evolution, ModelSMC, SampleAndWeight
    from synthstats_lightning.searchers.settings import SearchSettings
    from synthstats_lightning.tasks.experiments.experiment_task import ExperimentTask

    entries = [
        *(getattr(tasks, name) for name in ("CSVTask", "SimulatedTask", "SimulatedTasks")),
        ExperimentTask,
    ]
    searchers = [("init_args", item) for item in (SampleAndWeight, ModelSMC, Evolution)]
    return [
        ("model", "Policy, objective, optimiser and log Z.", [("model.init_args", GFlowNetModule)]),
        (
            "data",
            "Tasks and the replay buffer; or given examples, which a policy imitates.",
            [("data.init_args", ReplayDataModule), ("data.init_args", DemonstrationDataModule)],
        ),
        *((name, SECTION_TEXTS[name], [(name, callback)]) for name, callback in SECTIONS.items()),
        (
            "tasks",
            "Entries of `data.init_args.tasks`, each with a `class_path` and `init_args`.",
            [("init_args", entry) for entry in entries],
        ),
        (
            "search",
            "How `search` finds programs; `fit` does not have this section.",
            [("search", SearchSettings)],
        ),
        ("searchers", "Values of `search.method`.", searchers),
        ("objectives", "Values of `model.init_args.objective`.", objectives()),
    ]


def section_keys() -> dict[str, Key]:
    """The keys of the sections as the parser has them, nested ones only as far as it knows them."""
    from jsonargparse import ArgumentParser

    from synthstats_lightning.cli.sections import SECTIONS, add_sections

    parser = ArgumentParser()
    add_sections(parser)
    return {
        action.dest: Key(action.dest, written(parser.get_defaults().get(action.dest)), str(action.help or ""))
        for action in parser._actions
        if action.dest.split(".")[0] in SECTIONS and "." in action.dest
    }


def objectives() -> list[tuple[str, type]]:
    """Every objective that a configuration may name."""
    import synthstats_lightning.objectives as module
    from synthstats_lightning.objectives import Objective

    found = [getattr(module, name) for name in module.__all__]
    classes = [item for item in found if inspect.isclass(item) and issubclass(item, Objective)]
    return [("init_args", item) for item in classes if item is not Objective]


def configuration_page() -> str:
    """Every section with its keys."""
    lines = [
        "# Configuration",
        "",
        "Made from the classes' signatures and docstrings when this site is built. A key is given in YAML,",
        "nested, or on the command line, with dots; `--print_config` shows what would run, and",
        "a key that nothing reads is an error.",
        "Sections besides these are Lightning's: `trainer`, `seed_everything`, `ckpt_path`.",
        "",
    ]
    parsed = section_keys()
    for title, text, classes in sections():
        lines += [f"## {title}", "", text, ""]
        for prefix, thing in classes:
            if len(classes) > 1:
                lines += [f"### {thing.__name__}", "", (thing.__doc__ or "").strip().split("\n")[0], ""]
            own = inspect.signature(thing).parameters
            lines += [table(thing, prefix, parsed) if own else "No keys of its own.", ""]
    return "\n".join(lines)


def shipped_page() -> str:
    """The shipped configurations, each with its text."""
    lines = ["# Shipped configurations", "", "What `--config NAME` finds, and what it holds.", ""]
    for folder in [CONFIGS, *sorted(path for path in CONFIGS.iterdir() if path.is_dir())]:
        lines += [f"## {folder.relative_to(ROOT)}", ""]
        for path in sorted(folder.glob("*.yaml")):
            name = path.relative_to(CONFIGS).with_suffix("")
            lines += [
                f"### {name}",
                "",
                f"```{{literalinclude}} ../../configs/{name}.yaml",
                ":language: yaml",
                "```",
                "",
            ]
    return "\n".join(lines)

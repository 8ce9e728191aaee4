"""`synthstats-lightning evaluate --policy CHECKPOINT --seeds 1 2 3`: BoxingGym's protocol for any policy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from synthstats_lightning.cli.errors import FAILED, fail
from synthstats_lightning.cli.evaluate.policy_argument import POLICY_HELP, NamedPolicy, named_policy
from synthstats_lightning.confinement import Level
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.rollouts.chat_writer import ChatSettings
from synthstats_lightning.sandbox import SandboxError, SandboxLimits
from synthstats_lightning.scoring.settings import ENGINE_VERSION, EngineSettings
from synthstats_lightning.scoring.terms.chat_endpoint import ChatError

KEPT = "measurements.jsonl"
"""File of what is done, in the folder of an evaluation; beside it `evaluation.json` and `evaluation.md`."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("--policy", type=str, required=True, help=POLICY_HELP)
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="instances of each environment"
    )
    parser.add_argument(
        "--environments",
        type=str,
        nargs="+",
        default=[],
        help="names of simulated environments; by default all, or all that the programs are of",
    )
    parser.add_argument(
        "--num_programs", type=int, default=16, help="programs that the policy writes for each instance"
    )
    parser.add_argument(
        "--oracle", type=bool, default=True, help="whether the environments' own programs take part"
    )
    parser.add_argument(
        "--output",
        type=str,
        default="evaluation",
        help="folder of the results; what it holds of the same evaluation is kept and not measured again",
    )
    parser.add_argument(
        "--num_workers", type=int | None, default=None, help="programs that predict at a time"
    )
    parser.add_argument("--sandbox", type=Level, default="strict", help="how strictly programs are confined")
    parser.add_class_arguments(EvaluationSettings, "settings", skip={"seeds"})
    parser.add_class_arguments(ChatSettings, "chat")
    parser.add_class_arguments(SandboxLimits, "limits")
    parser.add_class_arguments(EngineSettings, "engine")


def run(options: Namespace) -> dict[str, Any]:
    """Evaluates what is not done yet, and writes all of it.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        What `evaluation.json` holds.

    Raises:
        SystemExit: With `WRONG_USAGE` for a wrong argument or another evaluation's folder; with `FAILED` if
            it was interrupted, programs cannot be confined on this machine, or a chat model does not answer.
    """
    from synthstats_lightning.cli.evaluate.course import Course
    from synthstats_lightning.evaluation.entrants import looks_at_data
    from synthstats_lightning.evaluation.kept import KeptMeasurements
    from synthstats_lightning.evaluation.report import environment_table
    from synthstats_lightning.evaluation.units import UnitEvaluation, all_units
    from synthstats_lightning.evaluation.written import document, markdown
    from synthstats_lightning.pool.scorer import ProgramScorer
    from synthstats_lightning.reports.closing import TABLE_WIDTH
    from synthstats_lightning.runtime.durable_files import write_text
    from synthstats_lightning.runtime.threads import limit_threads
    from synthstats_lightning.tasks.simulated import make_simulator

    limit_threads()
    folder = Path(options.output)
    try:
        settings = replace(options.settings, seeds=tuple(options.seeds))
        policy = named_policy(options.policy, options.num_programs, options.chat)
        names = chosen_environments(options.environments, policy)
        evaluation = UnitEvaluation([make_simulator(name) for name in names], settings, options.oracle)
        of = {
            "policy": policy.of,
            "num_programs": options.num_programs,
            "oracle": options.oracle,
            "settings": {key: value for key, value in asdict(settings).items() if key != "seeds"},
            "engine": {"version": ENGINE_VERSION, **asdict(options.engine)},
        }
        scorer = ProgramScorer(options.num_workers, options.limits, options.engine, options.sandbox)
        kept = KeptMeasurements(folder / KEPT, of)
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    units = all_units(names, settings.seeds)
    writings = len(settings.budgets) if looks_at_data(policy.entrant) else 1
    course = Course(units, kept, policy.entrant, writings)
    try:
        with scorer:
            scorer.start()
            course.run(evaluation, scorer)
    except KeyboardInterrupt:
        done = sum(unit in kept.done for unit in units)
        fail(
            f"interrupted: {done} of {len(units)} instances are in {kept.path}; the same command goes on",
            FAILED,
        )
    except SandboxError as error:
        fail(str(error), FAILED)
    except ChatError as error:
        fail(f"policy {options.policy} does not answer: {error}; the same command goes on", FAILED)
    except ValueError as error:
        fail(str(error))
    finally:
        kept.close()
    measurements = kept.measurements(units)
    cost = course.cost()
    made = document(measurements, {**of, "seeds": list(settings.seeds), "environments": names}, cost)
    write_text(folder / "evaluation.json", json.dumps(made, indent=2) + "\n")
    write_text(folder / "evaluation.md", markdown(measurements, options.policy, cost))
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    for name in names:
        console.print(environment_table(name, made["table"]))
    console.print(f"written: {folder / 'evaluation.json'}, {folder / 'evaluation.md'}", markup=False)
    return made


def chosen_environments(given: Sequence[str], policy: NamedPolicy) -> list[str]:
    """The environments of an evaluation.

    Args:
        given: Names that the user gave; none for all.
        policy: What is evaluated; one that only has programs of some environments is evaluated on those.

    Raises:
        ValueError: If there are none, one is named twice, or the policy has no programs for one.
    """
    from synthstats_lightning.tasks.simulators import SIMULATORS

    able = getattr(policy.entrant, "environments", None)
    names = [name for name in SIMULATORS if able is None or name in able] if not given else list(given)
    if able is not None and not names:
        raise ValueError(
            f"policy must have programs of a simulated environment ({', '.join(sorted(SIMULATORS))}), got"
            f" those of {', '.join(able) or 'none'}"
        )
    if not names or len(set(names)) < len(names):
        found = f", and there are programs for {', '.join(able)}" if able is not None else ""
        raise ValueError(
            f"environments must name one or more of {', '.join(sorted(SIMULATORS))}, each once, got"
            f" {', '.join(names) or 'none'}{found}"
        )
    if able is not None and (missing := [name for name in names if name not in able]):
        raise ValueError(f"policy has no programs for {missing[0]}, only for {', '.join(able)}")
    return names

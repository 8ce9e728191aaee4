"""What the configuration of a run says of its data and of how programs are scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.runtime.union_errors import shorten
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task, TaskCollection, expand_tasks
from synthstats_lightning.tasks.proposal import looking

CONFIGURATION = "config.yaml"


class RunSettings:
    """What a run's configuration says of its tasks and of scoring.

    Args:
        folder: The run's folder, with its configuration and programs.

    Attributes:
        tasks: Empty where the configuration does not say, or its data are not there any more.
        reward: From a score to a log reward, without the terms that need somebody to ask.
        left_out: What is therefore missing, a line each.
        unread: Why the data cannot be read; empty where they can.
    """

    def __init__(self, folder: Path) -> None:
        self.left_out: list[str] = []
        self.unread = ""
        self.tasks: list[Task] = []
        path = folder / CONFIGURATION
        config: dict[str, Any] = {}
        if path.is_file():
            config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        else:
            self.left_out.append(f"the pictures: there is no {CONFIGURATION} that says what the data are")
        self._scoring: dict[str, Any] = config.get("scoring") or {}
        given = dict(self._scoring.get("reward") or {})
        terms = given.pop("terms", None)
        given.pop("term_weights", None)
        self.reward = Reward(**given)
        if terms:
            names = ", ".join(str(term["class_path"]).rpartition(".")[2] for term in terms)
            self.left_out.append(
                f"the target of training, which is no posterior over programs: it has the terms {names};"
                " shares here are by prior times evidence alone"
            )
        data = (config.get("data") or {}).get("init_args") or {}
        try:
            words = data.get("proposal", "nothing"), data.get("instructions", "short")
            self.tasks = [looking(task, *words) for task in built_tasks(data.get("tasks", []))]
        except Exception as error:  # its files may be gone, or be elsewhere
            self.unread = f"{shorten(str(error))} (paths in it are from the working directory)"
            self.left_out.append(f"the pictures: the data cannot be read: {self.unread}")

    def scorer(self) -> ProgramScorer:
        """Workers that score as the run's did; they start with the first program."""
        limits, engine = self._built("limits", SandboxLimits), self._built("engine", EngineSettings)
        sandbox = self._scoring.get("sandbox", "strict")
        return ProgramScorer(limits=limits, settings=engine, sandbox=sandbox)

    def _built(self, name: str, kind: type[Any]) -> Any:
        return kind(**(self._scoring.get(name) or {}))


def built_tasks(given: Any) -> list[Task]:
    """The tasks that a configuration says.

    Args:
        given: Names of bundled tasks, or a class_path and init_args each.

    Raises:
        jsonargparse.ArgumentError: If there is no such task, or an argument of it is wrong.
    """
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--tasks", type=Sequence[str | Task | TaskCollection])
    built = parser.instantiate_classes(parser.parse_object({"tasks": given}))
    return list(expand_tasks(built.tasks))

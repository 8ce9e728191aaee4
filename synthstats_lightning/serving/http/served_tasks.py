"""The tasks that requests name or bring along."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from synthstats_lightning.serving.http.messages import DataTask, EpisodeTask, InstanceTask
from synthstats_lightning.serving.http.refusals import InvalidRequestError
from synthstats_lightning.tasks import SimulatedTask, Task, get_task, task_names, task_prompt
from synthstats_lightning.tasks.experiments import ExperimentTask
from synthstats_lightning.tasks.simulators import SIMULATORS

KEPT = 128
"""Tasks that are kept, the latest ones: an RL trainer asks for the same few again and again."""


class ServedTasks:
    """Tasks by name or by what a request says; used by one thread at a time.

    A request's task holds its data, or names a simulator of the package: nothing of it names a file or a
    class.

    Args:
        own: Tasks beside the bundled ones, which requests can name.

    Raises:
        ValueError: If two tasks have one name.
    """

    def __init__(self, own: Sequence[Task] = ()) -> None:
        names = [task.name for task in own]
        taken = [name for name in names if names.count(name) > 1 or name in task_names()]
        if taken:
            raise ValueError(f"tasks must have names of their own, got {taken[0]!r}, which is taken")
        self._own = {task.name: task for task in own}
        self._kept: OrderedDict[str, Task] = OrderedDict()
        self._listing: list[dict[str, Any]] | None = None

    def scored(self, asked: str | DataTask | InstanceTask) -> Task:
        """The task whose programs are scored.

        Args:
            asked: Name of a task, or the task itself.

        Raises:
            InvalidRequestError: If there is no such task, or an argument of it is wrong.
        """
        if isinstance(asked, str):
            found = self._own.get(asked)
            return found if found is not None else self._keep(asked, lambda: get_task(asked))
        if isinstance(asked, DataTask):
            return self._keep(asked.model_dump_json(), lambda: _data_task(asked))
        return self._keep(asked.model_dump_json(), lambda: SimulatedTask(**asked.model_dump()))

    def episode(self, asked: str | EpisodeTask) -> ExperimentTask:
        """The task whose episodes are rolled out.

        Args:
            asked: Name of a simulated environment, or of an own task of experiments, or the task itself.

        Raises:
            InvalidRequestError: If there is none of that name, or an argument of it is wrong.
        """
        if isinstance(asked, str):
            own = self._own.get(asked)
            if own is not None and not isinstance(own, ExperimentTask):
                raise InvalidRequestError(f"task {asked!r} has no episodes: its data are given")
            if own is not None:
                return own
            asked = EpisodeTask(simulator=asked)
        given = asked.model_dump()
        found = self._keep(f"episode {asked.model_dump_json()}", lambda: ExperimentTask(**given))
        assert isinstance(found, ExperimentTask)  # noqa: S101
        return found

    def listing(self) -> list[dict[str, Any]]:
        """What there is to ask for by name, and what a policy is told of it; no value of a response."""
        if self._listing is None:
            tasks = [*self._own.values(), *map(get_task, task_names())]
            self._listing = [_described(task) for task in tasks]
        return self._listing

    def _keep(self, key: str, make: Callable[[], Task]) -> Task:
        found = self._kept.get(key)
        if found is None:
            try:
                found = make()
            except (ValueError, TypeError, OverflowError) as error:
                raise InvalidRequestError(" ".join(str(error).split())) from None
        self._kept[key] = found
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found


def _data_task(asked: DataTask) -> Task:
    given = asked.model_dump()
    given["data"] = {name: np.asarray(values) for name, values in given["data"].items()}
    return Task(**given)


def _described(task: Task) -> dict[str, Any]:
    prompt = task_prompt(task)
    return {
        "name": task.name,
        "description": task.description,
        "rows": task.num_rows,
        "held_out": task.held_out,
        "shown_rows": task.shown_rows,
        "response": task.response,
        "response_kind": task.response_kind,
        "covariates": list(task.covariates),
        "fingerprint": task.fingerprint,
        "rules": prompt.rules,
        "request": prompt.request,
        "episodes": task.name in SIMULATORS or isinstance(task, ExperimentTask),
    }

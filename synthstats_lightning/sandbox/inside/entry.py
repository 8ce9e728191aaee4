"""Finding the model that a program leaves."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox.inside.namespace import Data

FUNCTIONS = ("model", "build", "gen_model")
"""Functions that return a model, in the order in which they are looked for."""


class Recorder:
    """Every root model that a program makes, in order; a context manager that hooks `pm.Model`.

    Attributes:
        models: Every model that it has made, in order.
        changed: Those that `pm.do` has made of others.
    """

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.changed: list[Any] = []

    def __enter__(self) -> Recorder:
        import pymc

        self._original = original = pymc.Model.__init__
        self._do = do = pymc.do
        recorded = self.changed

        def changed(*args: Any, **kwargs: Any) -> Any:
            found = do(*args, **kwargs)
            recorded.append(found)
            return found

        pymc.do = changed
        models = self.models

        def initialise(made: Any, /, *args: Any, **kwargs: Any) -> None:
            original(made, *args, **kwargs)
            if made.parent is None:
                models.append(made)

        pymc.Model.__init__ = initialise
        return self

    def __exit__(self, *error: object) -> None:
        import pymc

        pymc.Model.__init__, pymc.do = self._original, self._do


def find_model(
    module: types.ModuleType, columns: Mapping[str, Any], num_rows: int, recorder: Recorder
) -> Any:
    """The model of a program that ran to its end.

    A model at module level comes first (the one named `model` if there are several), then the functions in
    `FUNCTIONS`, then the only model made anywhere.

    Args:
        module: The program's module.
        columns: Columns by name.
        num_rows: Rows of the data set.
        recorder: Models made so far; calls made here add to it.

    Returns:
        A `pm.Model`.

    Raises:
        ProgramFailure: `BAD_GRAPH` if there is none, or several and none is named `model`.
    """
    named = {name: value for name, value in vars(module).items() if _is_model(value)}
    if "model" in named:
        return named["model"]
    distinct = list({id(model): model for model in named.values()}.values())
    if not distinct:
        for name in FUNCTIONS:
            function = vars(module).get(name)
            if callable(function):
                return _call(name, function, columns, num_rows, recorder)
        distinct = recorder.models
    return _only(distinct, "the program", recorder)


def _call(
    name: str, function: Callable[..., Any], columns: Mapping[str, Any], num_rows: int, recorder: Recorder
) -> Any:
    before = len(recorder.models)
    returned = function(Data(columns, num_rows)) if _takes_data(name, function) else function()
    candidates = returned if isinstance(returned, tuple | list) else [returned]
    models = [value for value in candidates if _is_model(value)]
    return _only(models or recorder.models[before:], f"{name}()", recorder)


def _takes_data(name: str, function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]
    required = [p.name for p in positional if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(required) > 1:
        raise ProgramFailure(
            FailureCategory.BAD_GRAPH,
            f"{name}() must take the data set as its only argument, it takes {', '.join(required)}",
        )
    return bool(positional)


def _only(models: list[Any], where: str, recorder: Recorder) -> Any:
    # models to predict with observe nothing, and one under an intervention is another's
    changed = {id(model) for model in recorder.changed}
    seen = [model for model in models if model.observed_RVs and id(model) not in changed]
    if len(seen) == 1 or len(models) == 1:
        return (seen or models)[0]
    if not models:
        raise ProgramFailure(FailureCategory.BAD_GRAPH, f"{where} leaves no pm.Model")
    raise ProgramFailure(
        FailureCategory.BAD_GRAPH,
        f"{where} leaves {len(models)} models and none is named 'model' at module level",
    )


def _is_model(value: Any) -> bool:
    import pymc

    return isinstance(value, pymc.Model)

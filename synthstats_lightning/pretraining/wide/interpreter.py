"""Draws of everything in a program: NumPy in the place of PyMC, from the parameters down to the response.

Only programs of the grammar are run so. What a call means is in `samplers`, by the name of the distribution;
every other line of a program is plain arithmetic of arrays. So a class of programs needs no simulation of its
own, and a distribution that the table of samplers lacks is drawn by the engine's own sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np
from scipy.special import expit

from synthstats_lightning.pretraining.wide.processes import HSGP, Covariance
from synthstats_lightning.pretraining.wide.samplers import Floats, Law, draw

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "abs")},
    **{name: getattr(np, name) for name in ("minimum", "maximum", "stack", "sum", "clip", "concatenate")},
    "sigmoid": expit,
    "switch": np.where,
    "where": np.where,
}
"""What programs take from `pt`."""


def draw_response(source: str, columns: Mapping[str, Any], response: str, seed: int) -> Floats | None:
    """A response drawn from a program's prior.

    Args:
        source: A program of the grammar; it is executed.
        columns: Name to values `[rows]` of covariates, limits and views.
        response: Name of the response.
        seed: Seeds all random numbers.

    Returns:
        Values `[rows]`, or `None` if they are not all finite.
    """
    rows = len(next(iter(columns.values())))
    model = Interpreter(np.random.default_rng(seed), rows)
    scope = {"pm": model, "pt": _FUNCTIONS, "np": np, "math": math, **columns, response: OBSERVED}
    with np.errstate(all="ignore"):
        try:
            exec(_compiled(source), scope)  # noqa: S102
        except (ValueError, OverflowError, FloatingPointError):  # parameters out of a distribution's range
            return None
    drawn = model.response
    return drawn if drawn is not None and np.isfinite(drawn).all() else None


@lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    return compile(source, "<program>", "exec")


class _Functions:
    def __getattr__(self, name: str) -> Callable[..., Any]:
        return FUNCTIONS[name]


_FUNCTIONS = _Functions()
OBSERVED = object()
"""Stands for the response, which programs may name as what is observed and nothing else."""


class Interpreter:
    """What a program calls `pm`.

    Args:
        generator: Source of all draws.
        rows: Rows of the response.

    Attributes:
        values: Name to draw of every random variable.
        response: The draw of what is observed.
    """

    def __init__(self, generator: np.random.Generator, rows: int) -> None:
        self.generator = generator
        self.rows = rows
        self.values: dict[str, Any] = {}
        self.response: Floats | None = None
        self.gp = _Processes(self)
        self.distributions = _TRANSFORMS

    def Model(self) -> Interpreter:
        """A block's model, which is this."""
        return self

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, family: str) -> _Family:
        if family.startswith("_"):
            raise AttributeError(family)
        return _Family(self, family)


class _Family:
    """One distribution by name: called it is a random variable, `dist` of it is a law."""

    def __init__(self, model: Interpreter, name: str) -> None:
        self.model = model
        self.name = name

    def dist(self, *arguments: Any, **named: Any) -> Law:
        return Law(self.name, arguments, named)

    def __call__(
        self, name: str, *arguments: Any, observed: Any = None, shape: Any = None, **named: Any
    ) -> Any:
        model = self.model
        if observed is not None:
            shape = (model.rows,)
        elif shape is not None and not isinstance(shape, tuple):
            shape = (shape,)
        value = draw(model.generator, Law(self.name, arguments, named), shape)
        if observed is not None:
            model.response = np.asarray(value, dtype=np.float64)
        else:
            model.values[name] = value
        return value


class _Ordered:
    ordered = "ordered"


class _Transforms:
    transforms = _Ordered()


_TRANSFORMS = _Transforms()


class _Covariances:
    def ExpQuad(self, dimensions: int, ls: Any) -> Covariance:
        return Covariance(1.0, ls)


class _Processes:
    def __init__(self, model: Interpreter) -> None:
        self.cov = _Covariances()
        self._model = model

    def HSGP(self, m: list[int], c: float, cov_func: Covariance) -> HSGP:
        return HSGP(self._model.generator, m[0], c, cov_func)

"""A response from a program's prior, accepted by response and request alone."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

import numpy as np

from synthstats_lightning.pretraining.wide.interpreter import draw_response
from synthstats_lightning.pretraining.wide.program import Program
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.task import MadeUpTask
from synthstats_lightning.pretraining.wide.values import draw_covariates
from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks.columns import Array

NEAR = 0.5
"""How far the ends of a response may lie from those of the request, in lengths of its range."""
MOST_CUT = 2 / 3
"""Share of rows at most that are cut short where the request has limits: of more, little is told."""


class Simulated(NamedTuple):
    """Data that a program has made.

    Attributes:
        request: The request that the program was written for.
        data: Name to values of covariates, limits and the response, in this order.
    """

    request: Request
    data: dict[str, Array]

    @property
    def response(self) -> Array:
        """Values of the response."""
        return self.data[self.request.response.name]

    def task(self) -> MadeUpTask:
        """The data as a task, with the roles, levels and views that the request says.

        Raises:
            ValueError: If a task refuses the data, such as a covariate that does not vary.
        """
        return MadeUpTask(self.request, self.data)


def simulate(
    rng: Random, request: Request, program: Program, covariates: Mapping[str, Array] | None = None
) -> Simulated | None:
    """Tries a program once: parameters from its priors, then a response for the covariates.

    Args:
        rng: Source of all randomness: the same state gives the same data.
        request: What the program was written for.
        program: What makes the response.
        covariates: What `draw_covariates` gave, to be shared by several programs; drawn by default.

    Returns:
        The data; `None` where the response is not finite or does not go with the request.
    """
    columns = draw_covariates(rng, request) if covariates is None else covariates
    seed = rng.getrandbits(60)
    response = draw_response(program.source, with_views(request, columns), request.response.name, seed)
    if response is None or not goes_with(request, response):
        return None
    order = [column.name for column in request.covariates]
    data = {name: columns[name] for name in (*order, *request.censoring.values())}
    for side, name in request.censoring.items():
        cut = response >= columns[name] if side == "upper" else response <= columns[name]
        if not 0 < cut.mean() <= MOST_CUT:
            return None
        if request.events:
            data[name] = np.where(cut, columns[name], NO_LIMIT if side == "upper" else -NO_LIMIT)
    whole = request.response.kind != "continuous"
    data[request.response.name] = response.astype(np.int64) if whole else response
    return Simulated(request, data)


def with_views(request: Request, columns: Mapping[str, Array]) -> dict[str, Array]:
    """Columns and the standardised views of them.

    Args:
        request: Which views there are.
        columns: Name to values.
    """
    found = dict(columns)
    for name, view in request.views.items():
        values = columns[view.column]
        found[name] = (values - values.mean()) / (values.std() or 1.0)
    return found


def goes_with(request: Request, response: Array) -> bool:
    """Whether a response could be that of a request; nothing of the program counts.

    Both ends lie within half the range from the request's ends, those of counts without a total so on a
    logarithmic scale. A response that does not vary is none.

    Args:
        request: What the response is said to be.
        response: Values that a program has made.
    """
    ends = np.array([response.min(), response.max()])
    if ends[0] == ends[1]:
        return False
    wanted = np.array([request.response.low, request.response.high], dtype=np.float64)
    if request.response.kind == "count" and request.response.total is None:
        ends, wanted = np.log1p(ends), np.log1p(wanted)
    return not (np.abs(ends - wanted) > NEAR * (wanted[1] - wanted[0])).any()

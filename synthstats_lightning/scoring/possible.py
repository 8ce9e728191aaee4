"""Rows that a response's distribution has no density at, whatever its parameters: said before any search."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.laws import read_law
from synthstats_lightning.scoring.distributions.composites import of_law


def check_possible(graph: ModelGraph, response: NDArray[Any], rounding: float | None, name: str) -> None:
    """Refuses a model under which the data are impossible: a count of -1, the logarithm of 0.

    Args:
        graph: The canonical model graph.
        response: The response's values `[rows]`, without held-out rows: no evidence depends on these.
        rounding: Spacing of the values that the response was recorded to: a 0 may stand for less than that.
        name: What the response is called.

    Raises:
        ProgramFailure: `NON_FINITE`; the message has the first such row.
    """
    node = graph.nodes[graph.response]
    law = read_law(node.attributes)
    distribution = of_law(law)
    if distribution.entry.event_rank or law.name == "Censored":
        return
    parameters = [torch.zeros(())] * len(node.inputs)
    for place in distribution.support_parameters:
        source = graph.nodes[node.inputs[place]]
        if source.op != "constant" or graph.shapes[node.inputs[place]]:
            return
        parameters[place] = torch.as_tensor(constant_array(source))
    values = torch.as_tensor(np.asarray(response, dtype=np.float64))
    inside = distribution.inside(values, *parameters)
    if rounding is not None:
        inside = inside | distribution.inside(values + 0.5 * rounding, *parameters)
    outside = torch.nonzero(~inside).ravel().tolist()
    if outside:
        more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
        raise ProgramFailure(
            FailureCategory.NON_FINITE,
            f"no parameters have positive likelihood: {name} is {float(values[outside[0]]):g} in row"
            f" {outside[0]}{more}, which {law.text()} never is. Where that stands for a missing value, the"
            " task says so (`missing`)",
        )

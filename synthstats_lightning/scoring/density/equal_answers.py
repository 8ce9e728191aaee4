"""A model graph by the answers that differ whoever gave them: rows alike but for the element that they read.

Every person answers the same few questions: given what a latent's element is, a row is one of as many
functions of the parameters as there are questions times answers, however many people there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.equal_groups import EqualGroups, readings_of
from synthstats_lightning.scoring.density.equal_rows import Along, Kind, different, in_part
from synthstats_lightning.scoring.density.structural import Shape

WORTH = 0.25
"""Largest share of the rows that the answers may be."""


def find_equal_answers(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    response: NDArray[np.float64],
    latent: int,
    moved: frozenset[int],
    element: NDArray[np.int64],
) -> EqualGroups | None:
    """The model on one row of each answer; `None` where that cannot be known, or is not worth it.

    Its elements are those that differ; `kind` says which of them every element of the whole model is like.
    Where only their priors differ all its rows read the first.

    Args:
        graph: The model graph, without discrete parameters.
        shapes: Shape of every node.
        constants: Value of every node that depends on no parameter.
        response: Observed values `[rows]`.
        latent: Node of the latent whose elements the rows read.
        moved: Nodes whose values depend on it.
        element: The element that each row reads, negative for none `[rows]`.
    """
    found = readings_of(graph, shapes, constants, len(response), latent, moved, element)
    if found is None:
        return None
    axes, along, held, rows, own = found
    groups, count = shapes[latent][0], len(response)
    if along[latent].kind is Kind.ROWS:
        return None  # an element for each row: nothing is common to several of its rows
    places = [i for i, need in along.items() if need.kind is Kind.PLACES]
    if any(i not in held for i in places):
        return None
    # what is read with its place along rows is read at the element's, as a matrix of both is not
    if any(not np.array_equal(held[i].reshape(-1), element) for i in places):
        return None
    kinds = different(own) if own else (np.zeros(1, dtype=np.int64), np.zeros(groups, dtype=np.int64))
    if kinds is None:
        return None
    first_group, kind = kinds
    place = kind
    if _is_prior_alone(graph, along, latent, moved):
        place = np.zeros_like(kind)
    else:
        rows.append(kind[element][:, None])
    answers = different([response[:, None], *rows])
    if answers is None or len(answers[0]) * len(first_group) > WORTH * count:
        return None
    first_row, answer = answers
    kept = {Kind.ROWS: first_row, Kind.PLACES: first_row, Kind.ELEMENTS: first_group}
    smaller, named = in_part(graph, constants, axes, kept, place)
    return EqualGroups(
        smaller,
        named,
        along,
        response[first_row],
        torch.from_numpy(first_row),
        torch.from_numpy(first_group),
        torch.from_numpy(np.bincount(answer).astype(np.float64)),
        torch.from_numpy(answer),
        torch.from_numpy(kind),
    )


def _is_prior_alone(
    graph: ModelGraph, along: Mapping[int, Along], latent: int, moved: frozenset[int]
) -> bool:
    """Whether elements differ in nothing but their priors: what is done with them is the same for all."""

    def by_element(index: int) -> bool:
        return index in along and along[index].kind is Kind.ELEMENTS

    return not any(
        by_element(index) and any(by_element(i) and i not in moved for i in graph.nodes[index].inputs)
        for index in moved - {latent}
    )

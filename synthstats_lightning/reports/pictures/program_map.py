"""A map of what the search tried: structures, placed so that similar ones lie near each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.programs.edit_distance import normalised_edit_distance
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.structure_tree import structure_tree

MAX_STRUCTURES = 60
"""Structures on the map; the work grows with their square."""


@dataclass(frozen=True)
class ProgramMap:
    """Places of models in the plane.

    Attributes:
        x: First coordinate of each model.
        y: Second coordinate of each model.
        kept: Share of the squared distances that the plane keeps.
    """

    x: Float[np.ndarray, " models"]
    y: Float[np.ndarray, " models"]
    kept: float


def map_programs(graphs: Sequence[ModelGraph], deadline: float | None = None) -> ProgramMap:
    """Classical multidimensional scaling of the normalised edit distances of the models' structures.

    Args:
        graphs: Models, the most important first; those beyond `MAX_STRUCTURES` are left out.
        deadline: On the clock of `time.monotonic`: models whose distances are not there by then are left out;
            `None` waits for all.

    Returns:
        The places of as many of the first models as there was time for.
    """
    trees = [structure_tree(graph) for graph in graphs[:MAX_STRUCTURES]]
    distances = np.zeros((len(trees), len(trees)))
    number = len(trees)
    for row, tree in enumerate(trees):
        if deadline is not None and time.monotonic() > deadline:
            number = row
            break
        for column in range(row):
            distances[row, column] = distances[column, row] = normalised_edit_distance(tree, trees[column])
    return place(distances[:number, :number])


def place(distances: Float[np.ndarray, "models models"]) -> ProgramMap:
    """The plane that keeps most of some distances (Torgerson 1952).

    Args:
        distances: Symmetric, zero on the diagonal.
    """
    number = len(distances)
    if number < 2:
        return ProgramMap(np.zeros(number), np.zeros(number), 1.0)
    centring = np.eye(number) - 1 / number
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    # eigenvectors have no sign of their own: the largest coordinate is positive
    signs = np.sign(vectors[np.abs(vectors).argmax(0), np.arange(number)])
    places = vectors * signs * np.sqrt(values)
    total = float(values.sum())
    kept = float(values[:2].sum()) / total if total > 0 else 1.0
    return ProgramMap(places[:, 0], places[:, 1], kept)

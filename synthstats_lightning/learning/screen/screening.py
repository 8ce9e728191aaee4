"""What a data set says of programs' structure: the ratio of two perceptrons' probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from synthstats_lightning.learning.screen.features import (
    Features,
    column_features,
    digest_features,
    request_features,
    scan_features,
)
from synthstats_lightning.learning.screen.perceptrons import Perceptron, load_perceptrons
from synthstats_lightning.programs.forms.outline import PARTS, Outline, outline
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest.digest import Digest, task_digest
from synthstats_lightning.tasks.task import Task

DEFENSIVE = 0.1
"""Share of a program's blind probability that it keeps at least, so that weights are bounded."""
QUESTIONS = ("family", "spread", "part")
"""What is asked of a program: distribution and spread of the response, and each column's part."""


class Inputs(NamedTuple):
    """Features of a data set.

    Attributes:
        request: What is known without the response, for the questions on the response.
        digest: The same and what the response says.
        columns: For each covariate both of these, for the question on its part.
    """

    request: Features
    digest: Features
    columns: dict[str, tuple[Features, Features]]


def inputs(columns: Sequence[Column], response: Column, rows: int, digest: Digest) -> Inputs:
    """Features of a data set.

    Args:
        columns: The covariates as the prompt describes them.
        response: The response as the prompt describes it.
        rows: Rows that the request names.
        digest: Of the rows that count, with all its sections.
    """
    request = request_features(columns, response, rows)
    seen = np.concatenate([request, digest_features(digest, response)])
    parts = {}
    for column in columns:
        own = column_features(column)
        blind = np.concatenate([request, own])
        parts[column.name] = blind, np.concatenate([seen, own, scan_features(column.name, digest)])
    return Inputs(request, seen, parts)


def answers(found: Outline, columns: Iterable[str]) -> dict[str, str]:
    """A program's classes: of the questions on the response, and by name of each covariate.

    Args:
        found: The program's outline.
        columns: Names of the covariates.
    """
    classes = {"family": found.family, "spread": "varying" if found.spread else "constant"}
    return classes | {f"part {name}": found.parts.get(name, PARTS[0]) for name in columns}


class Screen:
    """Log ratios of programs of one task: how much more probable the data make their structure.

    Args:
        task: Whose rows that count are looked at, and nothing else of its response.
        perceptrons: By name, `QUESTION` for the one that sees a digest and `QUESTION_blind`; the shipped ones
            by default.

    Raises:
        ValueError: If no row of the task counts.
    """

    def __init__(self, task: Task, perceptrons: Mapping[str, Perceptron] | None = None) -> None:
        networks = shipped() if perceptrons is None else perceptrons
        digest = task_digest(task)
        columns = [column for name, column in task.columns.items() if name != task.response]
        found = inputs(columns, task.columns[task.response], task.num_rows, digest)
        self.columns = tuple(found.columns)
        self._ratios = {
            "family": _ratios(networks, "family", found.request, found.digest),
            "spread": _ratios(networks, "spread", found.request, found.digest),
            **{f"part {name}": _ratios(networks, "part", *both) for name, both in found.columns.items()},
        }

    def log_ratios(self, sources: Sequence[str]) -> Float[np.ndarray, " programs"]:
        """By how much to prefer each program, in nats; never below the log of `DEFENSIVE`.

        Args:
            sources: Source texts of programs of any policy.
        """
        values = []
        for source in sources:
            classes = answers(outline(source, self.columns), self.columns)
            # of a class that no perceptron knows the data say nothing
            values.append(sum(self._ratios[key].get(value, 0.0) for key, value in classes.items()))
        preferred = np.array(values, dtype=np.float64)
        bounded: Float[np.ndarray, " programs"] = np.logaddexp(
            math.log(DEFENSIVE), math.log1p(-DEFENSIVE) + preferred
        )
        return bounded


@lru_cache(maxsize=1)
def shipped() -> dict[str, Perceptron]:
    """The shipped perceptrons, read once."""
    return load_perceptrons()


def _ratios(
    networks: Mapping[str, Perceptron], question: str, request: Features, digest: Features
) -> dict[str, float]:
    blind = networks[f"{question}_blind"].log_probs(request)
    return {name: value - blind[name] for name, value in networks[question].log_probs(digest).items()}

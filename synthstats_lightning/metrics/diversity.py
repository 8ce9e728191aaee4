"""How many structures a policy writes, and how evenly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

_DIGITS = 15
"""Hexadecimal digits of a hash that fit into 63 bits."""


def effective_number(counts: Real[np.ndarray, " kinds"]) -> float:
    """How many equally common kinds would be as diverse: the exponential of the entropy of shares.

    Args:
        counts: How often each kind was seen, or its weight; 0 is the effective number of none.
    """
    seen = counts[counts > 0]
    if not len(seen):
        return 0.0
    # in order of size: the same number whatever the kinds are called
    share = np.sort(seen) / seen.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


class DiversityValues(NamedTuple):
    """Of the programs of all tasks together.

    Attributes:
        valid_rate: Share of programs with a structure; NaN of no program.
        structures: Distinct structures (a structure of two tasks counts twice).
        effective_structures: The `effective_number` of structures; 0 if there is none.
        top_mass: Share of all programs, failed ones included, that the commonest structures have.
    """

    valid_rate: Float[Tensor, ""]
    structures: Float[Tensor, ""]
    effective_structures: Float[Tensor, ""]
    top_mass: Float[Tensor, ""]


class StructureDiversity(Metric):
    """Counts structures of sampled programs.

    Counts of different processes are of the same structures, so what is gathered are the structures' codes
    and not the counts: 8 bytes a program.

    Args:
        top: Structures whose mass is reported, at least 1.

    Raises:
        ValueError: If `top` is less than 1.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True

    def __init__(self, top: int = 1) -> None:
        if top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        super().__init__()
        self.top = top
        self.add_state("codes", [], dist_reduce_fx="cat")
        self.add_state("count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.codes: list[Tensor]
        self.count: Tensor

    def update(self, structures: Sequence[str | None], task_index: Sequence[int]) -> None:
        """Takes in the structure hash of each program, `None` or empty of a failed one, and its task."""
        codes = [
            (int(name[:_DIGITS], 16) * 31 + task) % 2**62
            for name, task in zip(structures, task_index, strict=True)
            if name
        ]
        self.codes.append(torch.tensor(codes, dtype=torch.int64, device=self.device))
        self.count += len(structures)

    def compute(self) -> DiversityValues:
        """Shares and numbers over everything seen."""
        codes: Int[Tensor, " valid"] = dim_zero_cat(self.codes) if len(self.codes) else torch.zeros(0)
        counts = torch.unique(codes, return_counts=True)[1]
        top = counts.sort(descending=True).values[: self.top].sum()
        return DiversityValues(
            counts.sum() / self.count,
            torch.tensor(float(len(counts))),
            torch.tensor(effective_number(counts.cpu().numpy())),
            top / self.count,
        )

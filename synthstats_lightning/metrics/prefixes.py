"""Whether a policy begins all its programs in the same way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

_MULTIPLIER = 6364136223846793005
"""Of a multiplicative hash modulo 2⁶⁴ (Knuth's MMIX)."""


def prefix_codes(
    program_ids: Int[Tensor, "batch time"], program_mask: Bool[Tensor, "batch time"], length: int
) -> Int[Tensor, " batch"]:
    """A number for the first tokens of each program, equal for equal prefixes.

    Args:
        program_ids: Token ids of the programs, right-padded.
        program_mask: True on program tokens.
        length: Tokens that count; a shorter program counts as a whole.
    """
    code = torch.zeros(len(program_ids), dtype=torch.int64, device=program_ids.device)
    for position in range(min(length, program_ids.shape[1])):
        token = torch.where(program_mask[:, position], program_ids[:, position].long() + 1, 0)
        code = (code ^ token) * _MULTIPLIER
        code = code ^ (code >> 29)
    return code


class PrefixCollapse(Metric):
    """Probability that two programs of a task, drawn at random, begin with the same tokens, by prefix length.

    Σ n (n − 1) / N (N − 1) over the distinct prefixes, which has no bias whatever the number of programs
    (Simpson 1949); 1 if all programs begin alike. Averaged over tasks.

    Args:
        lengths: Tokens of a prefix, in rising order, each at least 1.

    Raises:
        ValueError: If there is no length, or one is less than 1.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False

    def __init__(self, lengths: Sequence[int] = (8, 32, 64)) -> None:
        if not lengths or min(lengths) < 1:
            raise ValueError(f"lengths must be numbers of at least 1, got {list(lengths)}")
        super().__init__()
        self.lengths = tuple(lengths)
        self.add_state("codes", [], dist_reduce_fx="cat")
        self.codes: list[Tensor]

    def update(
        self,
        program_ids: Int[Tensor, "batch time"],
        program_mask: Bool[Tensor, "batch time"],
        task_index: Int[Tensor, " batch"],
    ) -> None:
        """Takes in programs, right-padded, with the task of each."""
        codes = [prefix_codes(program_ids, program_mask, length) for length in self.lengths]
        self.codes.append(torch.stack([task_index.long(), *codes], 1))

    def compute(self) -> Float[Tensor, " lengths"]:
        """Probability for each length, without an axis if there is one; NaN if no task has two programs."""
        rows = dim_zero_cat(self.codes) if len(self.codes) else torch.zeros(0, 1 + len(self.lengths))
        shares = []
        for task in torch.unique(rows[:, 0]).tolist():
            own = rows[rows[:, 0] == task, 1:]
            if len(own) > 1:
                counts = [torch.unique(column, return_counts=True)[1].double() for column in own.T]
                pairs = torch.stack([(n * (n - 1)).sum() for n in counts])
                shares.append(pairs / (len(own) * (len(own) - 1)))
        if not shares:
            return torch.full((len(self.lengths),), torch.nan, dtype=torch.float64)
        return torch.stack(shares).mean(0)

"""The plan head: family, form, features and columns of a program, foretold where its prompt ends.

It gives the digest a direct gradient long before the decoder can use it, and is left out of what is saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from synthstats_lightning.policy.pointers.table import PointerTable
from synthstats_lightning.policy.pointers.vocabulary import SOURCES
from synthstats_lightning.pretraining.writer.examples import Plan

OTHER = "other"


@dataclass(frozen=True)
class PlanTargets:
    """Plans as numbers.

    Attributes:
        form: Class of the mean.
        family: Class of the response's distribution.
        features: Which features there are.
        columns: Which pointers the program uses.
        present: Which pointers the request has.
    """

    form: Int[Tensor, " segments"]
    family: Int[Tensor, " segments"]
    features: Bool[Tensor, "segments features"]
    columns: Bool[Tensor, "segments sources"]
    present: Bool[Tensor, "segments sources"]


@dataclass(frozen=True)
class PlanClasses:
    """Names of the classes; what is none of them is the first, `OTHER`.

    Attributes:
        forms: Classes of means.
        families: Classes of the response's distribution.
        features: Features; the first is never there.
    """

    forms: tuple[str, ...]
    families: tuple[str, ...]
    features: tuple[str, ...]

    @classmethod
    def of(cls, plans: Iterable[Plan], fewest: int = 3) -> PlanClasses:
        """Classes that some plans have.

        Args:
            plans: Plans of programs of the grammar.
            fewest: Programs below which a class is left to `OTHER`.
        """
        counts: tuple[Counter[str], Counter[str], Counter[str]] = Counter(), Counter(), Counter()
        for plan in plans:
            counts[0][plan.form] += 1
            counts[1][plan.family] += 1
            counts[2].update(plan.features)
        kept = [sorted(name for name, number in each.items() if number >= fewest) for each in counts]
        return cls((OTHER, *kept[0]), (OTHER, *kept[1]), (OTHER, *kept[2]))

    def targets(self, plans: Sequence[tuple[Plan, PointerTable]]) -> PlanTargets:
        """Plans as numbers.

        Args:
            plans: Plans of programs, with the pointers of their requests.
        """
        columns = [
            [table.names[name] for name in plan.columns if name in table.names] for plan, table in plans
        ]
        return PlanTargets(
            torch.tensor([_place(self.forms, plan.form) for plan, _ in plans]),
            torch.tensor([_place(self.families, plan.family) for plan, _ in plans]),
            torch.tensor([[name in plan.features for name in self.features] for plan, _ in plans]).bool(),
            torch.tensor([[pointer in used for pointer in SOURCES] for used in columns]),
            torch.tensor([[pointer in table.names.values() for pointer in SOURCES] for _, table in plans]),
        )


def _place(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else 0


class PlanHead(nn.Module):
    """Linear layers from the last hidden state of a prompt.

    Args:
        classes: What is foretold.
        hidden: Width of the hidden states.
    """

    def __init__(self, classes: PlanClasses, hidden: int) -> None:
        super().__init__()
        self.form = nn.Linear(hidden, len(classes.forms))
        self.family = nn.Linear(hidden, len(classes.families))
        self.features = nn.Linear(hidden, len(classes.features))
        self.columns = nn.Linear(hidden, len(SOURCES))

    def forward(self, states: Float[Tensor, "segments hidden"], plans: PlanTargets) -> PlanLoss:
        """Cross-entropies of each segment's plan.

        Args:
            states: Last hidden states of the segments' program tokens.
            plans: What is so.
        """
        states = states.float()
        used = functional.binary_cross_entropy_with_logits(
            self.columns(states), plans.columns.float(), reduction="none"
        )
        features = functional.binary_cross_entropy_with_logits(
            self.features(states), plans.features.float(), reduction="none"
        )
        return PlanLoss(
            functional.cross_entropy(self.form(states), plans.form, reduction="none"),
            functional.cross_entropy(self.family(states), plans.family, reduction="none"),
            features.sum(1) + (used * plans.present).sum(1),
        )


@dataclass(frozen=True)
class PlanLoss:
    """Cross-entropies in nats.

    Attributes:
        form: Cross-entropy of the mean's class.
        family: Cross-entropy of the class of the response's distribution.
        rest: Cross-entropy of features and columns together.
    """

    form: Float[Tensor, " segments"]
    family: Float[Tensor, " segments"]
    rest: Float[Tensor, " segments"]

    def total(self) -> Float[Tensor, ""]:
        """Mean over the segments of all of it."""
        return (self.form + self.family + self.rest).mean()

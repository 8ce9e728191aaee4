"""Whom a self-driving car should save: choices between two groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray, Latents, Rows, column
from synthstats_lightning.tasks.simulators.base import Variant
from synthstats_lightning.tasks.simulators.binary import BinarySimulator
from synthstats_lightning.tasks.simulators.design import Design, DesignField
from synthstats_lightning.tasks.simulators.goal import Goal, parameter_goal


@dataclass(frozen=True)
class Traits:
    """How a character counts.

    Attributes:
        count: 1 for a human, 0 for a pet.
        gender: -1 for a woman or girl, else 0.
        age: 1 for a child, else 0.
        status: 1 for a doctor or executive, 1.5 for a pregnant woman, else 0.
        fitness: 1 for an athlete, -1 for a large person, else 0.
        species: 1 for a human, -1 for a pet.
    """

    count: float = 1.0
    gender: float = 0.0
    age: float = 0.0
    status: float = 0.0
    fitness: float = 0.0
    species: float = 1.0


CHARACTERS: dict[str, Traits] = {
    "stroller": Traits(),
    "boy": Traits(age=1.0),
    "girl": Traits(gender=-1.0, age=1.0),
    "pregnant_woman": Traits(gender=-1.0, status=1.5),
    "male_doctor": Traits(status=1.0),
    "female_doctor": Traits(gender=-1.0, status=1.0),
    "female_athlete": Traits(gender=-1.0, fitness=1.0),
    "male_athlete": Traits(fitness=1.0),
    "female_executive": Traits(gender=-1.0, status=1.0),
    "male_executive": Traits(status=1.0),
    "large_woman": Traits(gender=-1.0, fitness=-1.0),
    "large_man": Traits(fitness=-1.0),
    "homeless": Traits(),
    "old_man": Traits(),
    "old_woman": Traits(gender=-1.0),
    "criminal": Traits(),
    "dog": Traits(count=0.0, species=-1.0),
    "cat": Traits(count=0.0, species=-1.0),
}
"""BoxingGym's characters."""

INTERVENTIONS = {"swerve": 1.0, "stay": -1.0}

PRIORS = {
    "intercept": (0.0, 0.3),
    "group": (0.4, 0.1),
    "count": (0.7, 0.1),
    "gender": (-0.3, 0.1),
    "age": (0.1, 0.1),
    "status": (0.1, 0.1),
    "fitness": (0.4, 0.1),
    "species": (0.6, 0.1),
    "intervention": (-0.3, 0.1),
}
"""Mean and standard deviation of each coefficient."""

FEATURES = tuple(field.name for field in fields(Traits))
MAX_GROUP = 5
_TRAITS = np.array([astuple(traits) for traits in CHARACTERS.values()])
_NUMBER = {name: number for number, name in enumerate(CHARACTERS)}


class MoralMachinesSimulator(BinarySimulator):
    """Which of two groups a participant of the Moral Machine experiment (Awad et al., 2018) saves.

    Latents: nine normal coefficients, `PRIORS`. Group 1 is saved (`choice` 1, else 0) with probability
    `logistic(eta)`, `eta = intercept + group + sum_f coefficient_f * f_difference + coefficient *
    intervention`, where a difference is group 1's sum of a trait less group 2's, and `intervention` is 1
    where the car must swerve and -1 where it stays. A design is two lists of characters and `swerve` or
    `stay`; random ones and evaluation points have one to four characters a group.

    An observation is these seven numbers and the choice. (BoxingGym has a language model tell the choice, and
    hands programs features that do not encode its own model: counts and ages always 0, women by the substring
    "man", species reversed. Neither variant repeats that.) `boxing_gym`: evaluation points hold as many
    choices of group 1 as of group 2. `corrected`: points as they come; see `BinarySimulator`.

    Args:
        variant: Which definition holds: `"corrected"` or `"boxing_gym"`.
        balanced: Whether evaluation points hold as many ones as zeros; by default as the variant says.
    """

    name: ClassVar[str] = "moral_machines"
    description = (
        "Choices of one person which of two groups a self-driving car saves (1: group 1, 0: group 2);"
        " differences are group 1 less group 2, intervention is 1 to swerve and -1 to stay."
    )
    plain_description = "A binary response that depends on seven numbers."
    question: ClassVar[str] = "Which of two groups does the participant save?"
    columns = (*(f"{trait}_difference" for trait in FEATURES), "intervention", "choice")

    def __init__(self, variant: Variant = "corrected", balanced: bool | None = None) -> None:
        super().__init__(variant, balanced)
        self.units = {}
        names = tuple(CHARACTERS)
        self.fields = (
            DesignField("group_1", "category", categories=names, length=(1, MAX_GROUP)),
            DesignField("group_2", "category", categories=names, length=(1, MAX_GROUP)),
            DesignField("intervention", "category", categories=tuple(INTERVENTIONS)),
        )

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, Array]:
        """See `Simulator.sample_latents`."""
        return {name: rng.normal(mean, sd, size) for name, (mean, sd) in PRIORS.items()}

    def covariates(self, design: Design) -> dict[str, Array]:
        """See `Simulator.covariates`."""
        difference = group_traits(design["group_1"]) - group_traits(design["group_2"])
        return _rows(difference[None], np.array([INTERVENTIONS[design["intervention"]]]))

    def log_odds(self, latents: Latents, covariates: Rows) -> FloatArray:
        """Log odds of saving group 1, `[size, rows]`."""
        total = column(latents["intercept"]) + column(latents["group"])
        for trait in FEATURES:
            total = total + column(latents[trait]) * covariates[f"{trait}_difference"]
        return np.asarray(total + column(latents["intervention"]) * covariates["intervention"])

    def probability(self, latents: Latents, covariates: Rows) -> FloatArray:
        """See `BinarySimulator.probability`."""
        return np.asarray(expit(self.log_odds(latents, covariates)))

    def log_likelihood(self, latents: Latents, covariates: Rows, response: Array) -> FloatArray:
        """See `Simulator.log_likelihood`."""
        log_odds = self.log_odds(latents, covariates)
        return np.asarray(log_expit(np.where(np.asarray(response) == 1, log_odds, -log_odds)))

    def random_design(self, rng: np.random.Generator) -> Design:
        """One to four random characters a group, with replacement."""
        names = list(CHARACTERS)
        groups = [rng.integers(0, len(names), rng.integers(1, 5)).tolist() for _ in range(2)]
        first, second = (tuple(names[number] for number in group) for group in groups)
        return {"group_1": first, "group_2": second, "intervention": list(INTERVENTIONS)[rng.integers(2)]}

    def grid(self, n: int) -> list[Design]:
        """`n` random designs, always the same: groups of characters have no order to step through."""
        if n < 1:
            raise ValueError(f"a grid needs at least one design, got {n}")
        rng = np.random.default_rng(0)
        return [self.random_design(rng) for _ in range(n)]

    def evaluation_covariates(self, n: int, rng: np.random.Generator) -> dict[str, Array]:
        """See `BinarySimulator.evaluation_covariates`."""
        difference = _random_groups(n, rng) - _random_groups(n, rng)
        return _rows(difference, rng.choice(np.array(list(INTERVENTIONS.values())), n))

    def parameter_goals(self) -> list[Goal]:
        """How much numbers and species count."""
        return [_effect_goal("count", 1), _effect_goal("species", 6)]


def _effect_goal(trait: str, number: int) -> Goal:
    return parameter_goal(
        f"{trait}_effect",
        f"{trait}_effect",
        f"By how much do the log odds of saving group 1 change per unit of {trait}_difference?",
        f"By how much do the log odds of response 1 change per unit of input {number}?",
        lambda latents: np.asarray(latents[trait]),
    )


def group_traits(group: Sequence[str]) -> FloatArray:
    """Sum of each trait over the characters of a group, in the order of `Traits`."""
    return np.asarray(_TRAITS[[_NUMBER[name] for name in group]].sum(axis=0))


def _random_groups(n: int, rng: np.random.Generator) -> FloatArray:
    present = np.arange(4) < rng.integers(1, 5, n)[:, None]
    members = _TRAITS[rng.integers(0, len(_TRAITS), (n, 4))]
    return np.asarray((members * present[..., None]).sum(axis=1))


def _rows(difference: FloatArray, intervention: FloatArray) -> dict[str, Array]:
    rows: dict[str, Array] = {f"{trait}_difference": difference[:, i] for i, trait in enumerate(FEATURES)}
    for trait in FEATURES:
        if trait != "status":
            rows[f"{trait}_difference"] = rows[f"{trait}_difference"].astype(np.int64)
    return {**rows, "intervention": intervention.astype(np.int64)}

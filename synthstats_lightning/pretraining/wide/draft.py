"""A program while the grammar writes it: statements, names of parameters, priors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from synthstats_lightning.pretraining.draft import Axis, Range, centred_axis, coarse_span, raw_axis
from synthstats_lightning.pretraining.numbers import coarse, jittered, location, text
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.weights import Weights
from synthstats_lightning.tasks.columns import Column

STEMS = (
    *("a", "b", "c", "d", "e", "f", "g", "h", "k", "m", "p", "q", "r", "s", "t", "u", "v", "w", "z"),
    *("mu", "nu", "tau", "eta", "phi", "psi", "ell", "cuts", "theta", "walk", "season", "smooth"),
)
"""What names of parameters are made of: one of these, from the second on with a number behind."""
HEADER = "with pm.Model() as model:"
JITTER = 0.4
"""Standard deviation of the logarithm of a prior's scale around what the ranges say."""


@dataclass
class Draft:
    """Statements written so far, and what is left to be decided.

    Attributes:
        rng: Source of all randomness.
        request: What the program may depend on.
        weights: How often each choice is made.
        target: Where the location is expected to lie, on the scale of its link.
        link: `"identity"`, `"log"` or `"logit"`.
        intercept: Whether the location has a level of its own; that of ordered categories has none.
        statements: Source lines without indentation.
        features: Features of the program beside those that its family and form have.
    """

    rng: Random
    request: Request
    weights: Weights
    target: Range
    link: str = "identity"
    intercept: bool = True
    statements: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._used: dict[str, int] = {}

    @property
    def source(self) -> str:
        """The program so far."""
        return "\n    ".join((HEADER, *self.statements))

    def name(self, stem: str) -> str:
        """A name that nothing else has: the stem, then the stem with 2, 3 and so on; `_` behind a column's.

        Args:
            stem: One of `STEMS`.
        """
        number = self._used[stem] = self._used.get(stem, 0) + 1
        name = f"{stem}{number if number > 1 else ''}"
        while name in self.request.names:
            name += "_"
        return name

    def state(self, stem: str, law: str) -> str:
        """States a random variable and returns its name.

        Args:
            stem: What its name is made of.
            law: Distribution with its parameters: `"Normal(0, 1)"`.
        """
        name = self.name(stem)
        family, _, arguments = law.partition("(")
        self.statements.append(f'{name} = pm.{family}("{name}", {arguments}')
        return name

    def define(self, stem: str, expression: str) -> str:
        """States what is computed and returns its name; a name alone is returned as it is.

        Args:
            stem: What its name is made of.
            expression: Source of the value.
        """
        if expression.isidentifier():
            return expression
        name = self.name(stem)
        self.statements.append(f"{name} = {expression}")
        return name

    def real(self, stem: str, centre: float, scale: float) -> str:
        """States a parameter of either sign and returns its name.

        Args:
            stem: What its name is made of.
            centre: Centre of its prior, already coarse.
            scale: Typical distance from the centre; the prior's constant is drawn around it.
        """
        family = choice(self.rng, self.weights.real_priors)
        width = jittered(self.rng, scale, JITTER)
        if family == "Uniform":
            width = coarse(2.0 * width)
            return self.state(stem, f"Uniform({text(centre - width)}, {text(centre + width)})")
        if family == "StudentT":
            return self.state(stem, f"StudentT(3, {text(centre)}, sigma={text(width)})")
        return self.state(stem, f"{family}({text(centre)}, {text(width)})")

    def positive(self, stem: str, typical: float, spread: float = JITTER) -> str:
        """States a positive parameter and returns its name.

        Args:
            stem: What its name is made of.
            typical: Its typical value.
            spread: Standard deviation of the logarithm of the prior's constant.
        """
        family = choice(self.rng, self.weights.positive_priors)
        scale = jittered(self.rng, typical, spread)
        if family == "Exponential":
            return self.state(stem, f"Exponential({text(coarse(1.0 / scale))})")
        if family == "LogNormal":
            return self.state(stem, f"LogNormal({text(round(math.log(scale), 1))}, 0.5)")
        if family == "Gamma":
            return self.state(stem, f"Gamma(2, {text(coarse(2.0 / scale))})")
        return self.state(stem, f"{family}({text(scale)})")

    def unit(self, stem: str = "p") -> str:
        """States a parameter between zero and one and returns its name."""
        first, second = self.rng.choice(((1, 1), (2, 2), (2, 5), (5, 2)))
        return self.state(stem, f"Beta({first}, {second})")

    def level(self) -> str:
        """States a value of the location; returns nothing where it has no level of its own."""
        if not self.intercept:
            return ""
        place = location(self.rng, self.target.low, self.target.high)
        return self.real("a", place, 0.5 * self.target.span)

    def change(self, per: float = 1.0, terms: int = 1, stem: str = "b") -> str:
        """States a slope of either sign: the location's span over `per` units, shared by some terms.

        Args:
            per: Units over which it changes so much.
            terms: How many terms of the location do so.
            stem: What its name is made of.
        """
        return self.real(stem, 0.0, 0.6 * self.target.span / (per * math.sqrt(terms)))

    def rise(self) -> str:
        """States a positive amplitude, about the location's span."""
        return self.positive("r", 0.7 * self.target.span)

    def pooled(self, stem: str, size: str, scale: float) -> str:
        """States effects that share a distribution around zero, and returns their name.

        Args:
            stem: What their name is made of.
            size: Source of how many there are.
            scale: Typical size of the effects.
        """
        spread = self.positive("tau", scale)
        return self.state(stem, f"Normal(0, {spread}, shape={size})")

    def axis(self, column: Column, centred: bool = True, always: bool = False) -> Axis:
        """A covariate as a term uses it: raw, or standardised where it lies far from zero or by chance.

        Args:
            column: The covariate that the term is of.
            centred: Whether the term may be that of the standardised covariate.
            always: Whether it has to be.
        """
        raw = raw_axis(column)
        chance = self.rng.random() < self.weights.standardised
        if not centred or not (always or raw.remote or chance):
            return raw
        view = next((name for name, made in self.request.views.items() if made.column == column.name), None)
        if view is not None:
            return Axis(view, -1.7, 1.7)
        made = centred_axis(self.rng, column, scaled=True)
        return Axis(made.expression, made.low, made.high)


def plus(*terms: str) -> str:
    """A sum, without the terms that are empty; 0 if all are.

    Args:
        terms: Sources of the terms.
    """
    return " + ".join(term for term in terms if term) or "0"


def choice(rng: Random, weights: Mapping[str, float]) -> str:
    """One of the names of a table of weights.

    Args:
        rng: Source of all randomness.
        weights: Name to weight.
    """
    names = list(weights)
    return rng.choices(names, [weights[name] for name in names])[0]


__all__ = ["HEADER", "STEMS", "Axis", "Draft", "Range", "choice", "coarse_span", "plus"]

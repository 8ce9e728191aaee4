"""How often the grammar makes each choice: the prior over forms of the programs that a policy learns from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Table = Mapping[str, float]


@dataclass(frozen=True)
class Weights:
    """Weights of choices; those of one table need not sum to anything.

    A program is drawn so: with probability `simple` its family is one of the plain ones, its form one of
    `simple_forms`, and it has no feature. Otherwise its family is any of those that the response's kind has,
    its form is one of `forms`, and each feature of `features` that is possible enters with its
    probability, at most two. What a request does not allow is left out, and the others take its share.

    Attributes:
        simple: Probability of a simple program.
        layouts: How often a made-up request is of each layout, see `requests`.
        responses: How often a made-up response is of each kind, where its layout does not say.
        simple_forms: Locations of simple programs.
        forms: Locations of other programs.
        curves: Shapes of one covariate's curve.
        real: Families of a real response.
        positive: Families of a positive response besides those of `real`, by the logarithm of its location.
        semicontinuous: Families of a response that is zero or positive, besides.
        proportion: Families of a response between zero and one, besides.
        count: Families of a count.
        total: Families of a count out of a total.
        binary: Families of zeros and ones.
        ordinal: Families of ordered categories.
        rich: Families that no simple program has.
        other_families: Weight of each distribution of the engine's table that has a location and a scale and
            stands in no table here.
        features: Probabilities of what a program that is not simple may have besides.
        real_priors: Families of priors of parameters of either sign.
        positive_priors: Families of priors of positive parameters.
        standardised: Share of terms that are those of the standardised covariate where both may be.
        guessed_role: Probability that a program takes a column without a role for one of standard errors, or
            for the exposure, where it may be.
    """

    simple: float = 0.5
    layouts: Table = field(
        default_factory=lambda: {
            "regression": 40.0,
            "grouped": 14.0,
            "crossed": 5.0,
            "series": 10.0,
            "rates": 6.0,
            "totals": 6.0,
            "errors": 3.0,
            "events": 5.0,
            "persons_and_items": 3.0,
            "pairs": 2.0,
            "options": 2.0,
            "places": 2.0,
            "species": 2.0,
        }
    )
    responses: Table = field(
        default_factory=lambda: {
            "continuous": 60.0,
            "count": 14.0,
            "binary": 12.0,
            "ordinal": 6.0,
            "proportion": 4.0,
            "semicontinuous": 4.0,
        }
    )
    simple_forms: Table = field(
        default_factory=lambda: {
            "constant": 8.0,
            "linear": 30.0,
            "curve": 34.0,
            "additive": 24.0,
            "categories": 10.0,
        }
    )
    forms: Table = field(
        default_factory=lambda: {
            "constant": 6.0,
            "linear": 6.0,
            "curve": 8.0,
            "additive": 10.0,
            "selection": 10.0,
            "shrinkage": 10.0,
            "interaction": 7.0,
            "polynomial": 4.0,
            "spline": 5.0,
            "smooth": 4.0,
            "wave": 3.0,
            "change_point": 3.0,
            "categories": 9.0,
            "pooled": 24.0,
            "varying_slopes": 14.0,
            "crossed": 14.0,
            "nested": 15.0,
            "item_response": 30.0,
            "comparison": 60.0,
            "random_walk": 10.0,
            "autoregression": 8.0,
            "season": 7.0,
            "growth": 5.0,
            "discounting": 25.0,
            "sources": 60.0,
            "two_species": 30.0,
        }
    )
    curves: Table = field(
        default_factory=lambda: {
            "quadratic": 10.0,
            "logarithmic": 18.0,
            "shifted_logarithmic": 6.0,
            "square_root": 10.0,
            "reciprocal": 7.0,
            "power": 8.0,
            "exponential": 5.0,
            "saturation": 14.0,
            "michaelis_menten": 9.0,
            "logistic": 8.0,
            "hyperbolic_tangent": 3.0,
            "broken_stick": 8.0,
            "step": 3.0,
        }
    )
    real: Table = field(
        default_factory=lambda: {
            "Normal": 62.0,
            "StudentT": 16.0,
            "Laplace": 5.0,
            "Logistic": 4.0,
            "Cauchy": 2.0,
            "SkewNormal": 2.0,
            "Gumbel": 2.0,
            "known_errors": 150.0,
            "two_components": 3.0,
            "outliers": 3.0,
        }
    )
    positive: Table = field(
        default_factory=lambda: {"LogNormal": 26.0, "Gamma": 16.0, "Weibull": 8.0, "Exponential": 2.0}
    )
    semicontinuous: Table = field(default_factory=lambda: {"HurdleGamma": 60.0, "HurdleLogNormal": 60.0})
    proportion: Table = field(default_factory=lambda: {"Beta": 100.0, "LogitNormal": 40.0})
    count: Table = field(
        default_factory=lambda: {
            "Poisson": 40.0,
            "NegativeBinomial": 40.0,
            "ZeroInflatedPoisson": 9.0,
            "ZeroInflatedNegativeBinomial": 6.0,
            "HurdlePoisson": 6.0,
            "HurdleNegativeBinomial": 4.0,
        }
    )
    total: Table = field(
        default_factory=lambda: {"Binomial": 65.0, "BetaBinomial": 30.0, "ZeroInflatedBinomial": 5.0}
    )
    binary: Table = field(default_factory=lambda: {"Bernoulli": 100.0})
    ordinal: Table = field(default_factory=lambda: {"OrderedLogistic": 80.0, "OrderedProbit": 20.0})
    rich: frozenset[str] = frozenset(
        {"two_components", "outliers", "ZeroInflatedPoisson", "ZeroInflatedNegativeBinomial"}
        | {"HurdlePoisson", "HurdleNegativeBinomial", "ZeroInflatedBinomial"}
    )
    other_families: float = 0.5
    features: Table = field(
        default_factory=lambda: {
            "varying_scale": 0.2,
            "group_scale": 0.1,
            "row_effects": 0.2,
            "group_effects": 0.15,
        }
    )
    real_priors: Table = field(default_factory=lambda: {"Normal": 90.0, "StudentT": 5.0, "Uniform": 5.0})
    positive_priors: Table = field(
        default_factory=lambda: {"HalfNormal": 50.0, "Exponential": 20.0, "LogNormal": 20.0, "Gamma": 10.0}
    )
    standardised: float = 0.35
    guessed_role: float = 0.05


WEIGHTS = Weights()
"""The weights that the bundled policy is trained with."""

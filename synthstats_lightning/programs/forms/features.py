"""What kind of model a form is."""

from __future__ import annotations

from collections.abc import Iterator

from synthstats_lightning.programs.forms import algebra
from synthstats_lightning.programs.forms.algebra import Atom, Expression
from synthstats_lightning.programs.forms.described import Described
from synthstats_lightning.programs.forms.slots import MARK, POOLED, Sum, sum_of
from synthstats_lightning.programs.forms.writing import expressions

FEATURES = {
    "nonlinear": "the location is no straight line in a column, on the scale of its link",
    "interaction": "two columns, or a column and a group's coefficient, have a part in one term",
    "overdispersion": "counts vary more than their mean says",
    "heavy tails": "outliers are more likely than under a normal distribution",
    "hierarchy": "coefficients of groups, or of rows, share what is learned of them",
    "varying spread": "a scale differs from row to row",
    "mixture": "the response has several components, one at zero too",
    "series": "a parameter follows a random walk, an autoregression or neighbours",
    "censoring": "the response is cut off or known up to a limit",
}
"""Every feature, and what it means."""
HEAVY = frozenset(
    {"StudentT", "Cauchy", "Laplace", "AsymmetricLaplace", "HalfCauchy", "HalfStudentT", "SkewStudentT"}
    | {"MvStudentT", "Pareto"}
)
OVERDISPERSED = frozenset({"NegativeBinomial", "BetaBinomial", "DirichletMultinomial"})
COUNTS = OVERDISPERSED | {"Poisson", "Binomial", "Multinomial", "Bernoulli", "Geometric"}
SPREADS = frozenset({"sigma", "b", "s", "beta", "scale", "kappa", "alpha", "nu", "n"})
LINKS = frozenset({"exp", "sigmoid", "softplus", "erf", "erfc"})


def features_of(form: Described) -> frozenset[str]:
    """The features of a form, of `FEATURES`.

    Args:
        form: The response's distribution with its parameters.
    """
    found: set[str] = set()
    leaves = list(_leaves(form))
    names = {leaf.name for leaf in leaves} | {part.name for part in _all(form)}
    if names & HEAVY:
        found.add("heavy tails")
    if names & OVERDISPERSED:
        found.add("overdispersion")
    if names & {"Mixture", "Hurdle"}:
        found.add("mixture")
    if names & {"Truncated", "Censored"}:
        found.add("censoring")
    every = [each for expression in expressions(form) for each in algebra.atoms(expression)]
    vectors = {each.name for each in every if each.kind == "vector"}
    pooled = {_name for sums in map(sum_of, expressions(form)) for _name in _vectors(sums) if POOLED in _name}
    if pooled:
        found.add("hierarchy")
    if any(f"[{MARK}row" in name for name in pooled) and names & COUNTS:
        found.add("overdispersion")
    if any(series in name for name in vectors for series in ("RandomWalk", "AR")):
        found.add("series")
    for leaf in leaves:
        for number, (name, items) in enumerate(leaf.parameters):
            spread = name in SPREADS and number > 0
            for item in items:
                if spread and algebra.differs_by_row(item) and leaf.name not in COUNTS:
                    found.add("varying spread")
                elif not spread:
                    found |= _shape(_linear_predictor(item))
    return frozenset(found)


def covariates_of(form: Described) -> frozenset[str]:
    """The columns that a form reads, but for limits of censoring, which predict nothing.

    Args:
        form: The response's distribution with its parameters.
    """
    found: set[str] = set()
    for expression in expressions(form.components[0] if form.name == "Censored" else form):
        for each in algebra.atoms(expression):
            if each.kind == "column":
                found.add(each.name)
            elif each.kind in ("vector", "data"):
                found |= _groups(each)
    return frozenset(found)


def _linear_predictor(expression: Expression) -> Sum:
    """What is within the link, if there is one around all of it."""
    found = sum_of(expression)
    if len(found) != 1:
        return found
    (part,) = found
    plain = part.slot == algebra.number(1.0)
    links = [
        factor
        for factor, exponent in part.factors
        if exponent == 1.0 and (factor.atom.kind == "exp" or (plain and factor.atom.kind in LINKS))
    ]
    offsets = [factor for factor, _ in part.factors if factor.atom.kind in ("column", "data")]
    whole = len(links) == 1 and len(links) + len(offsets) == len(part.factors)
    return links[0].arguments[0] if whole else found


def _shape(found: Sum) -> set[str]:
    shape: set[str] = set()
    for part in found:
        columns: set[str] = set()
        for factor, exponent in part.factors:
            own = _columns(factor.atom)
            if factor.atom.kind not in ("vector", "data", "eq", "label", "select") and (
                exponent != 1.0 or (factor.atom.kind != "column" and own)
            ):
                shape.add("nonlinear")
            if len(own) > 1 and factor.atom.kind not in ("vector", "select"):
                shape.add("interaction")
            columns |= {f"[{name}" for name in own} if factor.atom.kind == "vector" else own
        if len(columns) > 1:
            shape.add("interaction")
    return shape


def _columns(found: Atom) -> set[str]:
    own = {found.name} if found.kind == "column" else _groups(found)
    for argument in found.arguments:
        for each in algebra.atoms(argument):
            own |= {each.name} if each.kind == "column" else _groups(each)
    return own


def _groups(found: Atom) -> set[str]:
    if found.kind not in ("vector", "data") or "[" not in found.name:
        return set()
    names = found.name.partition("[")[2].rstrip("]").split(", ")
    return {name for name in names if name and not name.startswith(MARK)}


def _vectors(found: Sum) -> Iterator[str]:
    for part in found:
        for factor, _ in part.factors:
            if factor.atom.kind == "vector":
                yield factor.atom.name
            for argument in factor.arguments:
                yield from _vectors(argument)


def _leaves(form: Described) -> Iterator[Described]:
    if not form.components:
        yield form
    for part in form.components:
        yield from _leaves(part)


def _all(form: Described) -> Iterator[Described]:
    yield form
    for part in form.components:
        yield from _all(part)

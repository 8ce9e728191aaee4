"""A program of the wide grammar: family, then form, then at most two features."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from synthstats_lightning.pretraining.wide.draft import Draft, Range, choice
from synthstats_lightning.pretraining.wide.features import FEATURES, add_features
from synthstats_lightning.pretraining.wide.locations import FORMS
from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.pretraining.wide.responses import FAMILIES, family_weights
from synthstats_lightning.pretraining.wide.weights import WEIGHTS, Weights

_NAME, _QUOTED = re.compile(r"[^\W\d]\w*"), re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Program:
    """A program and its classes.

    Attributes:
        source: A `with pm.Model() as model:` block: parameters, then the location, then the response.
        form: Class of its location, a name of `locations.FORMS`.
        family: Class of its response, a name of `responses.FAMILIES`.
        features: What else it has, of `programs.forms.features.FEATURES`.
        columns: Covariates that its text names, as they are or standardised, in the order of the request.
        simple: Whether it was drawn as a simple program.
    """

    source: str
    form: str
    family: str
    features: frozenset[str]
    columns: tuple[str, ...]
    simple: bool


def draw_program(rng: Random, request: Request, weights: Weights = WEIGHTS) -> Program:
    """Draws a program for a request, from the prior over forms that the weights are.

    Nothing of the data enters, and whether data that the program makes would go with the request does not
    either: programs of this function are the unfiltered grammar.

    Args:
        rng: Source of all randomness: the same state gives the same program.
        request: What the program may depend on.
        weights: How often each choice is made.
    """
    request = _with_guess(rng, request, weights.guessed_role)
    simple = rng.random() < weights.simple
    families = family_weights(request, weights)
    plain = {name: weight for name, weight in families.items() if name not in weights.rich}
    family_name = choice(rng, plain if simple else families)
    family = FAMILIES[family_name]
    draft = Draft(rng, request, weights, family.target(request), family.link, intercept=family.intercept)
    form_name = choice(rng, form_weights(draft, simple))
    form = FORMS[form_name]
    wanted = set() if simple else _some_features(draft, family.scaled, form.groups)
    draft.features |= wanted
    location = add_features(draft, form.write(draft), wanted)
    family.write(draft, draft.define("mu", location))
    if request.censoring:
        draft.features.add("censoring")
    used = set(_NAME.findall(_QUOTED.sub("", draft.source)))
    views = {view.column for name, view in request.views.items() if name in used}
    return Program(
        draft.source,
        form_name,
        family_name,
        frozenset(draft.features | {*form.features, *family.features}) - set(FEATURES),
        tuple(column.name for column in request.covariates if column.name in used | views),
        simple,
    )


def _with_guess(rng: Random, request: Request, probability: float) -> Request:
    """The request as a program takes it: now and then with a role for a column that came without one."""
    response, role = request.response, "exposure"
    candidates = [column for column in request.numeric if not column.role and column.low > 0]
    if response.kind == "continuous":
        span, role = response.high - response.low, "standard error"
        candidates = [column for column in candidates if column.kind == "continuous" and column.high <= span]
    if response.kind == "binary" or response.total is not None or request.with_role(role) is not None:
        return request
    if not candidates or rng.random() >= probability:
        return request
    chosen = rng.choice(candidates)
    columns = (replace(each, role=role) if each is chosen else each for each in request.covariates)
    return replace(request, covariates=tuple(columns))


def form_weights(draft: Draft, simple: bool) -> Mapping[str, float]:
    """Name to weight of the forms that are possible.

    Args:
        draft: A draft whose family is chosen, before anything is stated.
        simple: Whether the program is a simple one.
    """
    table = draft.weights.simple_forms if simple else draft.weights.forms
    return {name: weight for name, weight in table.items() if weight > 0 and FORMS[name].possible(draft)}


def _some_features(draft: Draft, scaled: bool, grouped: bool) -> set[str]:
    chosen = [
        name
        for name, feature in FEATURES.items()
        if feature.possible(draft, scaled, grouped) and draft.rng.random() < draft.weights.features[name]
    ]
    return set(draft.rng.sample(chosen, min(2, len(chosen)))) - (
        {"group_scale"} if "varying_scale" in chosen else set()
    )


__all__ = ["Program", "Range", "draw_program", "form_weights"]

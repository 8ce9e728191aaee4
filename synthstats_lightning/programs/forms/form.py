"""The form of a model graph."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from synthstats_lightning.programs.canonical import HASH_LENGTH, canonicalise
from synthstats_lightning.programs.forms.features import covariates_of, features_of
from synthstats_lightning.programs.forms.reading import Reader
from synthstats_lightning.programs.forms.writing import form_text
from synthstats_lightning.programs.graph import ModelGraph

MAX_TEXT = 300
"""Most characters of a form's text; longer ones end in an ellipsis, and are told apart by their whole."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a statistician calls a model: coarser than its structure.

    Attributes:
        key: Hash of the form: equal for models of one form.
        text: The form in one line.
        features: What kind of model it is, of `features.FEATURES`.
        covariates: Columns that the response's distribution reads.
    """

    key: str
    text: str
    features: frozenset[str]
    covariates: frozenset[str]


def form_of(graph: ModelGraph) -> Form:
    """The form of a model: its response's distribution, whatever its priors and the scales of its columns.

    Parameters of the response's distribution become sums of products in one order. A coefficient is free
    where it holds a parameter that no other coefficient holds: constants that it is multiplied with or that
    are added to it make no difference, so that a standardised or centred column is the column, and an
    intercept takes up what centring leaves. Families and constants of priors make none either; what the
    priors of vectors share (a learned mean or scale) is part of the form, however it is written.

    Args:
        graph: A model graph from `programs.validation.parse_graph`, or canonical.

    Returns:
        The form; its text reads like `Normal(a + b*log(age), sigma)`, where `·` is a constant, `b[site]` a
        coefficient for each site, and `u[site]` one that is pooled over sites.
    """
    reader = Reader(canonicalise(graph))
    response = reader.response()
    text = form_text(response)
    key = hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]
    shown = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
    return Form(key, shown, features_of(response), covariates_of(response))

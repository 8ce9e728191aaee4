"""Made-up data sets: what a prompt says of one, without any data behind it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from synthstats_lightning.pretraining.names import column_names, word
from synthstats_lightning.pretraining.words import ADJECTIVES, LINKS, NOUNS, UNITS, VERBS
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.prompt import render_request

MAX_COVARIATES = 3
"""Covariates of a data set at most; the tiny policy's configuration says it too."""


@dataclass(frozen=True)
class MadeUpData:
    """What is known of a data set before any model of it.

    Attributes:
        description: A sentence or some words.
        covariates: One to three columns.
        response: The response column.
        num_rows: Number of rows that the request names.
        shown: Response values that the prompt shows, often none.
    """

    description: str
    covariates: tuple[Column, ...]
    response: Column
    num_rows: int
    shown: tuple[float, ...] = ()

    @property
    def request(self) -> str:
        """The request that a prompt of this data set would hold."""
        return render_request(
            self.description, list(self.covariates), self.response, self.num_rows, list(self.shown) or None
        )


def made_up_data(rng: Random) -> MadeUpData:
    """Draws a data set."""
    count = rng.choices(range(1, MAX_COVARIATES + 1), (72, 20, 8))[0]
    names = column_names(rng, count + 1)
    covariates = tuple(made_up_covariate(rng, name) for name in names[:-1])
    response = made_up_response(rng, names[-1])
    rows = round(10 ** rng.uniform(0.7, 3.2))
    return MadeUpData(made_up_description(rng, names), covariates, response, rows, _shown(rng, response))


def made_up_covariate(rng: Random, name: str) -> Column:
    """Draws kind, range and unit of a covariate."""
    kind = rng.choices(("continuous", "count", "integer", "binary"), (66, 20, 4, 10))[0]
    if kind == "binary":
        return Column(name, kind, 0.0, 1.0)
    low, high = _integer_range(rng, kind) if kind != "continuous" else _covariate_range(rng)
    return Column(name, kind, low, high, _unit(rng))


def made_up_response(rng: Random, name: str) -> Column:
    """Draws kind, range and unit of a response; integers below zero have no distribution to follow."""
    kind = rng.choices(("continuous", "count", "binary"), (74, 16, 10))[0]
    if kind == "binary":
        return Column(name, kind, 0.0, 1.0)
    low, high = _integer_range(rng, kind) if kind != "continuous" else _response_range(rng)
    return Column(name, kind, low, high, _unit(rng))


def made_up_description(rng: Random, names: list[str]) -> str:
    """Draws a description: a phrase about the columns, or words in no order, or a longer text."""
    style = rng.choices(("phrase", "salad", "long"), (70, 24, 6))[0]
    if style == "phrase":
        first = _phrase_noun(rng, names)
        text = f"{first} {rng.choice(LINKS)} {_phrase_noun(rng, names)}"
        if rng.random() < 0.5:
            text += f" {rng.choice(LINKS)} {_phrase_noun(rng, names)}"
        if rng.random() < 0.3:
            text += f", {rng.choice(VERBS)} {rng.choice(LINKS)} {rng.randint(2, 200)} {word(rng, 0.2)}s"
    else:
        length = rng.randint(1, 12) if style == "salad" else rng.randint(12, 40)
        pools = (NOUNS, NOUNS, LINKS, VERBS, ADJECTIVES, ("the", "a", "and", "is", "was", "were", "how"))
        text = " ".join(
            word(rng, 1.0) if rng.random() < 0.2 else rng.choice(rng.choice(pools)) for _ in range(length)
        )
    text = text[0].upper() + text[1:]
    return text + rng.choices((".", "", "!", "?"), (85, 12, 1, 2))[0]


def _phrase_noun(rng: Random, names: list[str]) -> str:
    noun = rng.choice(names).replace("_", " ") if rng.random() < 0.3 else word(rng, 0.25)
    plural = noun + "s" if rng.random() < 0.4 else noun
    if rng.random() < 0.3:
        plural = f"{rng.choice(ADJECTIVES)} {plural}"
    if rng.random() < 0.12:
        plural += f" ({word(rng, 0.2)} {word(rng, 0.2)})" if rng.random() < 0.6 else f" ({word(rng, 0.2)})"
    return plural


def _unit(rng: Random) -> str:
    draw = rng.random()
    if draw < 0.4:
        return ""
    return rng.choice(UNITS) if draw < 0.9 else word(rng, 0.6)


def _round(rng: Random, value: float, scale: float) -> float:
    """Rounds to a few digits of `scale`, the way recorded data are."""
    text = f"{scale:.0e}"
    exponent = int(text[text.index("e") + 1 :])
    return round(value, rng.choice((0, 1, 1, 2, 2, 3)) - exponent)


def _range(rng: Random, low: float, high: float) -> tuple[float, float]:
    low, high = sorted((low, high))
    rounded = (_round(rng, low, high - low), _round(rng, high, high - low))
    return rounded if rounded[0] < rounded[1] else (low, high)


def _covariate_range(rng: Random) -> tuple[float, float]:
    size = 10 ** rng.uniform(-1.3, 3.3)
    style = rng.choices(("positive", "zero", "signed", "offset"), (54, 18, 20, 8))[0]
    if style == "positive":
        return _range(rng, size * 10 ** rng.uniform(-2.2, -0.1), size)
    if style == "zero":
        return 0.0, _range(rng, 0.0, size)[1]
    if style == "signed":
        size = size if rng.random() < 0.5 else rng.uniform(1.0, 4.0)
        return _range(rng, -size * rng.uniform(0.2, 1.2), size)
    centre = size * rng.uniform(2.0, 30.0)
    return _range(rng, centre - size / 2, centre + size / 2)


def _response_range(rng: Random) -> tuple[float, float]:
    size = 10 ** rng.uniform(-1.3, 3.5)
    style = rng.choices(("positive", "zero", "signed", "offset", "negative"), (52, 8, 26, 10, 4))[0]
    if style == "positive":
        return _range(rng, size * 10 ** rng.uniform(-1.7, -0.05), size)
    if style == "zero":
        return 0.0, _range(rng, 0.0, size)[1]
    if style == "signed":
        return _range(rng, -size * 10 ** rng.uniform(-1.0, 0.5), size)
    if style == "negative":
        return _range(rng, -size, -size * rng.uniform(0.05, 0.9))
    centre = size * rng.uniform(2.0, 30.0) * rng.choice((1, 1, 1, -1))
    return _range(rng, centre - size / 2, centre + size / 2)


def _integer_range(rng: Random, kind: str) -> tuple[float, float]:
    size = round(10 ** rng.uniform(0.3, 3.0)) + 1
    if kind == "integer":
        return -float(rng.randint(1, size)), float(rng.randint(1, size))
    if rng.random() < 0.08:
        start = rng.randint(1900, 2010)
        return float(start), float(start + rng.randint(3, 60))
    return float(rng.choice((0, 0, 1, 1, rng.randint(0, size // 2)))), float(size)


def _shown(rng: Random, response: Column) -> tuple[float, ...]:
    if rng.random() > 0.08:
        return ()
    values = (rng.uniform(response.low, response.high) for _ in range(rng.randint(1, 8)))
    if response.kind == "continuous":
        return tuple(float(f"{value:.{rng.choice((2, 3, 4))}g}") for value in values)
    return tuple(float(round(value)) for value in values)

"""Made-up column names: real words, made-up words, snake case, camel case, single letters, digits."""

from __future__ import annotations

import builtins
import keyword
from random import Random

from synthstats_lightning.pretraining.words import ADJECTIVES, NOUNS, split
from synthstats_lightning.tasks.task import RESERVED_NAMES

ONSETS = split(
    "b c d f g h j k l m n p q r s t v w x y z bl br ch cl cr dr fl fr gl gr pl pr qu sh sl st th tr"
)
VOWELS = split("a e i o u a e i o u ai ea oo ou y")
CODAS = ("", "", "", *split("b d f g k l m n p r s t x z ck ll nd ng nt rb rd rk sh ss st th"))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FORBIDDEN = RESERVED_NAMES | frozenset((*keyword.kwlist, *dir(builtins))) | {"mu", "nu", "sigma"}
"""No made-up column has these names: programs of the grammars use them, functions of Python among them."""


def made_up_word(rng: Random) -> str:
    """A word of one to four random syllables, pronounceable at best."""
    count = rng.choices((1, 2, 3, 4), (25, 50, 20, 5))[0]
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(count))


def word(rng: Random, made_up: float = 0.5) -> str:
    """A real or, with probability `made_up`, a made-up word."""
    return made_up_word(rng) if rng.random() < made_up else rng.choice(NOUNS)


def _random_letters(rng: Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 8)))


def _candidate(rng: Random) -> str:
    style = rng.choices(
        ("word", "snake", "adjective", "camel", "letter", "digit", "letters", "upper", "abbreviation"),
        (42, 16, 6, 6, 8, 8, 6, 4, 4),
    )[0]
    if style == "snake":
        return "_".join(word(rng) for _ in range(rng.choice((2, 2, 2, 3))))
    if style == "adjective":
        return f"{rng.choice(ADJECTIVES)}_{word(rng)}"
    if style == "camel":
        first, second = word(rng), word(rng).capitalize()
        return (first if rng.random() < 0.6 else first.capitalize()) + second
    if style == "letter":
        return rng.choice("xxxyyyztuvw" + LETTERS + LETTERS.upper())
    if style == "digit":
        stem = rng.choice((word(rng), rng.choice("xyztuvw")))
        return stem + rng.choice(("", "_")) + str(rng.choice((rng.randint(1, 9), rng.randint(1, 99))))
    if style == "letters":
        return _random_letters(rng)
    if style == "upper":
        text = word(rng)
        return text.upper() if rng.random() < 0.4 else text.capitalize()
    if style == "abbreviation":
        return word(rng)[: rng.randint(2, 4)] + rng.choice(("", "_" + word(rng)[:3]))
    return word(rng)


def column_names(rng: Random, count: int) -> list[str]:
    """Distinct names that a task accepts: identifiers, no keyword, none that programs have in scope."""
    names: list[str] = []
    while len(names) < count:
        name = _candidate(rng)
        if name.isidentifier() and name not in FORBIDDEN and name not in names:
            names.append(name)
    return names

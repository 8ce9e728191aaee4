"""Names of columns in several styles and scripts, all of them names in Python."""

from __future__ import annotations

import unicodedata
from random import Random

from synthstats_lightning.pretraining.names import FORBIDDEN, column_names
from synthstats_lightning.tasks.intake.names import python_name

SCRIPTS = (
    "абвгдежзиклмнопрстуфхчшэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "年月日人口数量価格温度重高速長時間地区点",
    "가나다라마바사아자차카타파하수온도무게",
    "ابتثجحخدرزسشصطعفقكلمنهوي",
    "אבגדהוזחטיכלמנסעפצקרשת",
    "कखगघचजटडतदनपबमयरलवशसह",
    "aáâbcçdeéèfgiíjklmnñoóöpqrsštuúüvwxyzž",
)
"""Letters of which made-up words are drawn."""
FOREIGN = 0.12
"""Share of names that are written in one of the scripts."""


def names_of_columns(rng: Random, count: int) -> list[str]:
    """Distinct names that a task accepts.

    Args:
        rng: Source of all randomness.
        count: How many names are wanted.
    """
    names = list(column_names(rng, count))
    for place in range(count):
        if rng.random() < FOREIGN:
            name = _foreign(rng)
            if name not in names and name not in FORBIDDEN:
                names[place] = name
    return names


def name_with(rng: Random, endings: tuple[str, ...], taken: list[str]) -> str:
    """A name that ends in one of some words, such as a group's.

    Args:
        rng: Source of all randomness.
        endings: Words of which one ends the name, perhaps alone.
        taken: Names that are used already.
    """
    while True:
        (stem,) = names_of_columns(rng, 1)
        ending = rng.choice(endings)
        name = python_name(ending if rng.random() < 0.4 else f"{stem}_{ending}")
        if name not in taken and name not in FORBIDDEN:
            return name


def _foreign(rng: Random) -> str:
    letters = rng.choice(SCRIPTS)
    words = rng.choice((1, 1, 2))
    text = "_".join("".join(rng.choice(letters) for _ in range(rng.randint(2, 6))) for _ in range(words))
    return python_name(unicodedata.normalize("NFKC", text))

"""Names of columns that programs can use."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Sequence

from synthstats_lightning.tasks.task import RESERVED_NAMES

_BRACKETED_UNIT = re.compile(
    r"^(?P<name>.*\S)\s*(?:\((?P<round>[^()]*)\)|\[(?P<square>[^\[\]]*)\])$", re.DOTALL
)
_BUILT_IN = """
abs all any bool dict enumerate float int len list map max min print range reversed round set slice sorted str
sum tuple zip
"""
CALLED = frozenset(_BUILT_IN.split())
"""Functions of Python that programs call: a column of that name would stand in their place."""
LONGEST_UNIT = 16
"""Characters of what may be a unit between brackets."""


def split_unit(name: str) -> tuple[str, str]:
    """A name without the unit that stands in brackets behind it, and the unit.

    Args:
        name: A name as a table has it: `"petal width (cm)"`.
    """
    match = _BRACKETED_UNIT.match(name.strip())
    if match is None:
        return name.strip(), ""
    unit = (match["round"] or match["square"] or "").strip()
    if not unit or len(unit) > LONGEST_UNIT or unit.isdigit():
        return name.strip(), ""
    return match["name"], unit


def python_name(name: str) -> str:
    """The nearest name that a program can use: an identifier, no keyword, nothing that has another meaning.

    Args:
        name: A name as a table has it.
    """
    if not name.isidentifier():
        plain = unicodedata.normalize("NFKD", name)
        plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
        plain = plain.replace("%", " percent ").replace("ß", "ss")
        name = re.sub(r"\W+", "_", plain)
        name = re.sub(r"__+", "_", name).strip("_")
    name = name if name.isascii() else unicodedata.normalize("NFKC", name)
    if name.startswith("__"):
        name = name.strip("_")
    if not name:
        return "column"
    if not name.isidentifier():
        name = f"x_{name}" if f"x_{name}".isidentifier() else "column"
    return f"{name}_" if keyword.iskeyword(name) or name in RESERVED_NAMES | CALLED else name


def python_names(names: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    """Distinct names that programs can use, one for each.

    Args:
        names: Names as a table has them, in order.
        taken: Names that are used already.
    """
    used = set(taken)
    # names that need no change keep theirs, whatever stands before them
    wanted = [python_name(name) for name in names]
    kept = {name for name, wish in zip(names, wanted, strict=True) if name == wish}
    found = []
    for name, wish in zip(names, wanted, strict=True):
        candidate, number = wish, 2
        while candidate in used or (candidate in kept and candidate != name):
            candidate, number = f"{wish}_{number}", number + 1
        used.add(candidate)
        found.append(candidate)
    return found

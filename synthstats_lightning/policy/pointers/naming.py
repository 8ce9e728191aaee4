"""Names of a program's own variables where a column has the same name."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from synthstats_lightning.policy.pointers.words import Word


def free_name(name: str, taken: Container[str]) -> str:
    """A name that is not taken: the given one with as many underscores behind it as that takes.

    Args:
        name: What it is like.
        taken: Names that it may not be.
    """
    while name in taken:
        name += "_"
    return name


def clear_names(found: Iterable[Word], columns: Mapping[str, str]) -> dict[str, str]:
    """What a program's own variables are called in its text: another name where a column has theirs.

    Args:
        found: Words of the program, in which columns are no names.
        columns: Names of columns.
    """
    own = _names(found)
    return {name: free_name(name, {*own, *columns}) for name in sorted(own & columns.keys())}


def own_names(found: Iterable[Word], columns: Mapping[str, str]) -> dict[str, str]:
    """The opposite of `clear_names`: names of its text to what a policy calls the variables.

    Args:
        found: Words of the program, in which columns have their names.
        columns: Names of columns.
    """
    own = _names(found) - columns.keys()
    given: dict[str, str] = {}
    for name in sorted(own):
        base = name
        while base.endswith("_") and name not in given:
            base = base[:-1]
            free = base in columns and base not in given.values()
            if free and free_name(base, {*(own - {name}), *columns}) == name:
                given[name] = base
    return given


def _names(found: Iterable[Word]) -> set[str]:
    return {word.text for word in found if word.kind == "name"}

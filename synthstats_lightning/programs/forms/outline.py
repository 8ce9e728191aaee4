"""What a program's text says of its model: the response's distribution, and how each column has a part in it.

Text is read from left to right and never parsed, nor run: building a model takes tens of milliseconds in a
sandbox, an outline less than one. What it misses is said as if it were not there. `programs.forms` reads the
model graph, and sees all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

PARTS = (
    "absent",
    "linear",
    "quadratic",
    "log",
    "power",
    "ratio",
    "exponential",
    "sigmoid",
    "wave",
    "piecewise",
    "group",
)
"""How a column may have a part in the response, the more telling later: of several the last one counts."""
LONGEST = 20_000
"""Characters of a program that are read; what comes behind them is not."""
_TOKEN = re.compile(
    r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
    r"|\#[^\n]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[^\W\d]\w*|\*\*|[<>=!]=|\n|\S"
)
_FUNCTIONS = {
    **dict.fromkeys(("log", "log1p", "log10", "log2"), "log"),
    **dict.fromkeys(("sqrt", "pow", "power", "sqr", "square"), "power"),
    **dict.fromkeys(("exp", "expm1", "exp2"), "exponential"),
    **dict.fromkeys(
        ("sigmoid", "invlogit", "expit", "tanh", "erf", "arctan", "invprobit", "softplus"), "sigmoid"
    ),
    **dict.fromkeys(("sin", "cos"), "wave"),
    **dict.fromkeys(
        ("switch", "where", "minimum", "maximum", "clip", "heaviside", "floor", "abs"), "piecewise"
    ),
}
_LINKS = frozenset({"exp", "sigmoid", "invlogit", "expit", "softplus", "invprobit"})
_REAL = frozenset(
    {"Normal", "StudentT", "Laplace", "Logistic", "Cauchy", "SkewNormal", "AsymmetricLaplace", "Gumbel"}
)
_SPREADS = frozenset({"sigma", "sd", "tau", "scale", "b", "s", "beta", "kappa"})
_SECOND = {"Normal": 1, "Laplace": 1, "Logistic": 1, "Cauchy": 1, "LogNormal": 1, "Gumbel": 1, "StudentT": 2}
"""Place of the spread among the parameters that are given without names."""
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_OUTERMOST = frozenset({"Deterministic", "Data", "MutableData", "ConstantData", "as_tensor_variable"})
"""Calls that change nothing of what they are given."""


@dataclass(frozen=True)
class Outline:
    """The outline of a program.

    Attributes:
        family: Name of the response's distribution; empty where the text has none.
        spread: Columns that the spread of the response goes with.
        parts: Column to how it has a part in the rest, of `PARTS`; columns that have none are left out.
    """

    family: str
    spread: frozenset[str]
    parts: dict[str, str]


class _Bracket(NamedTuple):
    """An open bracket: what stands before it, and its place."""

    name: str
    mark: str
    start: int


def outline(source: str, columns: Collection[str]) -> Outline:
    """Reads the outline of a program.

    Args:
        source: Source text, of any kind.
        columns: Names of the covariates.
    """
    pieces = [piece for piece in _TOKEN.findall(source[:LONGEST]) if not piece.startswith("#")]
    statements = list(_statements(pieces))
    defined: dict[str, list[list[str]]] = {}
    observed: list[str] = []
    for statement in statements:
        if "observed" in statement and not observed:
            observed = statement
        elif len(statement) > 2 and statement[1] == "=" and not _draws(statement[2:]):
            defined.setdefault(statement[0], []).append(statement[2:])
    family, arguments = _observed_call(observed)
    spread: set[str] = set()
    parts: dict[str, set[str]] = {}
    for place, argument in enumerate(arguments):
        named = len(argument) > 2 and argument[1] == "="
        found = _entering(argument[2:] if named else argument, defined, set(columns), family)
        spreads = argument[0] in _SPREADS if named else _SECOND.get(family) == place
        if spreads and family not in ("Gamma", "Beta"):
            spread |= {name for name, _ in found}
            continue
        for name, part in found:
            parts.setdefault(name, set()).add(part)
    return Outline(
        family, frozenset(spread), {name: max(own, key=PARTS.index) for name, own in parts.items()}
    )


def _statements(pieces: Sequence[str]) -> Iterator[list[str]]:
    """Lines of code; brackets keep a line open."""
    depth, statement = 0, list[str]()
    for piece in pieces:
        depth = max(0, depth + (piece in _OPEN) - (piece in _CLOSE))
        if piece == "\n" or (piece == ";" and not depth):
            if depth == 0 and statement:
                yield statement
                statement = []
        else:
            statement.append(piece)
    if statement:
        yield statement


def _draws(value: Sequence[str]) -> bool:
    """Whether what is assigned is a random variable, whose own parameters say nothing of the response."""
    return (
        len(value) > 3
        and value[0] in ("pm", "pymc")
        and value[2][:1].isupper()
        and value[2] not in _OUTERMOST
    )


def _observed_call(statement: Sequence[str]) -> tuple[str, list[list[str]]]:
    """The distribution that is given `observed`, and its other arguments without its name."""
    stack: list[int] = []
    for place, piece in enumerate(statement):
        if piece in _OPEN:
            stack.append(place)
        elif piece in _CLOSE and stack:
            stack.pop()
        elif piece == "observed" and stack and statement[place + 1 : place + 2] == ["="]:
            start = stack[-1]
            family = statement[start - 1] if start and statement[start - 1][:1].isalpha() else ""
            arguments = list(_arguments(statement[start + 1 :]))
            kept = [
                each for each in arguments if each and each[0] not in ("observed", "name", "dims", "shape")
            ]
            if kept and kept[0][0][:1] in "\"'":
                kept = kept[1:]
            return family, kept
    return "", []


def _arguments(pieces: Sequence[str]) -> Iterator[list[str]]:
    depth, argument = 0, list[str]()
    for piece in pieces:
        depth += (piece in _OPEN) - (piece in _CLOSE)
        if depth < 0:
            break
        if piece == "," and not depth:
            yield argument
            argument = []
        else:
            argument.append(piece)
    yield argument


def _entering(
    value: Sequence[str], defined: dict[str, list[list[str]]], columns: set[str], family: str
) -> set[tuple[str, str]]:
    """Columns in an expression and in what its names stand for, each with how it has a part there."""
    found: set[tuple[str, str]] = set()
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting: list[tuple[Sequence[str], tuple[str, ...]]] = [(value, ())]
    while waiting:
        pieces, around = waiting.pop()
        for name, within in _names(pieces):
            whole = (*around, *within)
            if name in columns:
                found.add((name, _part(whole, family)))
            elif name in defined and (name, whole) not in seen and len(whole) < 12 and len(seen) < 200:
                seen.add((name, whole))
                waiting += [(own, whole) for own in defined[name]]
    return found


def _names(pieces: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names, each with what is done with it, outermost first."""
    ends = _ends(pieces)
    stack: list[_Bracket] = []
    for place, piece in enumerate(pieces):
        before = pieces[place - 1] if place else ""
        after = pieces[place + 1] if place + 1 < len(pieces) else ""
        if piece in _OPEN:
            named = before[:1].isalpha() or before[:1] == "_" or before in _CLOSE
            stack.append(_Bracket(before if named else "", piece, place))
        elif piece in _CLOSE:
            if stack:
                stack.pop()
        elif piece[:1].isalpha() or piece[:1] == "_" or (piece[:1] in "\"'" and before == "["):
            owner = pieces[place - 2] if place > 1 else ""
            if after == "(" or after == "." or (before == "." and owner != "data") or after == "=":
                continue  # a function, a module, an attribute or the name of an argument
            of_data = bool(stack) and stack[-1].mark == "[" and stack[-1].name == "data"
            if piece[:1] in "\"'" and not of_data:
                continue
            name = piece.strip("\"'") if of_data else piece
            end = ends[stack[-1].start] if of_data else place
            start = stack[-1].start - 1 if of_data else place - 2 if before == "." else place
            brackets = stack[:-1] if of_data else stack
            yield name, tuple(_done(pieces, brackets, ends, start, end))


def _ends(pieces: Sequence[str]) -> dict[int, int]:
    """Place of each bracket to that of the one that closes it."""
    open_places: list[int] = []
    ends: dict[int, int] = {}
    for place, piece in enumerate(pieces):
        if piece in _OPEN:
            open_places.append(place)
        elif piece in _CLOSE and open_places:
            ends[open_places.pop()] = place
    return ends


def _done(
    pieces: Sequence[str], brackets: Sequence[_Bracket], ends: dict[int, int], start: int, end: int
) -> Iterator[str]:
    """Functions, powers and divisions around pieces, outermost first."""
    for bracket in brackets:
        close = ends.get(bracket.start, len(pieces))
        if bracket.mark == "[" and bracket.name:
            yield "index"
        elif bracket.name:
            yield bracket.name
            yield from _beside(pieces, bracket.start, close, denominator=False)
        elif bracket.mark == "(":
            yield from _beside(pieces, bracket.start, close)
    yield from _beside(pieces, start, end)
    nearby = (pieces[start - 1] if start > 0 else "", pieces[end + 1] if end + 1 < len(pieces) else "")
    if any(sign in ("<", ">", "<=", ">=", "==") for sign in nearby):
        yield "where"


def _beside(pieces: Sequence[str], start: int, end: int, denominator: bool = True) -> Iterator[str]:
    before = pieces[start - 1] if start > 0 else ""
    if before == "**":
        yield "exp"
    elif before == "/" and denominator:
        yield "/"
    if end + 1 < len(pieces) and pieces[end + 1] == "**":
        exponent = pieces[end + 2 : end + 3]
        yield "**2" if exponent in (["2"], ["3"]) else "pow"


def _part(around: Sequence[str], family: str) -> str:
    """How a column has a part, from what is done with it, outermost first."""
    kept = list(around)
    if family not in _REAL:
        while kept and kept[0] in ("/", *_OUTERMOST):
            kept = kept[1:]
        if kept and kept[0] in _LINKS:
            kept = kept[1:]
    if kept.count("exp") > 1:
        return "sigmoid"
    found = {"linear"}
    for name in kept:
        if name == "index":
            found.add("group")
        elif name == "**2":
            found.add("quadratic")
        elif name == "/":
            found.add("ratio")
        elif name in _FUNCTIONS:
            found.add(_FUNCTIONS[name])
    return max(found, key=PARTS.index)

"""The text of a program without its priors' constants, for programs so plain that these can only be data.

Nothing is parsed as Python: tokens are told apart and counted. A program is plain if it is one `with` block
of assignments and calls, each function of which is in a list, without any word of Python's that could choose
between two ways. What its constants are can then decide nothing but what numbers its graph holds, and even
that is put to the test, see `documents`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection
from typing import NamedTuple

MOST_CHARACTERS = 5_000
"""Longer programs are seldom plain."""
MOST_SLOTS = 40
LEAST, MOST = 1e-6, 1e6
"""Sizes of a constant that may be a slot's: what is beyond may be a special case of some library."""
MOST_WHOLE = 100
"""Whole numbers up to here are of the smallest type of whole numbers that a library may choose for them."""

_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_]\w*(?![\"'\w]))"
    r"|(?P<number>(?:(?:0|[1-9]\d*)\.\d*|\.\d+|0|[1-9]\d*)(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<text>\"[A-Za-z_]\w*\"|'[A-Za-z_]\w*')"
    r"|(?P<sign>\*\*|<=|>=|[-+*/()\[\],=<>.:])"
    r"|(?P<line>\n)"
    r"|(?P<space> +)"
    r"|(?P<comment>\#[^\n]*)",
    re.ASCII,
)
_IMPORT = re.compile(r"import (?:pymc as pm|numpy as np|pytensor\.tensor as pt)", re.ASCII)
_WITH = re.compile(r"with pm\.Model\(\) as ([A-Za-z_]\w*):", re.ASCII)

ROOTS = frozenset({"pm", "np", "pt"})
SCALED = frozenset(
    {"Normal", "HalfNormal", "LogNormal", "Lognormal", "Exponential", "Gamma", "InverseGamma", "Laplace"}
    | {"StudentT", "HalfStudentT", "Cauchy", "HalfCauchy", "Beta", "Logistic", "Gumbel", "Weibull"}
)
"""Distributions whose constants are lifted: each is a number of the graph, as it is or as its reciprocal."""
ARGUMENTS = frozenset({"mu", "sigma", "lam", "alpha", "beta", "nu", "b", "s"})
"""Names of their arguments that may be given by name."""
OTHERS = frozenset(
    {"Uniform", "Poisson", "Bernoulli", "Binomial", "NegativeBinomial", "SkewNormal", "Deterministic"}
    | {"Geometric", "AsymmetricLaplace", "ExGaussian"}
)
ELEMENTWISE = frozenset(
    {"exp", "log", "log1p", "expm1", "sqrt", "abs", "sin", "cos", "tanh", "minimum", "maximum"}
    | {"sum", "mean", "dot", "where", "power", "square"}
)
FUNCTIONS = {
    "pm": SCALED | OTHERS,
    "np": ELEMENTWISE | {"std", "min", "max", "median"},
    "pt": ELEMENTWISE | {"switch", "sigmoid", "clip"},
    "pm.math": ELEMENTWISE | {"switch", "sigmoid", "invlogit", "clip"},
}
METHODS = frozenset({"mean", "std", "min", "max", "sum"})
_ASKS = ("(", ",", "=")
_ENDS = (",", ")")


class Template(NamedTuple):
    """A plain program apart from its priors' constants.

    Attributes:
        parts: The text between the constants, one part more than there are constants.
        constants: How each constant is written, without a sign.
    """

    parts: tuple[str, ...]
    constants: tuple[str, ...]

    def filled(self, constants: Collection[str]) -> str:
        """The source of the program with other constants.

        Args:
            constants: How each is written, as many as there are.
        """
        pieces = [self.parts[0]]
        for constant, part in zip(constants, self.parts[1:], strict=True):
            pieces += [constant, part]
        return "".join(pieces)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def template_of(source: str) -> Template | None:
    """The template of a program, `None` if it is not plain or has no constant to lift.

    Args:
        source: Python source of any origin.
    """
    tokens = _tokens(source)
    if tokens is None or not _is_laid_out(source, tokens) or not _is_plain(tokens):
        return None
    slots = _slots(tokens)
    if not 0 < len(slots) <= MOST_SLOTS:
        return None
    parts, end = [], 0
    for token in slots:
        parts.append(source[end : token.start])
        end = token.start + len(token.text)
    return Template((*parts, source[end:]), tuple(token.text for token in slots))


def _tokens(source: str) -> list[_Token] | None:
    """All tokens of a text; `None` where it has others."""
    if len(source) > MOST_CHARACTERS or not source.isascii() or "coding" in source:
        return None
    found, position = [], 0
    for match in _TOKEN.finditer(source):
        if match.start() != position or match.lastgroup is None:
            return None
        position = match.end()
        found.append(_Token(match.lastgroup, match[0], match.start()))
    return found if position == len(source) else None


def _is_laid_out(source: str, tokens: list[_Token]) -> bool:
    """Whether a text is imports, one `with` block, and statements in it at one depth."""
    starts, depth, fresh = [], 0, True
    for token in tokens:
        if token.kind == "sign" and token.text in "([":
            depth += 1
        elif token.kind == "sign" and token.text in ")]":
            depth -= 1
        if depth < 0:
            return False
        if token.kind == "line":
            fresh = depth == 0
        elif fresh and token.kind not in ("space", "comment"):
            starts.append(token.start)
            fresh = False
    if depth != 0:
        return False
    block, indent = False, None
    for start in starts:
        line_start = source.rfind("\n", 0, start) + 1
        end = source.find("\n", start)
        line = source[start : len(source) if end < 0 else end].rstrip(" ")
        if not block:
            if start != line_start:
                return False
            block = _WITH.fullmatch(line) is not None
            if not block and _IMPORT.fullmatch(line) is None:
                return False
        elif start == line_start or start - line_start != (indent or start - line_start):
            return False
        else:
            indent = start - line_start
    return block and indent is not None


def _is_plain(tokens: list[_Token]) -> bool:
    """Whether the statements of the block only call functions that are known, and give their values names."""
    solid = [token for token in tokens if token.kind not in ("space", "comment", "line")]
    colons = [index for index, token in enumerate(solid) if token.text == ":"]
    if len(colons) != 1:
        return False
    body = [_Token("sign", ",", -1), *solid[colons[0] + 1 :], _Token("sign", ",", -1)]
    for index in range(1, len(body) - 1):
        before, token, after = body[index - 1], body[index], body[index + 1]
        if token.kind == "name":
            if keyword.iskeyword(token.text) or "__" in token.text:
                return False
            if token.text in ROOTS:
                # neither a value nor a name that is given another one
                if before.text == "." or after.text != ".":
                    return False
            elif before.text != "." and after.text == "(":
                return False
        elif token.text == "." and not _is_known(body, index):
            return False
    return True


def _is_known(body: list[_Token], index: int) -> bool:
    """Whether a point stands before a function that is in a list, and is called."""
    owner, name = body[index - 1], body[index + 1]
    if owner.kind != "name" or name.kind != "name":
        return False
    if owner.text == "pm" and name.text == "math":
        return body[index + 2].text == "."
    if body[index + 2].text != "(":
        return False
    if owner.text in ROOTS:
        return name.text in FUNCTIONS[owner.text]
    if owner.text == "math" and body[index - 2].text == ".":
        return body[index - 3].text == "pm" and name.text in FUNCTIONS["pm.math"]
    # of a column or of another value that has a name
    return body[index - 2].text != "." and name.text in METHODS and body[index + 3].text == ")"


def _slots(tokens: list[_Token]) -> list[_Token]:
    """The numbers that are an argument of their own of one of the distributions."""
    solid = [token for token in tokens if token.kind not in ("space", "comment", "line")]
    found, calls = [], []
    for index, token in enumerate(solid):
        if token.kind == "sign" and token.text in "([":
            called = index > 2 and [part.text for part in solid[index - 3 : index - 1]] == ["pm", "."]
            calls.append(token.text == "(" and called and solid[index - 1].text in SCALED)
        elif token.kind == "sign" and token.text in ")]":
            calls.pop()
        elif token.kind == "number" and calls and calls[-1] and solid[index + 1].text in _ENDS:
            first = index - 1 if solid[index - 1].text == "-" else index
            asks = solid[first - 1].text
            named = asks != "=" or solid[first - 2].text in ARGUMENTS
            if asks in _ASKS and named and _is_usual(token.text):
                found.append(token)
    return found


def _is_usual(number: str) -> bool:
    whole = number.isdigit()
    return LEAST <= float(number) <= (MOST_WHOLE if whole else MOST)

"""Where a program's text says what the response's location is: the expression that covariates go into."""

from __future__ import annotations

import ast
from typing import NamedTuple

from synthstats_lightning.searchers.edits.program_text import ProgramText

_PLACES = {
    "Normal": (1, ("mu",)),
    "Laplace": (1, ("mu",)),
    "Logistic": (1, ("mu",)),
    "Cauchy": (1, ("alpha",)),
    "LogNormal": (1, ("mu",)),
    "StudentT": (2, ("mu",)),
    "Poisson": (1, ("mu",)),
    "NegativeBinomial": (1, ("mu",)),
    "Bernoulli": (1, ("p", "logit_p")),
    "Binomial": (2, ("p", "logit_p")),
}
"""Distribution to the place of its location among the arguments, the name first, and to its keywords."""
_LINKS = frozenset({"exp", "sigmoid", "invlogit", "expit", "softplus"})


class Location(NamedTuple):
    """The expression of a response's location, behind its link.

    Attributes:
        node: The expression that stands for it.
        link: The function that it goes through, or the keyword that says so; empty if none.
        family: The response's distribution.
    """

    node: ast.expr
    link: str
    family: str


def find_location(program: ProgramText) -> Location | None:
    """The location of a program's response; `None` where it is not to be seen from its text.

    Args:
        program: The program that is looked at.
    """
    family = called(program.response)
    if family not in _PLACES:
        return None
    place, keywords = _PLACES[family]
    node: ast.expr | None = None
    link = ""
    if len(program.response.args) > place:
        node = program.response.args[place]
    for word in program.response.keywords:
        if word.arg in keywords:
            node, link = word.value, "logit_p" if word.arg == "logit_p" else ""
    for _ in range(4):  # a name of its own, and a link, in either order
        if isinstance(node, ast.Call) and called(node) in _LINKS and len(node.args) == 1 and not link:
            link, node = called(node), node.args[0]
        elif isinstance(node, ast.Name) and (named := _expression(program, node.id)) is not None:
            node = named
        else:
            break
    return None if node is None else Location(node, link, family)


def called(node: ast.Call) -> str:
    """The last part of the name of what is called: `Normal` of `pm.Normal`.

    Args:
        node: The call that is looked at.
    """
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _expression(program: ProgramText, name: str) -> ast.expr | None:
    """What a name stands for, if that is an expression and no random variable."""
    statement = program.defining(name)
    if statement is None or not isinstance(statement.node, ast.Assign):
        return None
    value = statement.node.value
    if isinstance(value, ast.Call):
        if called(value) == "Deterministic" and len(value.args) == 2:
            return value.args[1]
        return None if value.args and isinstance(value.args[0], ast.Constant) else value
    return value if isinstance(value, ast.BinOp | ast.UnaryOp) else None

"""A fast static check of generated programs, to measure a policy while it is made."""

from __future__ import annotations

import ast
from collections.abc import Collection

from synthstats_lightning.pretraining.likelihoods import LIKELIHOODS
from synthstats_lightning.pretraining.priors import POSITIVE_FAMILIES, REAL_FAMILIES

DISTRIBUTIONS = frozenset({*REAL_FAMILIES, *POSITIVE_FAMILIES, "Beta", *LIKELIHOODS})
FUNCTIONS = frozenset({"exp", "log", "sqrt", "sin", "tanh", "sigmoid", "minimum", "maximum", "switch"})


def problem(source: str, covariates: Collection[str], response: str) -> str | None:
    """Why a program would not build, as far as its text tells.

    Args:
        source: A program in the grammar's form.
        covariates: Names of the columns that it may use.
        response: Name of the response, allowed only as `observed=`.

    Returns:
        The first problem found, or None.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"syntax: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"syntax: {error}"  # a null byte before Python 3.11.4, or too deep
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.With):
        return "not a single with block"
    known = {*covariates}
    labels: set[str] = set()
    observed = mentioned = 0
    for statement in tree.body[0].body:
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        if value is None:
            return "statement of another kind"
        for node in ast.walk(value):
            reason = _node_problem(node, known, response, labels)
            if reason is not None:
                return reason
            observed += isinstance(node, ast.keyword) and node.arg == "observed"
            mentioned += isinstance(node, ast.Name) and node.id == response
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if not isinstance(target, ast.Name):
                return "assignment to something other than a name"
            known.add(target.id)
    if observed != 1:
        return f"{observed} observed variables"
    return None if mentioned == 1 else "response used as a covariate"


def _node_problem(node: ast.AST, known: set[str], response: str, labels: set[str]) -> str | None:
    if isinstance(node, ast.keyword) and node.arg == "observed":
        right = isinstance(node.value, ast.Name) and node.value.id == response
        return None if right else "observed is not the response"
    if isinstance(node, ast.Attribute):
        module = node.value.id if isinstance(node.value, ast.Name) else ""
        allowed = {"pm": DISTRIBUTIONS, "pt": FUNCTIONS}.get(module, frozenset())
        return None if node.attr in allowed else f"unknown function {module}.{node.attr}"
    if isinstance(node, ast.Name) and node.id not in known | {"pm", "pt", response}:
        return f"unknown name {node.id}"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value in labels:
            return f"variable {node.value!r} stated twice"
        labels.add(node.value)
    return None

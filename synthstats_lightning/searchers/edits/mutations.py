"""Edits of one program: constants, families, columns, and terms of the location.

Each returns the text of another program, or `None` where it finds nothing to change. None of them mentions a
column that the task does not have.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from random import Random

from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.searchers.edits.columns import EditedTask
from synthstats_lightning.searchers.edits.location import called, find_location
from synthstats_lightning.searchers.edits.program_text import Change, ProgramText, pruned

Mutation = Callable[[ProgramText, EditedTask, Random], str | None]

FACTORS = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0)
SWAPS = (
    ("Normal", "Laplace", "Logistic", "Cauchy"),
    ("HalfNormal", "HalfCauchy"),
    ("Gamma", "InverseGamma"),
)
"""Distributions that take the same arguments in the same order."""
DEGREES = ("3", "4", "5", "10")
FIXED = frozenset({"shape", "size", "dims", "n", "initval", "observed", "lower", "upper", "name"})
"""Keywords whose values are no constants of a prior."""
_ADDS = ast.Add, ast.Sub
_TIGHT = ast.BinOp, ast.UnaryOp, ast.Name, ast.Call, ast.Constant, ast.Subscript, ast.Attribute
NAMES = tuple("abcdefgh")


def rescale_constant(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """Another constant of a prior, larger or smaller by a coarse factor.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    found: list[ast.Constant] = []
    for statement in program.statements:
        value = statement.node.value if isinstance(statement.node, ast.Assign) else None
        if isinstance(value, ast.Call) and value is not program.response and called(value) != "Uniform":
            given = [*value.args, *(word.value for word in value.keywords if word.arg not in FIXED)]
            found += [each for each in given if isinstance(each, ast.Constant) and _is_number(each)]
    if not found:
        return None
    node = rng.choice(found)
    number = float(node.value)  # type: ignore[arg-type]
    new = coarse(number * rng.choice(FACTORS)) if number else coarse(rng.choice(FACTORS))
    return program.changed([program.replaced(node, text(new))])


def swap_column(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """Another covariate in place of one, where it is read.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    location = find_location(program)
    if location is None or len(task.ranges) < 2:
        return None
    indices = _within_indices(location.node)
    nodes = [each for each in ast.walk(location.node) if _is_column(each, task) and each not in indices]
    if not nodes:
        return None
    node = rng.choice(nodes)
    others = [name for name in task.ranges if name != program.text(node)]
    return program.changed([program.replaced(node, rng.choice(others))])


def swap_family(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """Another distribution of the same arguments, of a prior or of the response.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    calls = [
        node
        for statement in program.statements
        for node in ast.walk(statement.node)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and any(called(node) in group for group in SWAPS)
        and {word.arg for word in node.keywords} <= {"observed", "shape"}
    ]
    if not calls:
        return None
    node = rng.choice(calls)
    group = next(group for group in SWAPS if called(node) in group)
    new = rng.choice([name for name in group if name != called(node)])
    _, end = program.span(node.func)
    return program.changed([Change(end - len(called(node).encode()), end, new)])


def change_tails(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """Student's t in place of a normal response, negative binomial of a Poisson one, and the other way.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    call, family = program.response, called(program.response)
    if any(word.arg not in ("observed", "sigma") for word in call.keywords):
        return None
    given = [program.text(each) for each in call.args]
    given += [program.text(word.value) for word in call.keywords if word.arg == "sigma"]
    words = {word.arg: program.text(word.value) for word in call.keywords}
    observed = f"observed={words['observed']}"
    changes: list[Change] = []
    if family == "Normal" and len(given) == 3:
        arguments = [given[0], rng.choice(DEGREES), given[1], f"sigma={given[2]}", observed]
        new = "StudentT"
    elif family == "StudentT" and len(given) == 4:
        new, arguments = "Normal", [given[0], given[2], given[3], observed]
    elif family == "Poisson" and len(given) == 2:
        name = fresh_name(program, task)
        changes.append(
            program.inserted([f'{name} = pm.Exponential("{name}", 1)'], program.response_statement)
        )
        new, arguments = "NegativeBinomial", [*given, name, observed]
    elif family == "NegativeBinomial" and len(given) == 3:
        new, arguments = "Poisson", [*given[:2], observed]
    else:
        return None
    changes.append(program.replaced(call, f"pm.{new}({', '.join(arguments)})"))
    return pruned(program.changed(changes))


def add_term(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """A further term of the location, a new parameter times a column or a function of it.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    location = find_location(program)
    if location is None or not task.ranges or not isinstance(location.node, _TIGHT):
        return None
    column = rng.choice(list(task.ranges))
    low, high = task.ranges[column]
    forms = [column, column, f"{column}**2"]
    forms += [f"pt.log({column})"] if low > 0 else []
    forms += [f"pt.sqrt({column})"] if low >= 0 else []
    form = rng.choice(forms)
    wide = 3.0 if location.link or location.family == "LogNormal" else _span(task.response_range)
    reach = {column: high - low, f"{column}**2": max(low**2, high**2)}.get(form, 2.0)
    name = fresh_name(program, task)
    scale = coarse(max(wide, 1e-9) / max(reach, 1e-9))
    prior = f'{name} = pm.Normal("{name}", 0, {text(scale)})'
    _, end = program.span(location.node)
    added = program.inserted([prior], program.holding(location.node))
    return program.changed([Change(end, end, f" + {name}*{form}"), added])


def remove_term(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """A term of the location less, and the parameters that nothing reads any more.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    location = find_location(program)
    sums: list[ast.BinOp] = []
    node = None if location is None else location.node
    while isinstance(node, ast.BinOp) and isinstance(node.op, _ADDS):
        sums.append(node)
        node = node.left
    if not sums:
        return None
    chosen = rng.choice(sums)
    sides = [chosen.left] if isinstance(chosen.op, ast.Sub) else [chosen.left, chosen.right]
    kept = rng.choice(sides)
    return pruned(program.changed([program.replaced(chosen, program.text(kept))]))


def change_shape(program: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """A column through a function of it in the location, or without the one that it went through.

    Args:
        program: The program that is edited.
        task: What is known of its task.
        rng: Source of randomness.
    """
    location = find_location(program)
    if location is None:
        return None
    changes: list[tuple[ast.expr, list[str]]] = []
    wrapped = _fixed(location.node)
    for node in ast.walk(location.node):
        inner: ast.expr | None = None
        if isinstance(node, ast.Call) and called(node) in ("log", "sqrt") and len(node.args) == 1:
            inner = node.args[0]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _is_number(node.right):
            inner = node.left
        if inner is not None and _is_column(inner, task):
            wrapped.add(inner)
            changes.append((node, [program.text(inner)]))  # type: ignore[arg-type]
    for node in ast.walk(location.node):
        if isinstance(node, ast.Name) and _is_column(node, task) and node not in wrapped:
            low, _ = task.ranges[node.id]
            forms = [f"{node.id}**2"]
            forms += [f"pt.log({node.id})"] if low > 0 else []
            forms += [f"pt.sqrt({node.id})"] if low >= 0 else []
            changes.append((node, forms))
    if not changes:
        return None
    node, forms = rng.choice(changes)
    return program.changed([program.replaced(node, rng.choice(forms))])


MUTATIONS: dict[str, Mutation] = {
    "constant": rescale_constant,
    "column": swap_column,
    "family": swap_family,
    "tails": change_tails,
    "more": add_term,
    "less": remove_term,
    "shape": change_shape,
}
"""Every edit by its name."""


def mutated(source: str, task: EditedTask, rng: Random) -> str | None:
    """A program with one edit; `None` where none of them finds anything to change.

    Args:
        source: Source text of a program that has a score.
        task: What is known of its task.
        rng: Source of randomness.
    """
    try:
        program = ProgramText(source)
    except ValueError:
        return None
    names = list(MUTATIONS)
    rng.shuffle(names)
    for name in names:
        try:
            found = MUTATIONS[name](program, task, rng)
        except ValueError:  # of a text that cannot be read again
            continue
        if found is not None and found != source:
            return found
    return None


def fresh_name(program: ProgramText, task: EditedTask) -> str:
    """A short name that neither the program nor the task has.

    Args:
        program: The program that is edited.
        task: What is known of its task.
    """
    taken = {*program.names, *task.ranges, task.response}
    numbered = (f"{name}{number}" for number in range(2, 1000) for name in NAMES)
    return next(name for name in (*NAMES, *numbered) if name not in taken)


def _span(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_column(node: ast.AST, task: EditedTask) -> bool:
    return isinstance(node, ast.Name) and node.id in task.ranges


def _within_indices(tree: ast.expr) -> set[ast.AST]:
    """Everything that stands in square brackets, where other columns would mean another thing."""
    indices = [node.slice for node in ast.walk(tree) if isinstance(node, ast.Subscript)]
    return {node for index in indices for node in ast.walk(index)}


def _fixed(tree: ast.expr) -> set[ast.AST]:
    """Indices, bases and exponents."""
    powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
    return _within_indices(tree) | {side for node in powers for side in (node.left, node.right)}

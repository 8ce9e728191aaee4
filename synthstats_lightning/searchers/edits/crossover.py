"""A program of two: the one's location within the other, or some of the one's priors in the other."""

from __future__ import annotations

import ast
from random import Random

from synthstats_lightning.searchers.edits.columns import EditedTask
from synthstats_lightning.searchers.edits.location import called, find_location
from synthstats_lightning.searchers.edits.mutations import fresh_name
from synthstats_lightning.searchers.edits.program_text import Change, ProgramText, Statement, pruned


def crossed(first: str, second: str, task: EditedTask, rng: Random) -> str | None:
    """A program of statements of two; `None` where they have nothing to exchange.

    Args:
        first: Source text of a program that has a score: what is left of it is the frame of the new one.
        second: Source text of another one.
        task: What is known of their task.
        rng: Source of randomness.
    """
    try:
        frame, other = ProgramText(first), ProgramText(second)
        kinds = [_with_location, _with_priors]
        rng.shuffle(kinds)
        for exchange in kinds:
            found = exchange(frame, other, task, rng)
            if found is not None and found not in (first, second):
                return found
    except ValueError:  # of a text that cannot be read, or not again
        return None
    return None


def _with_location(frame: ProgramText, other: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """The frame with the other's location, and the statements that this needs."""
    old, new = find_location(frame), find_location(other)
    if old is None or new is None or old.link != new.link:
        return None
    reads = [node.id for node in ast.walk(new.node) if isinstance(node, ast.Name)]
    needed = other.needed(reads)
    inside = frame.holding(old.node)
    lines: list[str] = []
    names: dict[str, str] = {}
    taken = set(frame.names)
    for statement in needed:
        text = renamed(other, statement, names)
        own = frame.defining(statement.name)
        if own is not None and own.end <= inside.start and frame.text(own.node) == text:
            continue  # both have it
        if statement.name in taken:
            names[statement.name] = fresh = _other_name(frame, other, task, set(names.values()))
            taken.add(fresh)
            text = renamed(other, statement, names)
        if "\n" in text:
            return None
        lines.append(text)
    expression = _renamed(other, new.node, other.span(new.node)[0], other.text(new.node), names)
    text = frame.text(old.node)
    changes = [frame.replaced(old.node, expression)] if text != expression else []
    if not changes and not lines:
        return None
    if lines:
        changes.append(frame.inserted(lines, inside))
    return pruned(frame.changed(changes))


def _with_priors(frame: ProgramText, other: ProgramText, task: EditedTask, rng: Random) -> str | None:
    """The frame with the other's priors of some of the parameters that both have."""
    changes: list[Change] = []
    for statement in frame.statements:
        theirs = other.defining(statement.name) if statement.name else None
        if theirs is None or not (_is_prior(statement) and _is_prior(theirs)):
            continue
        text = other.text(theirs.node)
        if text != frame.text(statement.node) and rng.random() < 0.5:
            changes.append(frame.replaced(statement.node, text))
    return frame.changed(changes) if changes else None


def renamed(program: ProgramText, statement: Statement, names: dict[str, str]) -> str:
    """The text of a statement with other names, in what PyMC calls a variable too.

    Args:
        program: The program that it stands in.
        statement: One of its statements.
        names: Old names to new ones.
    """
    return _renamed(program, statement.node, statement.start, program.text(statement.node), names)


def _renamed(program: ProgramText, tree: ast.AST, start: int, text: str, names: dict[str, str]) -> str:
    changes = [
        (*program.span(node), names[node.id])
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in names
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            label = node.args[0]
            if label.value in names:
                changes.append((*program.span(label), f'"{names[str(label.value)]}"'))
    written = text.encode()
    for first, last, new in sorted(changes, reverse=True):
        written = written[: first - start] + new.encode() + written[last - start :]
    return written.decode()


def _other_name(frame: ProgramText, other: ProgramText, task: EditedTask, given: set[str]) -> str:
    everything = EditedTask(
        {**task.ranges, **dict.fromkeys((*other.names, *given), (0.0, 0.0))}, task.response, (0.0, 0.0)
    )
    return fresh_name(frame, everything)


def _is_prior(statement: Statement) -> bool:
    """Whether a statement states one random variable whose parameters are numbers."""
    value = statement.node.value if isinstance(statement.node, ast.Assign) else None
    if not isinstance(value, ast.Call) or called(value) == "Deterministic" or not value.args:
        return False
    names = [
        node for each in (*value.args, *(word.value for word in value.keywords)) for node in ast.walk(each)
    ]
    return isinstance(value.args[0], ast.Constant) and not any(isinstance(each, ast.Name) for each in names)

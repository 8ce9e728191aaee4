"""Each task's own generating program, written by hand in PyMC: the oracle's model, not its parameters."""

from __future__ import annotations

import io
import tokenize
from importlib.resources import files

from synthstats_lightning.tasks.task import Task


def reference_names() -> list[str]:
    """Names of the programs in `tasks/reference`."""
    folder = files(__package__).joinpath("reference")
    return sorted(item.name[:-3] for item in folder.iterdir() if item.name.endswith(".py"))


def reference_program(task: Task) -> str:
    """The program that a task's data come from, or for real data the published one.

    It uses columns by name; those of a task without domain knowledge are renamed.

    Args:
        task: A bundled task or one of a bundled simulator.

    Raises:
        ValueError: If there is no program of `task.reference`.
    """
    if task.reference not in reference_names():
        raise ValueError(
            f"no reference program for {task.reference!r} of task {task.name!r}; there are programs for"
            f" {', '.join(reference_names())}"
        )
    source = files(__package__).joinpath(f"reference/{task.reference}.py").read_text(encoding="utf-8")
    renamed = {old: new for old, new in task.column_names.items() if old != new}
    return rename_variables(source, renamed) if renamed else source


def rename_variables(source: str, names: dict[str, str]) -> str:
    """A program with other names for some variables; attributes, keywords and texts keep theirs.

    Args:
        source: Python source of a program.
        names: Name to new name.
    """
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for position in reversed(range(len(tokens))):
        token = tokens[position]
        if token.type != tokenize.NAME or token.string not in names or _is_label(tokens, position):
            continue
        row, column = token.start
        line = lines[row - 1]
        lines[row - 1] = line[:column] + names[token.string] + line[column + len(token.string) :]
    return "".join(lines)


def _is_label(tokens: list[tokenize.TokenInfo], position: int) -> bool:
    """Whether a name is an attribute or the keyword of an argument."""
    if position and tokens[position - 1].string == ".":
        return True
    after = tokens[position + 1].string if position + 1 < len(tokens) else ""
    before = tokens[position - 1].string if position else ""
    return after == "=" and before in ("(", ",")

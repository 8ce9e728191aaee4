"""A program's statements, what each defines and reads, and changes of its text at places of its syntax tree.

Only programs that have a score are read: the same parser has read them in a sandbox already. Those that are
long, or deeply bracketed, are left alone all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

LONGEST = 8_000
"""Characters of a program that is edited."""
DEEPEST = 40
"""Brackets within brackets of a program that is edited."""


@dataclass(frozen=True)
class Change:
    """New text in place of some of a program's bytes.

    Attributes:
        start: The first byte that goes.
        end: The byte behind the last that goes.
        text: What stands there afterwards.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Statement:
    """A statement of the block that defines the model.

    Attributes:
        node: Its syntax tree.
        name: The one name that it assigns; empty if it assigns none, or several.
        reads: Names that it reads.
        start: Its first byte, behind the indentation.
        end: The byte behind its last.
    """

    node: ast.stmt
    name: str
    reads: frozenset[str]
    start: int
    end: int


class ProgramText:
    """The block of a program that holds the response, as statements.

    Args:
        source: Source text of a program that has a score.

    Attributes:
        source: The source text.
        statements: Of the innermost block around the response.
        response: The call that is given the observations.

    Raises:
        ValueError: If it is too long or too deep to be read here, or has no one response.
    """

    def __init__(self, source: str) -> None:
        if len(source) > LONGEST or _depth(source) > DEEPEST:
            raise ValueError("source must be short and little nested to be edited")
        self.source = source
        try:
            tree = ast.parse(source)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"source must be Python to be edited: {type(error).__name__}") from None
        self._bytes = source.encode()
        self._lines = _line_starts(self._bytes)
        found = list(_observing(tree.body))
        if len(found) != 1:
            raise ValueError(f"source must hold one response to be edited, got {len(found)}")
        body, self._at, self.response = found[0]
        self.statements = [self._statement(node) for node in body]

    @property
    def response_statement(self) -> Statement:
        """The statement of the response."""
        return self.statements[self._at]

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that the program mentions anywhere, strings included."""
        tree = ast.parse(self.source)
        found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return frozenset(
            found
            | {
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
        )

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The first byte of an expression or statement, and that behind its last.

        Args:
            node: A node of the tree that has a place.
        """
        place: ast.expr = node  # type: ignore[assignment]
        line, column = place.end_lineno or place.lineno, place.end_col_offset or 0
        return self._lines[place.lineno - 1] + place.col_offset, self._lines[line - 1] + column

    def text(self, node: ast.AST) -> str:
        """The text of an expression or statement, without brackets around it.

        Args:
            node: A node of the tree that has a place.
        """
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def changed(self, changes: Sequence[Change]) -> str:
        """The source with changes, which must not overlap.

        Args:
            changes: What is to be changed, in any order.
        """
        text = self._bytes
        for change in sorted(changes, key=lambda each: (-each.start, -each.end)):
            text = text[: change.start] + change.text.encode() + text[change.end :]
        return text.decode()

    def replaced(self, node: ast.AST, text: str) -> Change:
        """New text in place of an expression.

        Args:
            node: The expression that goes.
            text: What stands there afterwards.
        """
        return Change(*self.span(node), text)

    def inserted(self, lines: Sequence[str], before: Statement) -> Change:
        """New statements before one of the block, with its indentation.

        Args:
            lines: The statements, one line each.
            before: The statement that they stand before.
        """
        indent = self._indent(before)
        return Change(before.start, before.start, "".join(f"{line}\n{indent}" for line in lines))

    def removed(self, statement: Statement) -> Change:
        """A statement less, with the line break and the indentation behind it.

        Args:
            statement: The one that goes; not the last one of its block.
        """
        following = self.statements[self.statements.index(statement) + 1]
        return Change(statement.start, following.start, "")

    def defining(self, name: str) -> Statement | None:
        """The statement of the block that assigns a name; `None` if none or several do.

        Args:
            name: The name that is assigned.
        """
        found = [statement for statement in self.statements if statement.name == name]
        return found[0] if len(found) == 1 else None

    def holding(self, node: ast.AST) -> Statement:
        """The statement of the block that an expression stands in.

        Args:
            node: A node of the tree that has a place.

        Raises:
            ValueError: If it stands in none of them.
        """
        start, end = self.span(node)
        for statement in self.statements:
            if statement.start <= start and end <= statement.end:
                return statement
        raise ValueError("node must stand in a statement of the block around the response")

    def needed(self, roots: Sequence[str]) -> list[Statement]:
        """Statements of the block that names rest on, in order.

        Args:
            roots: The names that rest on them.
        """
        pending, found = list(roots), set()
        while pending:
            statement = self.defining(pending.pop())
            if statement is not None and statement.name not in found:
                found.add(statement.name)
                pending += statement.reads
        return [statement for statement in self.statements if statement.name in found]

    def _statement(self, node: ast.stmt) -> Statement:
        reads = {
            each.id
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        }
        targets = node.targets if isinstance(node, ast.Assign) else []
        named = len(targets) == 1 and isinstance(targets[0], ast.Name)
        name = targets[0].id if named and isinstance(targets[0], ast.Name) else ""
        return Statement(node, name, frozenset(reads), *self.span(node))

    def _indent(self, statement: Statement) -> str:
        start = self._lines[statement.node.lineno - 1]
        return self._bytes[start : statement.start].decode()


def pruned(source: str) -> str:
    """A program without the statements whose names nothing reads any more; quantities are kept.

    Args:
        source: Source text of a program.

    Raises:
        ValueError: If it cannot be read.
    """
    while True:
        text = ProgramText(source)
        read = [name for statement in text.statements for name in statement.reads]
        idle = next(
            (
                statement
                for statement in text.statements
                if statement.name
                and statement is not text.response_statement
                and statement is not text.statements[-1]
                and statement.name not in read
                and "Deterministic" not in text.text(statement.node)
                and "Potential" not in text.text(statement.node)
            ),
            None,
        )
        if idle is None:
            return source
        source = text.changed([text.removed(idle)])


def _observing(body: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int, ast.Call]]:
    """The block, the statement's place in it and the call of everything that is observed."""
    for place, statement in enumerate(body):
        inner = [
            block
            for name in ("body", "orelse", "finalbody")
            if isinstance(block := getattr(statement, name, None), list)
        ]
        for block in inner:
            yield from _observing(block)
        if inner:
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and any(word.arg == "observed" for word in node.keywords):
                yield body, place, node


def _depth(source: str) -> int:
    deepest = depth = 0
    for mark in source:
        if mark in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in ")]}":
            depth -= 1
    return deepest


def _line_starts(text: bytes) -> list[int]:
    """As the parser counts lines."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts

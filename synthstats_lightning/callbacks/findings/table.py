"""The table that says what was found out before a run."""

from __future__ import annotations

from typing import Literal, NamedTuple

Outcome = Literal["ok", "warning", "failed"]


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        subject: What was looked at.
        outcome: How it came out: `"ok"`, `"warning"` or `"failed"`.
        found: What was found, a sentence or a figure.
    """

    subject: str
    outcome: Outcome
    found: str


class PreflightTable:
    """What was found out before a run, in the order in which it was."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.texts: dict[str, str] = {}

    def add(self, subject: str, found: str, outcome: Outcome = "ok") -> None:
        """Appends a line.

        Args:
            subject: What was looked at.
            found: What was found; line breaks become spaces.
            outcome: How it came out.
        """
        self.rows.append(Row(subject, outcome, " ".join(found.split())))

    def show(self, title: str, text: str) -> None:
        """Appends a text that is printed whole after the lines.

        Args:
            title: What the text is.
            text: It may have many lines.
        """
        self.texts[title] = text

    @property
    def failed(self) -> bool:
        """Whether anything came out so that the run had better not begin."""
        return any(row.outcome == "failed" for row in self.rows)

    def __str__(self) -> str:
        subjects = max((len(row.subject) for row in self.rows), default=0)
        outcomes = max((len(row.outcome) for row in self.rows), default=0)
        lines = [f"{row.subject:<{subjects}}  {row.outcome:<{outcomes}}  {row.found}" for row in self.rows]
        for title, text in self.texts.items():
            lines += ["", f"--- {title} ---", text.rstrip("\n")]
        return "\n".join(lines)

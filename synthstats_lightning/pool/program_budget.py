"""How many distinct programs may be scored: the same count for every way of searching."""

from __future__ import annotations

from collections.abc import Collection


class ProgramBudget:
    """Counts distinct programs against a limit; one that comes again costs nothing, one that fails counts.

    Args:
        limit: Distinct programs of all tasks together; `None` for no limit.
        known: Task index and source of programs that have been counted before.

    Attributes:
        repeated: How often a program came again.

    Raises:
        ValueError: If `limit` is below 1.
    """

    def __init__(self, limit: int | None = None, known: Collection[tuple[int, str]] = ()) -> None:
        if limit is not None and limit < 1:
            raise ValueError(f"max_programs must be at least 1, got {limit}")
        self.limit = limit
        self.repeated = 0
        self._seen = set(known)

    @property
    def used(self) -> int:
        """Distinct programs so far."""
        return len(self._seen)

    @property
    def left(self) -> int | None:
        """Distinct programs that may still be scored; `None` without a limit."""
        return None if self.limit is None else max(0, self.limit - self.used)

    @property
    def spent(self) -> bool:
        """Whether no further program may be scored."""
        return self.left == 0

    def admits(self, task_index: int, source: str) -> bool:
        """Whether a program may be scored, which is then counted.

        Args:
            task_index: Position of its task.
            source: Source text of the program.
        """
        key = (task_index, source)
        if key in self._seen:
            self.repeated += 1
            return True
        if self.spent:
            return False
        self._seen.add(key)
        return True

    def grant(self, number: int) -> None:
        """Allows further programs, beside what is left.

        Args:
            number: How many distinct programs are allowed in addition.
        """
        if self.limit is not None:
            self.limit += number

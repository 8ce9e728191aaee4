"""Columns by the names that a user may give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthstats_lightning.tasks.intake.names import python_names, split_unit
from synthstats_lightning.tasks.intake.raw_table import RawTable


class GivenNames:
    """The table's own names, those without units, and those that programs use.

    Args:
        raw: The table as it was read.
    """

    def __init__(self, raw: RawTable) -> None:
        self._source = raw.source
        names = list(raw.columns)
        self._known = {name: name for name in names}
        stems = [split_unit(name)[0] for name in names]
        for name, stem, program in zip(names, stems, python_names(stems), strict=True):
            for other in (program, f"{program}_code", stem):
                self._known.setdefault(other, name)
        self._listed = ", ".join(names)

    def find(self, name: str, setting: str) -> str:
        """The table's own name of a column.

        Args:
            name: Any name of it.
            setting: The setting that names it, for the message.

        Raises:
            ValueError: If no column has the name.
        """
        if name not in self._known:
            raise ValueError(f"{setting} {name!r} is not a column of {self._source}; columns: {self._listed}")
        return self._known[name]

    def keys(
        self, given: Mapping[str, Any] | None, setting: str, allowed: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """What a setting says of columns, by the table's own names.

        Args:
            given: Any name to what is said.
            setting: The setting, for messages.
            allowed: What may be said; anything by default.

        Raises:
            ValueError: If no column has a name, or something else is said.
        """
        found = {}
        for name, value in (given or {}).items():
            if allowed is not None and value not in allowed:
                raise ValueError(f"{setting} of {name!r} must be one of {', '.join(allowed)}, got {value!r}")
            found[self.find(name, f"{setting}:")] = value
        return found

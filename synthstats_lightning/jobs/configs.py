"""Job files in Python: read, checked and written back."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from synthstats_lightning.jobs.translation import Translation, nested, translate
from synthstats_lightning.jobs.translation.translate import JobKind, job_kind

Config = TypeVar("Config", bound="JobConfig")


class JobError(ValueError):
    """A job file that is wrong.

    Args:
        problems: Everything that is wrong with it, a line each.

    Attributes:
        problems: The lines, in the order of the file.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class JobConfig:
    """A job: what its file says, and what that comes to.

    Attributes:
        translation: The configuration of its run.
    """

    kind: ClassVar[JobKind | None] = None

    translation: Translation

    @classmethod
    def from_path(cls: type[Config], path: str | Path) -> Config:
        """The job of a TOML file.

        Args:
            path: Where the file is.

        Raises:
            FileNotFoundError: If there is no such file.
            JobError: If it is no TOML, or anything in it is wrong.
        """
        return cls.from_mapping(read_toml(path))

    @classmethod
    def from_mapping(cls: type[Config], document: Mapping[str, Any]) -> Config:
        """The job of nested tables.

        Args:
            document: What a job file would hold.

        Raises:
            JobError: If anything in it is wrong; all of that at once.
        """
        if cls.kind is not None and (found := job_kind(document)) != cls.kind:
            raise JobError(
                [f"{cls.__name__} must be given a job of kind {cls.kind!r}, got one of kind {found!r}"]
            )
        translation = translate(document)
        if translation.problems:
            raise JobError(translation.problems)
        return cls(translation)

    def to_dict(self) -> dict[str, Any]:
        """What a job file of it holds, under present names: nested tables."""
        return nested(copy.deepcopy(dict(self.translation.values)))

    @property
    def configuration(self) -> dict[str, Any]:
        """What `fit` is given; empty for a search."""
        return copy.deepcopy(self.translation.configuration)


class RLConfig(JobConfig):
    """A job that learns from rewards."""

    kind = "rl"


class SFTConfig(JobConfig):
    """A job that imitates examples."""

    kind = "sft"


class GraphConfig(JobConfig):
    """A job that searches among model graphs."""

    kind = "graph"


def read_toml(path: str | Path) -> dict[str, Any]:
    """What a TOML file holds.

    Args:
        path: Where the file is.

    Raises:
        FileNotFoundError: If there is no such file.
        JobError: If it is no TOML, or says nothing: one that was cut short is no job of defaults alone.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no job file at {path}")
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))  # Windows' editors put a mark first
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise JobError([f"{path} is no TOML: {error}"]) from None
    if not found:
        raise JobError([f"{path} holds no key: a job has at least one, such as algorithm.type or graph"])
    return found

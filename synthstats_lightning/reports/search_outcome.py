"""What a search leaves beside its programs: how it went, and which estimates its records allow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from synthstats_lightning.runtime.durable_files import write_text

SEARCH = "search.json"


@dataclass(frozen=True)
class TaskOutcome:
    """How the search of one task went.

    Attributes:
        programs: Distinct programs that were counted against the budget.
        proposals: Programs that were proposed, repeats and those without a stop token too.
        repeated: Proposals that cost nothing because their program had been scored before.
        rounds: Rounds of proposals.
        seconds: From the first proposal to the last score.
        ended: Why it ended; empty while it has not.
        log_z: Log of prior times evidence summed over all programs, in nats; `None` where the method gives no
            estimate.
        log_z_se: Its standard error in nats; `None` where it is not known.
        effective_sample_size: Programs of equal weight that would tell as much; `None` where the method gives
            no draws of a known law.
    """

    programs: int = 0
    proposals: int = 0
    repeated: int = 0
    rounds: int = 0
    seconds: float = 0.0
    ended: str = ""
    log_z: float | None = None
    log_z_se: float | None = None
    effective_sample_size: float | None = None


@dataclass(frozen=True)
class SearchOutcome:
    """What `search.json` holds.

    Attributes:
        method: Name of the searcher's class.
        independent: Whether the records are independent draws of known probability, so that they themselves
            estimate log Z and the mass that was not found.
        log_z_from: Where log Z comes from, or why there is none.
        shares_from: What the shares are.
        budget: Distinct programs that each task was given; `None` without a limit.
        tasks: How it went, by name of the task.
    """

    method: str
    independent: bool
    log_z_from: str
    shares_from: str
    budget: int | None = None
    tasks: Mapping[str, TaskOutcome] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Writes `search.json`, whole or not at all.

        Args:
            folder: The run's folder.
        """
        write_text(folder / SEARCH, json.dumps(asdict(self), indent=2, allow_nan=False) + "\n")

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> SearchOutcome:
        """The inverse of `asdict`.

        Args:
            fields: What `search.json` holds.
        """
        tasks = {name: TaskOutcome(**each) for name, each in fields["tasks"].items()}
        return cls(**{**fields, "tasks": tasks})


def read_outcome(folder: Path) -> SearchOutcome | None:
    """How the search of a folder went; `None` of a run that was no search.

    Args:
        folder: The run's folder.

    Raises:
        ValueError: If its `search.json` cannot be read.
    """
    path = folder / SEARCH
    if not path.is_file():
        return None
    try:
        return SearchOutcome.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not say how a search went: {error!r}") from None

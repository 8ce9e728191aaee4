"""The section `search` of a configuration."""

from __future__ import annotations

from synthstats_lightning.searchers.sample_and_weight import SampleAndWeight
from synthstats_lightning.searchers.searcher import Searcher


class SearchSettings:
    """How programs are searched for.

    Args:
        method: The searcher; `SampleAndWeight` by default.
        folder: The run's folder, which a search goes on in if it holds programs; by default a new one, the
            logger's.
        most_proposals: Proposals of a task after which the search ends whatever it has found; by default
            twenty for each program of the budget.

    Raises:
        ValueError: If `most_proposals` is below 1.
    """

    def __init__(
        self, method: Searcher | None = None, folder: str | None = None, most_proposals: int | None = None
    ) -> None:
        if most_proposals is not None and most_proposals < 1:
            raise ValueError(f"most_proposals must be at least 1, got {most_proposals}")
        self.method = method or SampleAndWeight()
        self.folder, self.most_proposals = folder, most_proposals

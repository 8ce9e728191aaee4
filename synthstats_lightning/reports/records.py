"""Every distinct program that a run has seen, with its score."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from synthstats_lightning.programs.graph_lines import GraphLines
from synthstats_lightning.runtime.durable_files import write_text
from synthstats_lightning.scoring.score import Score

PRIOR_SHARE = 0.1
"""Of a report's fresh programs, which the prior writes, unless something else is asked for."""


@dataclass(slots=True)
class ProgramRecord:
    """One distinct program of one task.

    Attributes:
        task: Name of the task.
        source: Source text of the program.
        score: Its score or failure.
        log_reward: What the objective sees, in nats.
        log_prob: Log-probability under the policy that sampled it last, in nats.
        reference_log_prob: Log-probability with the adapter off, in nats.
        count: How often it was sampled.
        fresh: How many of these samples were drawn after training at temperature 1, or by the warm-up if
            the report weighs them together: `log_prob`, or `mixture_log_prob` if there is one, is then
            exactly what they were sampled by.
        step: Training step at which it was first sampled; `None` where that is not known.
        span: Of the answer that it was first read from: the first of the tokens that hold it, and that behind
            the last; `None` where that is not known.
        origin: Where it comes from, if the policy has not written it: `"demonstrations"`, or a chat model.
        mixture_log_prob: Log-probability with which its fresh samples were drawn, where the policy wrote a
            share of all fresh ones and the prior or the warm-up the others, in nats; `None` where the policy
            wrote all.
    """

    task: str
    source: str
    score: Score
    log_reward: float
    log_prob: float
    reference_log_prob: float
    count: int = 1
    fresh: int = 0
    step: int | None = None
    span: tuple[int, int] | None = None
    origin: str = ""
    mixture_log_prob: float | None = None

    @property
    def drawn_log_prob(self) -> float:
        """Log-probability with which a fresh sample was drawn, in nats."""
        return self.log_prob if self.mixture_log_prob is None else self.mixture_log_prob

    def draw_from_mixture(
        self, prior_share: float, warmup_share: float = 0.0, warmup_log_prob: float = -math.inf
    ) -> None:
        """Notes that a fresh sample of it was drawn from a mixture of policy, prior and warm-up.

        Args:
            prior_share: Share of the draws that were the prior's, at least 0.
            warmup_share: Share of them that were the warm-up's, at least 0; less than 1 with the prior's.
            warmup_log_prob: Log-probability with which the warm-up draws it, in nats.
        """
        parts = (
            (1 - prior_share - warmup_share, self.log_prob),
            (prior_share, self.reference_log_prob),
            (warmup_share, warmup_log_prob),
        )
        self.mixture_log_prob = float(
            np.logaddexp.reduce([math.log(share) + log_prob for share, log_prob in parts if share > 0])
        )

    def to_json_line(self, graphs: GraphLines | None = None) -> str:
        """One line of `programs.jsonl`, with its line break.

        Args:
            graphs: What the lines before hold; a line by itself holds its graph whole.
        """
        fields = self.to_dict() if graphs is None else graphs.shorten(self.to_dict())
        return json.dumps(fields, allow_nan=False) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The fields of a line of `programs.jsonl`: what each row adds to the evidence is left out."""
        score = self.score.to_dict()
        if "evidence" in score["diagnostics"]:
            score["diagnostics"] = {**score["diagnostics"]}
            score["diagnostics"]["evidence"] = {**score["diagnostics"]["evidence"], "pointwise": []}
        return {
            "task": self.task,
            "source": self.source,
            **score,
            "log_reward": self.log_reward,
            "log_prob": self.log_prob,
            "reference_log_prob": self.reference_log_prob,
            "count": self.count,
            "fresh": self.fresh,
            "step": self.step,
            "span": None if self.span is None else list(self.span),
            **({"origin": self.origin} if self.origin else {}),
            **({} if self.mixture_log_prob is None else {"mixture_log_prob": self.mixture_log_prob}),
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ProgramRecord:
        """The inverse of `to_dict`."""
        names = ("task", "source", "log_reward", "log_prob", "reference_log_prob", "count", "fresh", "step")
        own = {name: fields[name] for name in names}
        span = None if fields.get("span") is None else tuple(fields["span"])
        own |= {"origin": fields.get("origin", ""), "mixture_log_prob": fields.get("mixture_log_prob")}
        score = {key: value for key, value in fields.items() if key not in (*own, "span")}
        return cls(score=Score.from_dict(score), span=span, **own)


class ProgramRecords:
    """Records by task and source.

    Args:
        records: The first ones.
        capacity: Most programs that are kept; when there are more, a tenth goes: failed ones, then those of
            lowest log reward. `None` keeps all.

    Raises:
        ValueError: If `capacity` is below 10.
    """

    def __init__(self, records: Iterable[ProgramRecord] = (), capacity: int | None = None) -> None:
        if capacity is not None and capacity < 10:
            raise ValueError(f"max_records must be at least 10, got {capacity}")
        self.capacity = capacity
        self._records = {(record.task, record.source): record for record in records}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ProgramRecord]:
        return iter(self._records.values())

    def get(self, task: str, source: str) -> ProgramRecord | None:
        """The record of a program, if there is one.

        Args:
            task: Name of its task.
            source: Source text of the program.
        """
        return self._records.get((task, source))

    def __contains__(self, record: ProgramRecord) -> bool:
        return (record.task, record.source) in self._records

    def add(self, record: ProgramRecord) -> bool:
        """Adds a program, or counts it and takes its newest log-probability if it is known.

        A score takes the place of a failure that was the machine's doing, and one that more terms of the
        reward have judged that of one that fewer have.

        Returns:
            Whether it was new.
        """
        known = self._records.setdefault((record.task, record.source), record)
        if known is not record:
            known.count += record.count
            known.fresh += record.fresh
            known.log_prob = record.log_prob
            if record.fresh:
                known.mixture_log_prob = record.mixture_log_prob
            if not known.score.settled or len(record.score.terms) > len(known.score.terms):
                known.score, known.log_reward = record.score, record.log_reward
            return False
        if self.capacity is not None and len(self) > self.capacity:
            self._forget(len(self) - self.capacity + self.capacity // 10)
        return True

    def clear(self) -> None:
        """Forgets every program."""
        self._records.clear()

    def _forget(self, number: int) -> None:
        worst = sorted(self._records.items(), key=lambda item: (item[1].score.scored, item[1].log_reward))
        worst = worst[:number]
        for key, _ in worst:
            del self._records[key]

    def to_json_lines(self) -> str:
        """One JSON document a line, in the order in which programs were first seen."""
        graphs = GraphLines()
        return "".join(record.to_json_line(graphs) for record in self)

    @classmethod
    def from_json_lines(cls, text: str) -> ProgramRecords:
        """The inverse of `to_json_lines`."""
        graphs = GraphLines()
        return cls(ProgramRecord.from_dict(graphs.restore(json.loads(line))) for line in text.splitlines())

    def write(self, path: Path, graphs: GraphLines | None = None) -> None:
        """Writes `programs.jsonl`, whole or not at all.

        Args:
            path: Where the file is written.
            graphs: Takes up what the lines hold, for those that are appended.
        """
        graphs = GraphLines() if graphs is None else graphs
        write_text(path, "".join(record.to_json_line(graphs) for record in self))

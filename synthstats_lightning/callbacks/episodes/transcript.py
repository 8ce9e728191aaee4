"""Episodes as files: one JSON document a line, and the same to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.durable_files import GrowingFile
from synthstats_lightning.tasks.experiments.episode import ExperimentEpisode


def transcript(program: PendingProgram, record: ProgramRecord) -> dict[str, Any]:
    """An episode turn by turn, with what became of it.

    Args:
        program: A scored episode.
        record: Its score and log reward.

    Returns:
        `task`, `step` (training step at which it was sampled), `turns` (each `text`, `kind`, `answer` and,
        for an experiment, `design`), `experiments`, `program`, `status` (`scored` or the failure),
        `message`, `heldout_lpd`, `log_reward`, `log_prob` and `reference_log_prob` (nats).
    """
    episode: ExperimentEpisode = program.episode
    turns: list[dict[str, Any]] = []
    for turn in episode.turns:
        turns.append({"text": turn.text, "kind": turn.kind, "answer": turn.answer})
        if turn.design is not None:
            turns[-1]["design"] = turn.design
    failure = record.score.failure
    return {
        "task": record.task,
        "step": program.step,
        "turns": turns,
        "experiments": len(episode.observed),
        "program": episode.program,
        "status": "scored" if failure is None else str(failure),
        "message": record.score.message,
        "heldout_lpd": record.score.heldout_lpd,
        "log_reward": record.log_reward,
        "log_prob": record.log_prob,
        "reference_log_prob": record.reference_log_prob,
    }


def readable(document: Mapping[str, Any], number: int) -> str:
    """A transcript as text to read.

    Args:
        document: What `transcript` returns.
        number: Number of the episode in its file.
    """
    lines = [f"=== episode {number}: {document['task']}, training step {document['step']}"]
    for index, turn in enumerate(document["turns"], start=1):
        lines += [f"--- turn {index}, policy ({turn['kind'].replace('_', ' ')})", turn["text"]]
        if turn["answer"]:
            lines += ["--- environment", turn["answer"]]
    lines += [f"--- outcome: {_outcome(document)}", ""]
    return "\n".join(lines)


def _outcome(document: Mapping[str, Any]) -> str:
    if document["status"] == "scored":
        told = f"held-out log predictive density {document['heldout_lpd']:.2f} nats"
    else:
        told = f"{document['status']} ({document['message']})"
    return f"{told}, log reward {document['log_reward']:.2f}, {document['experiments']} experiments"


class TranscriptFiles:
    """Appends transcripts to `transcripts.jsonl` and `transcripts.txt` of a run's folder.

    A resumed run goes on where the files end. On several processes each has files of its own: the rank stands
    before the suffix, but for the first.

    Args:
        folder: The run's folder, made with the first transcript.
        rank: Rank of this process, which names its files.
    """

    def __init__(self, folder: Path, rank: int = 0) -> None:
        stem = "transcripts" if rank == 0 else f"transcripts-{rank}"
        self.lines = GrowingFile(folder / f"{stem}.jsonl")
        self.text = GrowingFile(folder / f"{stem}.txt")
        self._number: int | None = None

    def write(self, documents: list[dict[str, Any]]) -> None:
        """Appends some episodes.

        Args:
            documents: What `transcript` returns.
        """
        if not documents:
            return
        if self._number is None:
            path = self.lines.path
            self._number = path.read_bytes().count(b"\n") if path.exists() else 0
        for document in documents:
            self._number += 1
            self.lines.append(json.dumps(document, allow_nan=False) + "\n")
            self.text.append(readable(document, self._number) + "\n")

    def sync(self) -> None:
        """Waits until every episode is on the disk."""
        self.lines.sync()
        self.text.sync()

    def close(self) -> None:
        """Closes both files; `write` opens them again."""
        self.lines.close()
        self.text.close()

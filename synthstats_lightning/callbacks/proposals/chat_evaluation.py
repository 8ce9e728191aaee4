"""What a chat model's programs are worth, in `validate`, `test` and `predict`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.run_parts import run_folder, run_tasks, run_workers
from synthstats_lightning.callbacks.sample_scorer import SampleScorer
from synthstats_lightning.evaluation.chat_module import MISSING, ChatAnswerOfTask, ChatModule
from synthstats_lightning.learning.sampling_module import PROGRAMS
from synthstats_lightning.metrics import effective_number
from synthstats_lightning.rollouts.chat_writer import ChatProgram
from synthstats_lightning.runtime.distributed import gather_objects
from synthstats_lightning.scoring.score import Score


class ScoredAnswer(NamedTuple):
    """What became of a request for a program.

    Attributes:
        task_index: Position of its task.
        program: The program, or why there is none.
        score: Its score; `None` where there is no program.
    """

    task_index: int
    program: ChatProgram
    score: Score | None


class ChatEvaluation(Callback):
    """Scores the programs of a chat model as those of a policy are, and logs what can be said of them.

    Of a model without log-probabilities that is: how many requests were answered, how many programs have a
    score, and how good and how different these are. Log Z, estimates by importance sampling, residuals and
    shares by weight are missing, and that is said. Failures are counted by category.

    Writes `answers-RANK.jsonl`, or of `predict` `predictions-RANK.jsonl`, into the run's folder: a line a
    request.

    Args:
        scoring: Whose settings programs are scored by; it takes no part in the run itself.
    """

    def __init__(self, scoring: ProgramScoring) -> None:
        self.scoring = scoring
        self._scorer: SampleScorer | None = None
        self._waiting: list[tuple[int, ChatProgram, Future[Score] | None]] = []
        self._lines: list[dict[str, Any]] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Starts the workers, where programs are scored.

        Raises:
            RuntimeError: If a baseline program has no score.
        """
        if stage != "predict" and self._scorer is None:
            self._scorer = SampleScorer(
                run_tasks(trainer, None), self.scoring.reward, *run_workers(self.scoring)
            )

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends the workers, and what waits for the endpoint."""
        if self._scorer is not None:
            self._scorer.close()
            self._scorer = None
        if isinstance(pl_module, ChatModule):
            pl_module.writer.close()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Hands the programs to the workers."""
        self._collect(outputs[PROGRAMS])

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Hands the programs to the workers."""
        self._collect(outputs[PROGRAMS])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs `val/...`."""
        self._log(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs `test/...`."""
        self._log(trainer, pl_module, "test")

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Takes a batch of programs."""
        answers: Sequence[ChatAnswerOfTask] = outputs
        for index, program in answers:
            self._lines.append(
                {
                    "task": pl_module.tasks[index],  # type: ignore[index]
                    "source": program.source,
                    "log_prob": None,
                    "reference_log_prob": None,
                    "stopped": not program.failure,
                    "span": None,
                    "failure": program.failure,
                }
            )

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the programs, and says where."""
        path = self._write(trainer, "predictions")
        failed = Counter(line["failure"] for line in self._lines if line["failure"])
        print(
            f"{len(self._lines) - failed.total()} fresh programs of {_name(pl_module)}, not scored, without"
            f" log-probabilities, in {path}; without a program: {_told(failed)}"
        )
        self._lines = []

    def _collect(self, answers: Sequence[ChatAnswerOfTask]) -> None:
        if self._scorer is None:
            raise RuntimeError("the scoring workers run only between setup and teardown")
        for index, program in answers:
            score = None if program.failure else self._scorer.score(program.source, index)
            self._waiting.append((index, program, score))

    def _log(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        waiting, self._waiting = self._waiting, []
        own = [
            ScoredAnswer(index, program, None if score is None else score.result())
            for index, program, score in waiting
        ]
        tasks = run_tasks(trainer, None)
        self._lines = [_line(tasks[answer.task_index].name, answer) for answer in own]
        path = self._write(trainer, "answers")
        self._lines = []
        answers = [answer for rank in gather_objects(own) for answer in rank]
        for index, task in enumerate(tasks):
            of_task = [answer for answer in answers if answer.task_index == index]
            if not of_task:
                continue
            suffix = f"/{task.name}" if len(tasks) > 1 else ""
            for name, value in answer_metrics(of_task).items():
                module.log(f"{stage}/{name}{suffix}", value, batch_size=1)
            failed = Counter(answer.program.failure for answer in of_task if answer.program.failure)
            unscored = Counter(
                str(answer.score.failure)
                for answer in of_task
                if answer.score is not None and not answer.score.scored
            )
            if trainer.is_global_zero:
                print(
                    f"{stage}{suffix}: {len(of_task)} programs asked of {_name(module)}; without a program:"
                    f" {_told(failed)}; without a score: {_told(unscored)}"
                )
        if trainer.is_global_zero:
            print(f"missing: {MISSING}; {_name(module)} gives no log-probabilities; answers in {path}")

    def _write(self, trainer: Trainer, stem: str) -> Path:
        folder = run_folder(trainer)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{stem}-{trainer.global_rank}.jsonl"
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in self._lines)
        path.write_text(text, encoding="utf-8")
        return path


def answer_metrics(answers: Sequence[ScoredAnswer]) -> dict[str, float]:
    """What can be said of programs whose probability nobody knows.

    Args:
        answers: Of one task, one entry a request.

    Returns:
        `answered_rate` (of the requests), and with a program `valid_rate` and `unique_rate` (of the
        programs); with a scored one `evidence` and `elpd` (means in nats, no elpd where none was computed),
        `best_evidence` and `best_elpd`, `structures`, `effective_structures` (exponential of their entropy)
        and `top_structure_share` (of the scored programs). What there is not is left out.
    """
    programs = [answer for answer in answers if answer.score is not None]
    metrics = {"answered_rate": len(programs) / len(answers)}
    if not programs:
        return metrics
    scores = [answer.score for answer in programs if answer.score is not None and answer.score.scored]
    metrics["valid_rate"] = len(scores) / len(programs)
    metrics["unique_rate"] = len({answer.program.source for answer in programs}) / len(programs)
    if not scores:
        return metrics
    for name in ("evidence", "elpd"):
        values = [value for score in scores if (value := getattr(score, name)) is not None]
        if values:
            metrics |= {name: float(np.mean(values)), f"best_{name}": float(np.max(values))}
    counts = np.array(list(Counter(score.structure for score in scores).values()))
    metrics["structures"] = float(len(counts))
    metrics["effective_structures"] = effective_number(counts)
    metrics["top_structure_share"] = float(counts.max() / counts.sum())
    return metrics


def _line(task: str, answer: ScoredAnswer) -> dict[str, Any]:
    """An answer as a line of its file."""
    score, program = answer.score, answer.program
    failure = program.failure if score is None or score.scored else str(score.failure)
    return {
        "task": task,
        "source": program.source,
        "failure": failure,
        "message": program.message if score is None else score.message,
        "evidence": None if score is None else score.evidence,
        "elpd": None if score is None else score.elpd,
    }


def _name(module: LightningModule) -> str:
    return str(getattr(module, "policy_name", type(module).__name__))


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common()) or "none"

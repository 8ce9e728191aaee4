"""The course of an evaluation: what is left of it, what it costs, and a bar that says so."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from synthstats_lightning.cli.evaluate.policy_argument import Entrant
from synthstats_lightning.evaluation.entrants import Usage
from synthstats_lightning.evaluation.kept import KeptMeasurements
from synthstats_lightning.evaluation.units import Unit, UnitEvaluation
from synthstats_lightning.pool.scorer import ProgramScorer


class Course:
    """Measures the pieces that are not done, in order, each kept at once.

    Args:
        units: All pieces of the evaluation.
        kept: What is done, and where more goes.
        entrant: What writes the programs.
        writings: How often it does so for one piece.
    """

    def __init__(
        self, units: Sequence[Unit], kept: KeptMeasurements, entrant: Entrant, writings: int = 1
    ) -> None:
        self._writings = writings
        self._kept = kept
        self._entrant = entrant
        self._total = len(units)
        self.left = [unit for unit in units if unit not in kept.done]

    def cost(self) -> dict[str, float]:
        """What all pieces in the file took: seconds, tokens read and tokens written."""
        usage = self._kept.usage
        return {
            "seconds": self._kept.seconds,
            "tokens_read": usage.read,
            "tokens_written": usage.written,
        }

    def estimate(self) -> str:
        """What is left to do, in words: tokens, and seconds once a piece is done."""
        done, left = len(self._kept.done), len(self.left)
        usage = self._kept.usage
        if not left:
            return "nothing is left to do"
        if not done:
            most = self._entrant.most_tokens
            tokens = (
                f": at most {left * self._writings * most:,} tokens to write"
                if most is not None
                else " of any length"
            )
            return f"{left} instances{tokens}; how long, the first instance will tell"
        written, read = (round(left * tokens / done) for tokens in (usage.written, usage.read))
        seconds = left * self._kept.seconds / done
        tokens = f"about {written:,} tokens to write, {read:,} to read"
        return f"{left} instances left: {tokens}, {_duration(seconds)}"

    def run(self, evaluation: UnitEvaluation, scorer: ProgramScorer) -> None:
        """Measures what is left.

        Args:
            evaluation: It measures pieces.
            scorer: A running pool.
        """
        console = Console(stderr=True)
        if len(self.left) < self._total:
            console.print(
                f"{self._total - len(self.left)} of {self._total} instances are done already", markup=False
            )
        console.print(self.estimate(), markup=False, highlight=False)
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[estimate]}"),
            console=console,
            disable=not console.is_terminal,
        )
        with bar:
            task = bar.add_task(
                "instances", total=self._total, completed=self._total - len(self.left), estimate=""
            )
            while self.left:
                unit = self.left[0]
                bar.update(task, description=f"{unit.environment}/{unit.seed}")
                self._measure(unit, evaluation, scorer)
                self.left.pop(0)
                bar.update(task, advance=1, estimate=self.estimate())
                if bar.disable:
                    print(
                        f"{unit.environment}/{unit.seed} is done; {self.estimate()}",
                        file=sys.stderr,
                        flush=True,
                    )

    def _measure(self, unit: Unit, evaluation: UnitEvaluation, scorer: ProgramScorer) -> None:
        before, began = self._entrant.usage, time.perf_counter()
        read, written = before.read, before.written
        measurements = evaluation.measure([unit], scorer, self._entrant)
        usage = Usage(self._entrant.usage.read - read, self._entrant.usage.written - written)
        self._kept.add(unit, measurements, time.perf_counter() - began, usage)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"

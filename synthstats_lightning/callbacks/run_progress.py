"""What a run is at, and what remains of it: warm-up, training and report."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Literal

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table

from synthstats_lightning.callbacks.posterior_report import PosteriorReport
from synthstats_lightning.callbacks.scoring_of_run import scoring_callback
from synthstats_lightning.callbacks.time_budget import TimeBudget

Phase = Literal["start", "warm-up", "training", "report"]
PHASES: tuple[Phase, ...] = ("start", "warm-up", "training", "report")
REFRESHES = 2
"""Pictures a second, on a terminal."""
LINES = 5
"""Lines about training where there is no terminal, more of a run in which they are far apart."""
SILENCE = 60.0
"""Seconds of training without a line there, after which the next step has one."""
BAR = 24
"""Columns of a bar."""
SHOWN = {"log_z": "log Z {:.1f}", "valid": "{:.0%} scored", "evidence": "evidence {:.1f}"}
"""Metrics of the progress bar that are shown of training, and how."""


class RunProgress(ProgressBar):
    """Shows the phases of a run: what each has done, and an estimate of what remains of it.

    On a terminal a table that is kept up to date, while training waits for scores, too; elsewhere a line when
    a phase begins, and some lines of training, at least one a minute.

    Args:
        budget: Of the run, if its time is limited.
        console: Where it is shown; standard error by default, so that the report can be piped.
    """

    def __init__(self, budget: TimeBudget | None = None, console: Console | None = None) -> None:
        super().__init__()
        self.budget = budget
        self.console = console or Console(stderr=True)
        self.phase: Phase = "start"
        started = time.monotonic() if budget is None else budget.started
        self._began: dict[Phase, float] = {"start": started}
        self._live: Live | None = None
        self._enabled = True
        self._said = 0
        self._last_line = -math.inf
        self._first_step = 0

    def enable(self) -> None:
        """Shows something from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Shows nothing from now on."""
        self._enabled = False
        self._stop()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Begins to show."""
        super().setup(trainer, pl_module, stage)
        if self._enabled and stage == "fit" and self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self.table, refresh_per_second=REFRESHES)
            self._live.start()
        self._enter("start")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Warm-up begins."""
        self._enter("warm-up")

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Training begins."""
        if self.phase == "warm-up":
            self._first_step = trainer.global_step
            self._enter("training")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Says how far training is, where there is no terminal."""
        due = int(LINES * self.done("training"))
        if due > self._said or time.monotonic() - self._last_line > SILENCE:
            self._said = max(due, self._said)
            self._say()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The report begins."""
        if not trainer.interrupted:
            self._enter("report")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ends."""
        self._stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Makes room for what is said of the end."""
        self._stop()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends."""
        self._stop()

    def done(self, phase: Phase) -> float:
        """Share of a phase that is done, from 0 to 1.

        Args:
            phase: One of `PHASES`.
        """
        if (order := PHASES.index(phase) - PHASES.index(self.phase)) != 0:
            return float(order < 0)
        if phase == "warm-up":
            scored, all_programs = self._counts()
            return scored / all_programs if all_programs else 0.0
        left, spent = self.left(phase), time.monotonic() - self._began[phase]
        return min(1.0, spent / (spent + left)) if left is not None else 0.0

    def left(self, phase: Phase) -> float | None:
        """Seconds that remain of a phase, by estimate; `None` where nothing is known of them.

        Args:
            phase: One of `PHASES`.
        """
        order, now = PHASES.index(phase) - PHASES.index(self.phase), time.monotonic()
        if order < 0:
            return 0.0
        limit = None if self.budget is None else self.budget.limits(now).get(phase)
        estimate = self._estimate(phase, now) if order == 0 or phase == "report" else None
        known = [seconds for seconds in (limit, estimate) if seconds is not None]
        return min(known, default=None)

    def _estimate(self, phase: Phase, now: float) -> float | None:
        """Seconds that remain of the present phase at its own pace, and of the report at most."""
        spent = now - self._began.get(phase, now)
        if phase == "warm-up":
            scored, all_programs = self._counts()
            return spent * (all_programs - scored) / scored if scored else None
        if phase == "training":
            done, left = self.trainer.global_step - self._first_step, self.trainer.max_steps
            return spent * (left - self.trainer.global_step) / done if done and left > 0 else None
        if phase == "report":
            reports = (item for item in self.trainer.callbacks if isinstance(item, PosteriorReport))  # type: ignore[attr-defined]
            deadline = next((report.deadline for report in reports), 0.0)
            return max(0.0, deadline - spent)
        return None

    def table(self) -> Table:
        """The picture: a row a phase."""
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for phase in PHASES:
            order = PHASES.index(phase) - PHASES.index(self.phase)
            bar = Bar(total=1.0, completed=self.done(phase), width=BAR)
            table.add_row(phase, bar, self._time(phase, now), self._text(phase) if order == 0 else "")
        return table

    def _time(self, phase: Phase, now: float) -> str:
        following = PHASES[PHASES.index(phase) + 1 :]
        if PHASES.index(phase) < PHASES.index(self.phase):
            ended = next(self._began[item] for item in following if item in self._began)
            return f"took {clock(ended - self._began.get(phase, ended))}"
        left = self.left(phase)
        if left is None:
            return ""
        return f"{clock(left)} left" if phase == self.phase else f"about {clock(left)}"

    def _text(self, phase: Phase) -> str:
        if phase == "start":
            return "loading the policy, starting workers"
        if phase == "report":
            return "last scores, fresh programs, pictures"
        scored, all_programs = self._counts()
        if phase == "warm-up":
            return f"{scored} of {all_programs} programs have a score" if all_programs else "sampling"
        metrics: Mapping[str, Any] = self.trainer.progress_bar_metrics
        shown = [text.format(float(metrics[name])) for name, text in SHOWN.items() if name in metrics]
        return ", ".join([f"step {self.trainer.global_step} of about {self.trainer.max_steps}", *shown])

    def _counts(self) -> tuple[int, int]:
        scoring = scoring_callback(self.trainer)
        return scoring.queue.counts() if scoring is not None else (0, 0)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._began.setdefault(phase, time.monotonic())
        self._say()

    def _say(self) -> None:
        """A line, where there is no terminal."""
        if self._enabled and self._live is None:
            self._last_line = now = time.monotonic()
            text = f"{self.phase}: {self._text(self.phase)}; {self._time(self.phase, now)}".rstrip("; ")
            self.console.print(text, soft_wrap=True, highlight=False)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def clock(seconds: float) -> str:
    """Minutes and seconds.

    Args:
        seconds: None of which are below 0.
    """
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"

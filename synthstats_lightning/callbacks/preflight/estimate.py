"""What a run will take, from what its first programs and its first step took: hours and gigabytes."""

from __future__ import annotations

from dataclasses import dataclass

TRAINED_COPIES = 4
"""Of each trained number: itself, its gradient and two moments of the optimiser."""
WRITTEN_COPIES = 3
"""Of each trained number in a checkpoint: itself and two moments."""


@dataclass(frozen=True)
class RunLength:
    """How long a run is, and how much it samples.

    Attributes:
        steps: Training steps; `None` where nothing limits them.
        batches_per_step: Training batches whose gradients make one step.
        every_n_steps: Training steps between sampling rounds.
        programs_per_round: Programs of a sampling round, all tasks together.
        warmup: Programs before the first step, all tasks together.
        report: Fresh programs of the closing report, all tasks together.
        workers: Scoring workers of the run.
        waits: Whether every round waits for its scores.
        minutes: Time budget of the whole run, in minutes; `None` for none.
        max_records: Distinct programs that the run keeps.
        checkpoints: Checkpoints that the run keeps.
    """

    steps: int | None
    batches_per_step: int = 1
    every_n_steps: int = 1
    programs_per_round: int = 64
    warmup: int = 128
    report: int = 0
    workers: int = 1
    waits: bool = False
    minutes: float | None = None
    max_records: int = 50_000
    checkpoints: int = 1

    @property
    def programs(self) -> int | None:
        """Programs that the run samples, those of warm-up and report included."""
        if self.steps is None:
            return None
        return self.warmup + self.steps // self.every_n_steps * self.programs_per_round + self.report


@dataclass(frozen=True)
class Measured:
    """What the first programs and the first step took.

    Attributes:
        one_seconds: Sampling of the smaller of two numbers of programs, in seconds.
        one_programs: That number of programs.
        many_seconds: Sampling of the larger number, in seconds.
        many_programs: The larger number of programs.
        step_seconds: One training batch with its optimiser step, in seconds.
        score_seconds: What scoring takes of one program and worker, in seconds.
        record_bytes: Bytes of a program's line in the run's file.
    """

    one_seconds: float
    one_programs: int
    many_seconds: float
    many_programs: int
    step_seconds: float
    score_seconds: float
    record_bytes: float

    def sampling(self, programs: int) -> float:
        """Seconds that sampling takes: a line through the two measurements, never below the second.

        Args:
            programs: How many are sampled at once.
        """
        if programs <= self.many_programs or self.many_programs <= self.one_programs:
            return self.many_seconds * max(1.0, programs / self.many_programs)
        more = (self.many_seconds - self.one_seconds) / (self.many_programs - self.one_programs)
        return self.many_seconds + max(more, 0.0) * (programs - self.many_programs)


def estimated_seconds(length: RunLength, measured: Measured) -> float | None:
    """How long a run takes, in seconds; `None` where nothing limits it.

    Args:
        length: What the run does.
        measured: What parts of it took.
    """
    if length.minutes is not None:
        return 60 * length.minutes
    if length.steps is None or length.programs is None:
        return None
    rounds = length.steps // length.every_n_steps
    training = length.steps * length.batches_per_step * measured.step_seconds
    sampling = rounds * measured.sampling(length.programs_per_round) + measured.sampling(length.warmup)
    scoring = length.programs * measured.score_seconds / length.workers
    at_work = training + sampling + scoring if length.waits else max(training + sampling, scoring)
    # the report's programs are scored while others are sampled
    return at_work + (measured.sampling(length.report) if length.report else 0.0)


def disk_bytes(length: RunLength, measured: Measured, trained_parameters: int) -> float | None:
    """What a run leaves on the disk, in bytes; `None` where nothing limits it.

    Args:
        length: What the run does.
        measured: What parts of it took.
        trained_parameters: Numbers that are trained.
    """
    if length.programs is None:
        return None
    lines = min(length.programs, length.max_records) * measured.record_bytes
    # a checkpoint holds the records too
    return lines + length.checkpoints * (lines + WRITTEN_COPIES * 4 * trained_parameters)


def trained_bytes(trained_parameters: int, snapshots: int = 0) -> int:
    """What is trained takes in memory, in bytes, with its gradient and the optimiser's moments.

    Args:
        trained_parameters: Numbers that are trained, all in float32.
        snapshots: Copies of them besides, as of an objective that resets its reference to the policy.
    """
    return (TRAINED_COPIES + snapshots) * 4 * trained_parameters

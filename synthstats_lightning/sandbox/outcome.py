"""What became of a program, and what that means."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from synthstats_lightning.programs.documents import read_document
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox.limits import SandboxLimits
from synthstats_lightning.sandbox.messages import one_line

REPORTED = frozenset(
    {
        FailureCategory.SYNTAX,
        FailureCategory.RAISED,
        FailureCategory.MEMORY,
        FailureCategory.OUTPUT,
        FailureCategory.BAD_GRAPH,
        FailureCategory.UNSUPPORTED,
    }
)
"""Categories that a program's own process may report; the others are observed from outside."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the process that ran a program ended, as the worker saw it.

    Attributes:
        exit_code: Exit status, or minus the signal's number.
        timed_out: Whether the worker killed it because it slept or was stopped for too long.
        result_overflow: Whether the worker killed it for a result over the limit.
        log_overflow: Whether the worker killed it for printing more than the limit.
        cpu_seconds: CPU time of the process, in seconds.
        wall_seconds: Time from fork to reaped, in seconds.
    """

    exit_code: int
    timed_out: bool
    result_overflow: bool
    log_overflow: bool
    cpu_seconds: float
    wall_seconds: float

    def encode(self) -> bytes:
        """The outcome as one JSON document."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, document: bytes) -> Outcome:
        """The inverse of `encode`."""
        return cls(**json.loads(document))


def worth_another_try(outcome: Outcome, limits: SandboxLimits) -> bool:
    """Whether the machine may be to blame: the program was asleep or stopped, or killed from outside.

    Args:
        outcome: How the process ended.
        limits: The limits it ran under.
    """
    killed = outcome.exit_code == -signal.SIGKILL and outcome.cpu_seconds < limits.cpu_seconds
    return outcome.timed_out or (killed and not outcome.result_overflow and not outcome.log_overflow)


def interpret(outcome: Outcome, document: bytes, limits: SandboxLimits) -> str:
    """The text of the result document, if the program ended well.

    Args:
        outcome: How the process ended.
        document: What it wrote to the result pipe: hostile bytes.
        limits: The limits it ran under, for messages.

    Returns:
        The JSON text of a model graph (unvalidated), or of an empty object for a program that was only run.

    Raises:
        ProgramFailure: With the category that fits.
    """
    if outcome.timed_out:
        message = f"not finished after {limits.wall_seconds:g} s without computing, twice"
        fail(FailureCategory.TIMEOUT, message)
    if outcome.result_overflow:
        fail(FailureCategory.OUTPUT, f"a result of more than {limits.output_bytes} bytes")
    if outcome.log_overflow:
        fail(FailureCategory.OUTPUT, f"more than {limits.log_bytes} bytes printed")
    if outcome.exit_code == -signal.SIGXCPU or (
        outcome.exit_code == -signal.SIGKILL and outcome.cpu_seconds >= limits.cpu_seconds
    ):
        fail(FailureCategory.CPU, f"more than {limits.cpu_seconds} s of CPU time")
    if outcome.exit_code < 0:
        fail(FailureCategory.KILLED, f"died from {_signal_name(-outcome.exit_code)}")
    if outcome.exit_code > 0:
        fail(FailureCategory.KILLED, f"exited with status {outcome.exit_code}")
    if not document:
        fail(FailureCategory.KILLED, "exited without a result")
    return _read(document)


def fail(category: FailureCategory, message: str) -> NoReturn:
    """Raises a `ProgramFailure` with the message in one line."""
    raise ProgramFailure(category, one_line(message))


def _read(document: bytes) -> str:
    try:
        result: Any = read_document(document)
    except ProgramFailure as failure:
        fail(FailureCategory.OUTPUT, f"the result is not one JSON document as allowed: {failure.message}")
    if not isinstance(result, dict):
        fail(FailureCategory.OUTPUT, "the result is not a JSON object")
    if "failure" not in result:
        return document.decode("utf-8")
    category, message = result["failure"], result.get("message")
    known = [str(category) for category in REPORTED]
    if len(result) != 2 or category not in known or not isinstance(message, str):
        fail(FailureCategory.OUTPUT, "the result reports a failure that does not exist")
    fail(FailureCategory(category), message)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""Why a program got no score: categories that logs count and the reward reads."""

from __future__ import annotations

from enum import StrEnum


class FailureCategory(StrEnum):
    """Everything that can keep a program from a score, one word each."""

    TRUNCATED = "truncated"
    """The policy reached the token limit before the stop token."""
    TURNS = "turns"
    """An episode's turns ran out before a program was submitted."""
    EXPERIMENTS = "experiments"
    """They did after the policy had asked for more experiments than its budget allows."""
    SYNTAX = "syntax"
    """The source is not Python, or too large or deep to parse."""
    RAISED = "raised"
    """Running the source, or building its model, raised an exception."""
    TIMEOUT = "timeout"
    """It slept or was stopped for too long, twice; the whole process group was killed."""
    MEMORY = "memory"
    """Address-space limit reached."""
    CPU = "cpu"
    """CPU-time limit reached."""
    KILLED = "killed"
    """The process that ran the program died from a signal or exited without a result."""
    OUTPUT = "output"
    """The result was too large or not the one JSON document that the protocol allows."""
    BAD_GRAPH = "bad_graph"
    """The model graph does not follow the schema."""
    UNSUPPORTED = "unsupported"
    """The model is outside the graph language; the message names the distribution or operation."""
    SCORER_LIMIT = "scorer_limit"
    """The scorer reached its time or memory limit, or no estimator passed its own acceptance check."""
    NON_FINITE = "non_finite"
    """The score is NaN or infinite."""
    UNBOUNDED = "unbounded"
    """The evidence is infinite: a noise scale can vanish on tied or exactly fitted rows."""
    IMPROPER = "improper"
    """More than probability allows: the evidence of a discrete or rounded response is above 0, one of any
    response above the best likelihood, or a density claims more mass than 1."""
    MEMORISED = "memorised"
    """The program's constants repeat the response's values."""
    UNJUDGED = "unjudged"
    """A term of the reward had no value, and the term says that this is a failure."""


TRANSIENT = frozenset(
    {FailureCategory.KILLED, FailureCategory.TIMEOUT, FailureCategory.CPU, FailureCategory.UNJUDGED}
)
"""Failures that say something of the machine at that moment: the same program may have a score next time."""

OUT_OF_TIME = "time limit"
"""How the message of a `SCORER_LIMIT` of processor time begins: of that, too, load takes a little more."""

REFUSED = {
    "Flat": "an improper prior, under which there is no evidence",
    "HalfFlat": "an improper prior, under which there is no evidence",
    "CustomDist": "an arbitrary log-density or transformation, which nothing keeps normalised",
    "Simulator": "a simulator, which has no density",
    "EulerMaruyama": "its steps depend on the path itself, so only latents of the model may follow it",
}
"""What the scorer lacks on purpose, by PyMC's names, and why: messages and prompts read it."""


class ProgramFailure(Exception):
    """A program's failure, with its category and one line of explanation.

    Args:
        category: What kind of failure it is.
        message: One line, without paths of the host, environment values or other programs' content.
    """

    def __init__(self, category: FailureCategory, message: str) -> None:
        super().__init__(f"{category}: {message}")
        self.category = category
        self.message = message

    def __reduce__(self) -> tuple[type[ProgramFailure], tuple[FailureCategory, str]]:
        return type(self), (self.category, self.message)

"""What a score must satisfy whatever the model: checked at run time, on every score."""

from __future__ import annotations

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.score import Score

STANDARD_ERRORS = 5.0
"""Standard errors by which Monte Carlo may put the evidence above what is possible."""
ROUNDING_ERROR = 1e-6
"""Of sums in floating point, in nats."""


def check_probability(score: Score) -> None:
    """Refuses an evidence above 0 nats for a response that has probabilities instead of densities.

    The evidence of a discrete response, or of one scored by the intervals that it was rounded to, is the log
    of a probability. More than 1 means that a density is not normalised or an estimate is wrong; either way
    the score is no score.

    Args:
        score: The score of a discrete or rounded response.

    Raises:
        ProgramFailure: `IMPROPER` if the evidence exceeds 0 by more than its own Monte-Carlo error.
    """
    if score.evidence is None:
        return
    tolerance = STANDARD_ERRORS * (score.evidence_se or 0.0) + ROUNDING_ERROR
    if score.evidence > tolerance:
        raise ProgramFailure(
            FailureCategory.IMPROPER,
            f"log evidence {score.evidence:.4g} of a response with probabilities is above 0 by more than its"
            f" Monte-Carlo error {score.evidence_se or 0.0:.2g}",
        )

"""Which covariates go with the response best, where a table has too many."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from synthstats_lightning.tasks.intake.encodings import Numbers

MOST_COVARIATES = 32
"""Covariates of a table of which nothing is said: so many have a token in the bundled policy."""


def association(covariate: Numbers, response: Numbers, levels: bool) -> float:
    """How well a covariate goes with a response, from 0 to 1.

    For numbers it is the squared rank correlation; for levels the share of the variance of the response's
    ranks between them, less what as many levels would take by chance.

    Args:
        covariate: Values, NaN where they are missing.
        response: Values, NaN where they are missing.
        levels: Whether the covariate's numbers name levels.
    """
    both = ~np.isnan(covariate) & ~np.isnan(response)
    if both.sum() < 3:
        return 0.0
    y = rankdata(response[both])
    y = y - y.mean()
    total = float(y @ y)
    if total == 0:
        return 0.0
    if levels:
        _, codes = np.unique(covariate[both], return_inverse=True)
        counts = np.bincount(codes)
        between = float((np.bincount(codes, y) ** 2 / counts).sum()) / total
        chance = (len(counts) - 1) / (len(y) - 1)
        return max(0.0, (between - chance) / (1 - chance)) if chance < 1 else 0.0
    x = rankdata(covariate[both])
    x = x - x.mean()
    spread = float(x @ x)
    return float(x @ y) ** 2 / (spread * total) if spread > 0 else 0.0

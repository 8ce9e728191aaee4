"""What stands for columns of limits where a program runs.

Such a column says of each row whether the response was cut short, and where: a part of the response. A model
may have it as the limit of its response's distribution and nowhere else, which a model graph shows as long
as the program has not turned the column into numbers of its own. So its values never reach a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.programs.graph import DataSchema

_FIRST, _STEP = 17, 19
"""Of the numbers that stand for limits: nobody's covariate is a permutation of them."""


def without_limits(schema: DataSchema, covariates: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Covariates as programs may see them: placeholders for columns of limits, the others as they are.

    Args:
        schema: What the columns are.
        covariates: Column name to values of shape `(num_rows,)`.
    """
    return {
        **covariates,
        **{name: _placeholder(schema.num_rows, side) for side, name in schema.censoring.items()},
    }


def _placeholder(num_rows: int, side: str) -> NDArray[np.float64]:
    """Fixed limits that say nothing of a data set; every other row has none, as where its event was seen."""
    order = np.random.default_rng(20_252).permutation(num_rows)
    none = NO_LIMIT if side == "upper" else -NO_LIMIT
    return np.where(order % 2 == 0, _FIRST + _STEP * order, none).astype(np.float64)

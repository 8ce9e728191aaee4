"""Expected information gain from log densities of simulated responses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

Values = NDArray[np.float64]


class InformationGain(NamedTuple):
    """Expected information gains of some designs, in nats.

    Attributes:
        value: Nested Monte Carlo estimates, too large on average `[designs]`.
        standard_error: Standard errors of the estimates, over outer samples `[designs]`.
        bias: By how much they are too large on average, by the delta method: an estimate itself `[designs]`.
        lower: Prior contrastive estimates from the same draws, too small on average, and never above
            `log(inner + 1)` `[designs]`.
    """

    value: Float[np.ndarray, " designs"]
    standard_error: Float[np.ndarray, " designs"]
    bias: Float[np.ndarray, " designs"]
    lower: Float[np.ndarray, " designs"]


def nested_estimate(
    own: Float[np.ndarray, "outer designs"], others: Float[np.ndarray, "outer inner designs"]
) -> InformationGain:
    """Expected information gain from log densities of simulated responses.

    `mean_n [log p(y_n | theta_n, x) - log mean_m p(y_n | theta_nm, x)]` (Rainforth et al. 2018, eq. 4). By
    Jensen's inequality this is too large on average, to first order in 1/M by the mean over responses of
    `var_m(p) / (2 M mean_m(p)^2)`. With theta_n itself among the M + 1 draws of the second term it is too
    small on average (Foster et al. 2020, the prior contrastive estimate). Where the two are far apart, a
    design tells parameters better apart than M draws can show.

    Args:
        own: Log density of each response under the parameters that it comes from.
        others: Log density of each response under other parameters, of other draws for each.

    Raises:
        ValueError: If there are fewer than two outer or two inner samples.
    """
    outer, inner = others.shape[:2]
    if outer < 2 or inner < 2:
        raise ValueError(f"need at least 2 outer and 2 inner samples, got {outer} and {inner}")
    with np.errstate(invalid="ignore"):
        return _estimate(own, others)


def _estimate(own: Values, others: Values) -> InformationGain:
    outer, inner = others.shape[:2]
    total = np.logaddexp.reduce(others, axis=1)
    contrastive = own - np.logaddexp(total, own) + np.log(inner + 1)
    # a response that no inner draw deems possible counts as one that they could not tell further
    nested = np.where(np.isfinite(total), own - total + np.log(inner), np.log(inner + 1))
    share = np.exp(others - np.where(np.isfinite(total), total, 0.0)[:, None]) * inner
    spread = share.var(1, ddof=1) / (2 * inner)
    return InformationGain(
        nested.mean(0), nested.std(0, ddof=1) / np.sqrt(outer), spread.mean(0), contrastive.mean(0)
    )

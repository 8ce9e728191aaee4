"""A proposal for a posterior without one row: the full one's, stretched along the line that the row tells of.

A row of a linear predictor says something of one line through the parameters. Without it the posterior is
wider there, and no wider anywhere else: components that are wider all round lose most draws in many
dimensions.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.estimators.mixture import StudentMixture

LEAST_PRECISION = 0.05
"""Smallest precision along the line without the row, over that with it."""
FARTHEST = 3.0
"""Largest move along the line, in standard deviations of what is left."""
WIDER = (1.0, 2.0)
"""Components have so many times the standard deviation along the line that a parabola says."""
LEAST_SPREAD = 0.05
"""Rows whose log-likelihood varies less over the posterior move nothing, in nats."""


def stretched(
    full: StudentMixture,
    place: Float[Tensor, "particles dim"],
    log_weight: Float[Tensor, " particles"],
    own: Float[Tensor, " particles"],
) -> StudentMixture | None:
    """Components for the posterior without one row, by a parabola in place of the row's log-likelihood.

    Args:
        full: The proposal of the full posterior, of which the largest component is taken.
        place: Where draws from the full posterior are among its components.
        log_weight: Their log importance weights.
        own: The row's log-likelihood at them.

    Returns:
        `None` where the row moves nothing, or nothing is known of how.
    """
    weight = log_weight.softmax(0)
    largest = int(full.log_share.argmax())
    centre, root = full.location[largest], full.scale_tril[largest]
    z = torch.linalg.solve_triangular(root, (place - centre).T, upper=False).T
    usable = own.isfinite() & z.isfinite().all(1) & (weight > 0)
    if int(usable.sum()) <= 2 * z.shape[1]:
        return None
    weight, z, own = weight[usable] / weight[usable].sum(), z[usable], own[usable]
    middle = weight @ z
    offset, risen = z - middle, own - weight @ own
    if not float(weight @ risen.square()) > LEAST_SPREAD**2:
        return None
    line = (weight * risen) @ offset
    line = line / line.norm().clamp_min(torch.finfo(line.dtype).tiny)
    s = offset @ line
    variance = weight @ s.square()
    features = torch.stack([torch.ones_like(s), s, s.square()], 1)
    root_weight = weight.sqrt()[:, None]
    fitted = torch.linalg.lstsq(root_weight * features, root_weight * risen[:, None]).solution[:, 0]
    if not bool(fitted.isfinite().all()):
        return None
    precision = (1.0 / variance + 2.0 * fitted[2]).clamp(LEAST_PRECISION / variance, 1.0 / variance)
    spread = precision.rsqrt()
    move = (-fitted[1] / precision).clamp(-FARTHEST * spread, FARTHEST * spread)
    eye = torch.eye(len(line), dtype=line.dtype)
    along = torch.outer(line, line)
    scales = []
    for times in WIDER:
        covariance = root @ (eye + ((times * spread).square() / variance - 1.0) * along) @ root.T
        scale_tril, info = torch.linalg.cholesky_ex(covariance)
        if int(info):
            return None
        scales.append(scale_tril)
    location = centre + root @ (middle + move * line)
    log_share = -torch.log(torch.full((len(WIDER),), float(len(WIDER)), dtype=line.dtype))
    return full._replace(
        log_share=log_share, location=location.repeat(len(WIDER), 1), scale_tril=torch.stack(scales)
    )

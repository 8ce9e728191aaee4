"""What elements that hardly move without a row add to the other rows' weights, to the second order."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.grouping import Given, spread
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood, Outer
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.movers import MANY, Movers
from synthstats_lightning.scoring.marginals.laplace.proposal import Proposal


def far(
    likelihood: Likelihood,
    outer: Outer,
    proposal: Proposal,
    design: Design,
    movers: Movers,
    given: Given,
    predictor: Float[Tensor, "particles points elements"],
    coupling: Float[Tensor, "particles elements most"],
    moved: Float[Tensor, "particles points rows"],
    smooth: Bool[Tensor, "particles points elements"],
) -> Float[Tensor, "particles points rows"]:
    """What the log weights without each row lack of the elements that are not followed with it.

    The second order, which adds up over many rows, is that of a particle's average draw. Of few rows each
    moves further, and it would make the weights' tails heavier.

    Args:
        likelihood: Log-likelihood of rows at values of the predictor.
        outer: What it reads of the other parameters.
        proposal: Given the given rows.
        design: The predictor as a function of the block.
        movers: Which elements are followed with which rows.
        given: Which rows count, or how many times each does.
        predictor: Its values at the draws.
        coupling: Covariances of each element with those of the rows that it is followed with.
        moved: How far each row's own element moves without it, over its variance.
        smooth: Where an element's weight changes with its predictor; elsewhere it is none, and stays that.
    """
    leaf = predictor.detach().requires_grad_(True)
    with torch.enable_grad():
        value = likelihood.summed(likelihood.rows(outer, leaf), given)
        total = torch.where(value.isfinite(), value, 0.0).sum()
        (slope,) = torch.autograd.grad(total, leaf, create_graph=True)
        bend = torch.zeros_like(leaf)
        if slope.requires_grad:
            (found,) = torch.autograd.grad(
                torch.where(slope.isfinite(), slope, 0.0).sum(), leaf, allow_unused=True
            )
            bend = bend if found is None else found
    away = predictor - proposal.centre[:, None]
    _, site_slope, curvature = (part[:, None] for part in proposal.sites)
    slope = (slope.detach() - site_slope + curvature * away).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    slope = torch.where(smooth, slope, 0.0)
    bend = (
        torch.where(smooth, bend.detach() + curvature, 0.0)
        .nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        .mean(1)
    )
    solved = proposal.factor.solve(design.back(slope))
    origin = design.affine.origin[:, None]
    whole = spread(design.at(solved) - origin, likelihood.groups)
    products = (coupling[:, None] * slope[..., None]).mT
    first = whole - _listed(products, movers, whole.shape[2])
    if whole.shape[2] < MANY:
        return moved * first
    covariance = proposal.factor.covariance()
    wide = spread(design.weighted_squares(covariance, bend), likelihood.groups)
    squares = (coupling.square() * bend[..., None]).mT[:, None]
    second = wide - _listed(squares, movers, whole.shape[2])[:, 0]
    return moved * (first + 0.5 * moved * second[:, None])


def _listed(values: Float[Tensor, "particles points most elements"], movers: Movers, count: int) -> Tensor:
    """Sums over the elements that are followed with each row."""
    zeros = values.new_zeros(*values.shape[:2], count + 1)
    return zeros.index_add(2, movers.rows.mT.reshape(-1), values.flatten(2))[:, :, :count]

"""From a model to one without the latents of its groups, where there are some worth it."""

from __future__ import annotations

import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.layout import Parameter, Transform
from synthstats_lightning.scoring.marginals.blocks import ALONE
from synthstats_lightning.scoring.marginals.clusters.clustering import (
    Clustering,
    find_clustering,
    num_latents,
)
from synthstats_lightning.scoring.marginals.clusters.integrand import ClusterIntegrand, without_latents
from synthstats_lightning.scoring.marginals.clusters.modes import Mode, climb
from synthstats_lightning.scoring.marginals.clusters.quadrature import ORDERS, ClusterQuadrature
from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.affine import propagate
from synthstats_lightning.scoring.marginals.groups.grouping import row_groups

EASY = 10
"""Dimensions up to which estimators take a whole model well."""
EASY_ADDITIVE = 32
"""The same of models whose parameters only add up."""
MOST_LEFT = 12
"""Most dimensions that may be left."""
FEW_LEFT = 8
"""Most dimensions that may be left where a normal approximation of all latents could be taken instead."""
LITTLE_WORK = 12_000
"""Most densities of rows for one particle there: those of 240 rows under a rule of 49 nodes."""
MOST_ROWS = 2_000
"""Most rows of a response."""
SCOUTS = 32
"""Prior draws of the other parameters among which the reference is chosen."""
SCOUT_POINTS = 64
"""Prior draws of the latents at each of them."""
LINKS = frozenset({"exp", "sigmoid", "add", "sub", "neg", "mul", "div", "take", "index", "reshape"})
"""Operations that sums of parameters may go through on their way to the response, with constants."""
CLOSE = 0.005
"""Nats within which a rule agrees with the next one at the reference, to be taken."""


def integrate_small_clusters(
    density: Density, most_left: int = FEW_LEFT, most_work: int = LITTLE_WORK
) -> ClusterIntegrated | None:
    """`integrate_clusters` where that takes less work than a search for the mode of all latents at once.

    Args:
        density: The model with its data.
        most_left: Most dimensions that may be left; never more than `FEW_LEFT`.
        most_work: Most densities of rows for one particle.
    """
    clustering = None if _is_easy(density) else find_clustering(density.compiled)
    left = density.dimension - (0 if clustering is None else num_latents(clustering))
    if clustering is None or left > min(FEW_LEFT, most_left):
        return None
    nodes = ORDERS[clustering.dimensions][0] ** clustering.dimensions
    return integrate_clusters(density) if density.num_observations * nodes <= most_work else None


def integrate_clusters(density: Density) -> ClusterIntegrated | None:
    """A model without several latents of each of its groups; `None` where there are none worth it.

    Args:
        density: The model with its data.
    """
    if _is_easy(density) or density.num_observations > MOST_ROWS:
        return None
    clustering = find_clustering(density.compiled)
    if clustering is None or density.dimension - num_latents(clustering) > MOST_LEFT:
        return None
    if not all(_plain(member.parameter) for member in clustering.members):
        return None
    try:
        return _integrated(density, clustering)
    except ProgramFailure as failure:
        # what is constant without the latents need not have a value at the one that stands in for them
        if failure.category is not FailureCategory.RAISED:
            raise
        return None


def _is_easy(density: Density) -> bool:
    """Whether estimators take the whole model well: of few dimensions, or of effects that are not pooled."""
    if density.dimension <= EASY:
        return True
    compiled = density.compiled
    if density.dimension > EASY_ADDITIVE or not all(each.constant for each in compiled.parameters):
        return False
    graph, constant = compiled.graph, [each is not None for each in compiled.constants]
    uses = propagate(graph, constant, frozenset(p.node for p in compiled.parameters))

    def is_link(slot: int) -> bool:
        """Whether one moving value goes through a rising or falling operation."""
        moving = sum(not constant[i] for i in graph.nodes[slot].inputs)
        return moving == 1 and graph.nodes[slot].op in LINKS

    return all(not uses[step.slot].culprits or is_link(step.slot) for step in compiled.likelihood_steps)


def _plain(parameter: Parameter) -> bool:
    """Whether a parameter's unconstrained coordinate depends on no other parameter."""
    constant = {Transform.IDENTITY, Transform.INTERVAL}
    return parameter.transform in constant or parameter.transform in ALONE


def _integrated(density: Density, clustering: Clustering) -> ClusterIntegrated:
    with torch.inference_mode(False), torch.no_grad():
        others = density.of_graph(without_latents(density.compiled.graph, clustering, 0.5))
        integrand = ClusterIntegrand(density.compiled, clustering)
        groups = row_groups(clustering.group, clustering.size)
        shape = (1, clustering.size, clustering.dimensions)
        identity = torch.eye(clustering.dimensions, dtype=torch.float64).expand(*shape[:2], -1, -1)
        unknown = ClusterQuadrature(
            integrand, groups, Mode(torch.zeros(shape, dtype=torch.float64), identity)
        )
        reference, theta = _reference(unknown, others)
        found = []
        for order in ORDERS[clustering.dimensions]:
            quadrature = ClusterQuadrature(integrand, groups, reference, order)
            found.append(ClusterIntegrated(density, others, quadrature))
        totals = [target.marginal_likelihood(theta) for target in found]
        close = [
            target
            for target, this, following in zip(found, totals, totals[1:], strict=False)
            if abs(float(this - following)) < CLOSE
        ]
    return close[0] if close else found[-1]


def _reference(quadrature: ClusterQuadrature, others: Density) -> tuple[Mode, torch.Tensor]:
    """Modes where a prior draw of the other parameters has the largest likelihood, and that draw."""
    generator = torch.Generator().manual_seed(0)
    everything = torch.ones(others.num_observations, dtype=torch.bool)
    theta = others.sample_prior(SCOUTS if others.dimension else 1, generator)
    outer = quadrature.integrand.outer(others.node_values(theta), len(theta))
    log_density = quadrature.log_density(outer, everything)
    draws = quadrature.integrand.prior_draws(outer, SCOUT_POINTS, generator)
    value = log_density(draws, torch.arange(len(theta))).nan_to_num(nan=-torch.inf)
    best = value.argmax(1, keepdim=True)
    start = draws.gather(1, best[..., None].expand(-1, -1, -1, draws.shape[-1]))[:, 0]
    root = quadrature.reference.root.expand(len(theta), -1, -1, -1)
    mode = climb(log_density, Mode(start, root))
    height = log_density(mode.centre[:, None], torch.arange(len(theta)))[:, 0].sum(1)
    chosen = height.nan_to_num(nan=-torch.inf).argmax().reshape(1)
    return mode.select(chosen), theta[chosen]

"""What is integrated out of a model before it is estimated, and how draws of it come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeGuard, cast, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import Partial, RowSubset, Target
from synthstats_lightning.scoring.marginals.clusters.integrator import (
    LITTLE_WORK,
    integrate_clusters,
    integrate_small_clusters,
)
from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock, integrate_gaussian
from synthstats_lightning.scoring.marginals.groups.common_target import (
    integrate_in_common,
    integrate_in_common_of_many,
)
from synthstats_lightning.scoring.marginals.groups.integrator import (
    integrate_groups,
    integrate_groups_of_many,
)
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated
from synthstats_lightning.scoring.marginals.laplace.integrator import (
    integrate_laplace,
    integrate_laplace_of_many,
)
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from synthstats_lightning.scoring.marginals.normal_vectors import with_vectors
from synthstats_lightning.scoring.marginals.walks import with_walks
from synthstats_lightning.scoring.marginals.zero_sum import with_free_effects
from synthstats_lightning.scoring.score import Integration

MAX_DIMENSION = 1_000
"""Most dimensions that are left to the estimators: far fewer, where the time limit decides."""


HARDLY_LEFT = 16
"""Dimensions from which on estimators take so long that quadrature may take more work for each particle."""
MORE_WORK = 3 * LITTLE_WORK
"""Densities of rows for one particle then."""
EASILY_LEFT = 6
"""Dimensions up to which what was integrated out need not be more."""
HARD_TO_SEARCH = 9
"""Dimensions up to which estimators take few enough densities for each to be a search of its own."""
FEWER = 3
"""By how many dimensions fewer the groups' rule must leave, to be taken in place of an exact integral."""


@runtime_checkable
class Integrated(Partial, Protocol):
    """A model without a block of its parameters: a target over the others, whose rows depend on each other.

    Its prior is that of the other parameters, its likelihood has the block integrated out.
    """

    @property
    def density(self) -> Density:
        """The whole model."""
        ...

    @property
    def integration(self) -> Integration:
        """What was integrated out, and how well."""
        ...

    def complete(
        self,
        theta: Float[Tensor, "particles outer"],
        generator: torch.Generator,
        given: Bool[Tensor, " rows"],
    ) -> Float[Tensor, "particles dim"]:
        """Parameters of the whole model, the block drawn given the others and the given rows."""
        ...


@runtime_checkable
class Checkable(Integrated, Protocol):
    """One whose integrals come from a rule, to be checked where the others' posterior is."""

    @property
    def checked(self) -> bool:
        """Whether that has been done."""
        ...

    def checked_at(self, theta: Float[Tensor, "particles outer"]) -> Integrated | None:
        """The same with what the check found; where the rule is not good enough a better one, or `None`."""
        ...


Integrator = Callable[[Density], Integrated | None]
"""A model to one without a block; `None` where the integrator has none to take, or fails its own check."""

INTEGRATORS: tuple[Integrator, ...] = (
    integrate_gaussian,
    integrate_in_common,
    integrate_groups,
    integrate_small_clusters,
    integrate_laplace,
    integrate_in_common_of_many,
    integrate_clusters,
    integrate_groups_of_many,
    integrate_laplace_of_many,
)
"""In the order in which they are tried."""


class Complete(NamedTuple):
    """Draws of all parameters of a model.

    Attributes:
        density: The whole model, with all its parameters.
        theta: Its unconstrained parameters.
    """

    density: Density
    theta: Float[Tensor, "particles dim"]


def integrate(density: Density) -> Density | Integrated:
    """A model without what the first integrator that can takes out of it; the model itself where none can.

    Args:
        density: The model with its data.

    Raises:
        ProgramFailure: `UNSUPPORTED` where more than `MAX_DIMENSION` dimensions are left.
    """
    graph = density.compiled.graph
    for spelled in (with_free_effects, with_walks):
        other = spelled(graph, density.compiled.shapes)
        if other is not graph:
            found = integrate(density.of_graph(other))
            if is_integrated(found):
                return found
    tried = (integrator(density) for integrator in INTEGRATORS)
    target = next((found for found in tried if found is not None), density)
    if isinstance(target, GaussianBlock) and target.dimension > EASILY_LEFT:
        # what is affine in the likelihood was taken, and of each group something else is left
        most = target.dimension - FEWER
        work = MORE_WORK if target.dimension > HARDLY_LEFT else LITTLE_WORK
        by_nodes = integrate_groups(density, most + 1) or integrate_small_clusters(density, most, work)
        target = by_nodes or target
    elif isinstance(target, GroupIntegrated) and target.dimension > EASILY_LEFT:
        # one latent of each group was taken, and of each a second one is left
        target = integrate_small_clusters(density, target.dimension - FEWER) or target
    elif isinstance(target, LaplaceIntegrated):
        target = _by_vectors(density, target)
    if isinstance(target, LaplaceIntegrated) and target.dimension > HARD_TO_SEARCH:
        # so many are left that each density is better cheap than a search of its own
        target = integrate_in_common_of_many(density) or target
    _check_size(target)
    return target


def _by_vectors(density: Density, target: LaplaceIntegrated) -> LaplaceIntegrated:
    """The same with normal vectors in the place of matrices times normal numbers, where it has those.

    Args:
        density: The model with its data.
        target: The model without its block.
    """
    graph = density.compiled.graph
    other = with_vectors(graph, density.compiled.shapes)
    if other is graph:
        return target
    return integrate_laplace(density.of_graph(other), target.dimension) or target


def _check_size(target: Target) -> None:
    if target.dimension > MAX_DIMENSION:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"{target.dimension} latent dimensions that cannot be integrated out, more than {MAX_DIMENSION}",
        )


def whole_target(target: Target) -> Target:
    """The target of all rows, where one sees only the first."""
    return target.target if isinstance(target, RowSubset) else target


def is_unchecked(target: Target) -> bool:
    """Whether a part of the model was integrated out by a rule that has not been checked."""
    inner = whole_target(target)
    return isinstance(inner, Checkable) and not inner.checked


def checked_at(target: Target, theta: Float[Tensor, "particles outer"]) -> Target:
    """A target whose rule was checked, or what is taken in its place where it is not good enough.

    In the place of groups of several latents that is a normal approximation of all of them, which has a check
    of its own, where the model has one; the whole model otherwise.

    Args:
        target: One that `is_unchecked`.
        theta: Draws from its posterior.

    Raises:
        ProgramFailure: `UNSUPPORTED` where the whole model has more than `MAX_DIMENSION` dimensions.
    """
    if isinstance(target, RowSubset):
        return RowSubset(checked_at(target.target, theta), target.rows)
    found = target.checked_at(theta) if isinstance(target, Checkable) else None
    if found is None and isinstance(target, ClusterIntegrated):
        with torch.inference_mode(False):  # what a target is made of is saved where gradients are taken
            found = integrate_laplace(target.density)
    if found is None:
        return given_up(target)
    _check_size(found)
    return found


def given_up(target: Target) -> Target:
    """The whole model in place of one without a block.

    Args:
        target: The model without the block, or its first rows.

    Raises:
        ProgramFailure: `UNSUPPORTED` where the whole model has more than `MAX_DIMENSION` dimensions.
    """
    if isinstance(target, RowSubset):
        return RowSubset(given_up(target.target), target.rows)
    whole = whole_model(target)
    _check_size(whole)
    return whole


def is_integrated(target: Target) -> TypeGuard[Integrated]:
    """Whether a block of a model's parameters was integrated out."""
    # a protocol's members are looked up one by one: most targets lack this one
    return hasattr(target, "integration") and isinstance(target, Integrated)


def whole_model(target: Target) -> Density:
    """The model of which a target is what `integrate` made."""
    return target.density if is_integrated(target) else cast(Density, target)


def completed(
    target: Target,
    theta: Float[Tensor, "particles outer"],
    generator: torch.Generator,
    given: Bool[Tensor, " rows"],
) -> Complete:
    """Draws of all of a model's parameters from draws of those that the estimators saw.

    Args:
        target: What `integrate` made of a model.
        theta: Draws from its posterior given some rows.
        generator: Source of the block's draws; not used where nothing was integrated out.
        given: Which rows these are.
    """
    if is_integrated(target):
        with torch.no_grad():
            return Complete(target.density, target.complete(theta, generator, given))
    return Complete(cast(Density, target), theta)

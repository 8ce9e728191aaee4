"""Mixtures of multivariate Student-t distributions: proposals with heavier tails than most posteriors."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.estimators.warp import Warp

MIN_SHARE = 1e-3
"""Components that carry less of the posterior than this, relative to the largest, are dropped."""

NEW_SHARE = 0.3
"""Share that a new component starts with; the next EM step corrects it."""
SHORT = 1e-3
"""Step of the differences by which a component is carried to other coordinates, in its own scales."""


class StudentMixture(NamedTuple):
    """A mixture of multivariate Student-t distributions with common degrees of freedom.

    Attributes:
        log_share: Log mixture weights `[components]`, normalised.
        location: Centres `[components, dim]`.
        scale_tril: Lower Cholesky factors of the scale matrices `[components, dim, dim]`.
        degrees_of_freedom: Degrees of freedom of every component, a whole number.
        warp: The map from the coordinates that the components are in to parameters; `None` where these are
            the parameters.
    """

    log_share: Float[Tensor, " components"]
    location: Float[Tensor, "components dim"]
    scale_tril: Float[Tensor, "components dim dim"]
    degrees_of_freedom: int
    warp: Warp | None = None

    def coordinates(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles dim"]:
        """Where parameters are among the components.

        Args:
            theta: Unconstrained parameters, a row a particle.
        """
        return theta if self.warp is None else self.warp.coordinates(theta)

    @property
    def centres(self) -> Float[Tensor, "components dim"]:
        """Parameters at the components' centres."""
        return self.location if self.warp is None else self.warp.parameters(self.location)[0]

    def along(self, warp: Warp | None) -> StudentMixture:
        """About the same mixture in the coordinates of a map, each component as they are near its centre.

        Args:
            warp: The map; a mixture that has one already must have the same.
        """
        if warp is None or self.warp is not None:
            return self
        moved = self.location[:, None] + SHORT * torch.nn.functional.pad(self.scale_tril.mT, (0, 0, 1, 0))
        there = warp.coordinates(moved.flatten(0, 1)).reshape(moved.shape)
        root = ((there[:, 1:] - there[:, :1]) / SHORT).mT
        scale_tril, info = torch.linalg.cholesky_ex(root @ root.mT)
        kept = (info == 0) & scale_tril.isfinite().flatten(1).all(1) & there.isfinite().flatten(1).all(1)
        log_share = self.log_share[kept].log_softmax(0)
        return StudentMixture(log_share, there[kept, 0], scale_tril[kept], self.degrees_of_freedom, warp)


class ComponentDensities(NamedTuple):
    """Densities of every component at some particles.

    Particles are the last axis: sums and maxima over few components or dimensions take several times as long
    where these are.

    Attributes:
        log_density: Log density of each component, without its share `[components, particles]`.
        distance: Squared Mahalanobis distance `[components, particles]`.
        place: Where the particles are among the components `[particles, dim]`.
    """

    log_density: Float[Tensor, "components particles"]
    distance: Float[Tensor, "components particles"]
    place: Float[Tensor, "particles dim"]


def component_densities(mixture: StudentMixture, theta: Float[Tensor, "particles dim"]) -> ComponentDensities:
    """Log density and squared distance of each particle under each component."""
    dimension = theta.shape[-1]
    log_jacobian = None
    if mixture.warp is not None:
        theta = mixture.warp.coordinates(theta)
        log_jacobian = mixture.warp.parameters(theta)[1]
    nu = mixture.degrees_of_freedom
    eye = torch.eye(dimension, dtype=theta.dtype).expand_as(mixture.scale_tril)
    whiten = torch.linalg.solve_triangular(mixture.scale_tril, eye, upper=False)
    offset = theta.T.contiguous() - mixture.location[:, :, None]
    distance = (whiten @ offset).square_().sum(1)
    log_det = mixture.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
    constant = (
        math.lgamma(0.5 * (nu + dimension)) - math.lgamma(0.5 * nu) - 0.5 * dimension * math.log(nu * math.pi)
    )
    log_density = constant - log_det - 0.5 * (nu + dimension) * torch.log1p(distance / nu)
    log_density = log_density if log_jacobian is None else log_density - log_jacobian
    return ComponentDensities(log_density, distance, theta)


def mixture_log_prob(mixture: StudentMixture, components: ComponentDensities) -> Float[Tensor, " particles"]:
    """Log density of the mixture, from those of its components."""
    joint = components.log_density + mixture.log_share[:, None]
    # most proposals have one component, and a sum of one term is that term
    return joint[0] if len(joint) == 1 else joint.logsumexp(0)


def sample_mixture(
    mixture: StudentMixture, count: int, generator: torch.Generator
) -> Float[Tensor, "particles dim"]:
    """Draws from the mixture, the components' numbers of draws fixed by systematic sampling.

    Args:
        mixture: The mixture that is drawn from.
        count: Number of draws.
        generator: Source of randomness.
    """
    nu = mixture.degrees_of_freedom
    dtype = mixture.location.dtype
    dimension = mixture.location.shape[-1]
    share = mixture.log_share.exp().cumsum(0)
    # points (i + offset) / count, so that those below a share can be counted
    offset = torch.rand(1, generator=generator, dtype=dtype)
    ends = (count * share / share[-1] - offset).ceil().clamp(0, count).to(torch.int64).tolist()
    ends[-1] = count
    normal = torch.randn(count, dimension, generator=generator, dtype=dtype)
    normal *= (nu / chi_square(nu, count, generator)).sqrt_()[:, None]
    draws = torch.empty_like(normal)
    for k, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        torch.addmm(mixture.location[k], normal[start:end], mixture.scale_tril[k].T, out=draws[start:end])
    return draws if mixture.warp is None else mixture.warp.parameters(draws)[0]


def chi_square(nu: int, count: int, generator: torch.Generator) -> Float[Tensor, " draws"]:
    """Draws of a chi-square distribution, float64: two degrees of freedom for each uniform number.

    Args:
        nu: Degrees of freedom, a whole number.
        count: Number of draws.
        generator: Source of randomness.
    """
    product = 1.0 - torch.rand(count, generator=generator, dtype=torch.float64)
    for _ in range(nu // 2 - 1):
        product *= 1.0 - torch.rand(count, generator=generator, dtype=torch.float64)
    draws = -2.0 * product.log_() if nu > 1 else torch.zeros(count, dtype=torch.float64)
    if nu % 2:
        draws += torch.randn(count, generator=generator, dtype=torch.float64).square_()
    return draws


def combine(first: StudentMixture, second: StudentMixture, share: float) -> StudentMixture:
    """Two mixtures side by side.

    Args:
        first: The first of the two mixtures.
        second: Another, with the same degrees of freedom and in the same coordinates.
        share: Of the second, between 0 and 1.
    """
    return StudentMixture(
        torch.cat([first.log_share + math.log1p(-share), second.log_share + math.log(share)]),
        torch.cat([first.location, second.location]),
        torch.cat([first.scale_tril, second.scale_tril]),
        first.degrees_of_freedom,
        first.warp,
    )


def refine_mixture(
    mixture: StudentMixture,
    theta: Float[Tensor, "particles dim"],
    log_weight: Float[Tensor, " particles"],
    components: ComponentDensities | None = None,
) -> StudentMixture:
    """One importance-weighted EM step (M-PMC; Cappé, Douc, Guillin, Marin and Robert 2008, equations 14-16).

    Weights are truncated at `mean * sqrt(particles)` (Ionides 2008), and a component is shrunk towards its
    old self by the weight of `4 dim` draws, so that few effective draws move it little. Components that
    carry nearly nothing are dropped.

    Args:
        mixture: The proposal that the draws came from, up to other parts such as the prior.
        theta: Draws in unconstrained parameters.
        log_weight: Their log importance weights, at least one finite.
        components: The mixture's `component_densities` at the draws, if they are known.
    """
    count, dimension = theta.shape
    nu = mixture.degrees_of_freedom
    log_weight = log_weight - log_weight.logsumexp(0)
    weight = log_weight.clamp_max(-0.5 * math.log(count)).exp()
    weight = weight / weight.sum()
    components = component_densities(mixture, theta) if components is None else components
    log_density, distance, theta = components
    responsibility = weight * (log_density + mixture.log_share[:, None]).softmax(0)
    mass = responsibility.sum(1)
    effective = mass.square() / responsibility.square().sum(1).clamp_min(torch.finfo(mass.dtype).tiny)
    pull = responsibility * (nu + dimension) / (nu + distance)
    prior_count = 4.0 * dimension
    blend = (effective / (effective + prior_count))[:, None]
    mean = pull @ theta / pull.sum(1).clamp_min(1e-300)[:, None]
    location = blend * mean + (1 - blend) * mixture.location
    offset = theta.T.contiguous() - location[:, :, None]
    scatter = (pull[:, None] * offset) @ offset.mT / mass.clamp_min(1e-300)[:, None, None]
    old = mixture.scale_tril @ mixture.scale_tril.mT
    scale = blend[..., None] * scatter + (1 - blend[..., None]) * old
    scale_tril, info = torch.linalg.cholesky_ex(scale)
    scale_tril = torch.where((info == 0)[:, None, None], scale_tril, mixture.scale_tril)
    used = mass >= MIN_SHARE * mass.max()
    if not bool(used.any()):  # draws too far out for any component's density
        return mixture
    log_share = (mass[used] / mass[used].sum()).log()
    return StudentMixture(log_share, location[used], scale_tril[used], nu, mixture.warp)


def add_component(
    mixture: StudentMixture, theta: Float[Tensor, "particles dim"], log_weight: Float[Tensor, " particles"]
) -> StudentMixture:
    """Adds a component where the mixture is most short of mass (incremental mixtures; Raftery and Bao 2010).

    It is centred on the draw of largest importance weight and shaped by that draw's neighbours, weighted
    half by importance and half equally.

    Args:
        mixture: The proposal that the draws came from, up to other parts such as the prior.
        theta: Draws in unconstrained parameters.
        log_weight: Their log importance weights, at least one finite.
    """
    count, dimension = theta.shape
    theta = mixture.coordinates(theta)
    centre = theta[log_weight.argmax()]
    ordered = theta.sort(0).values
    spread = (ordered[3 * count // 4] - ordered[count // 4]).clamp_min(1e-12)
    distance = ((theta - centre) / spread).square().sum(-1)
    near = distance.argsort(stable=True)[: min(max(60, 10 * dimension), count)]
    importance = log_weight[near].softmax(0)
    weight = 0.5 * (importance + 1 / len(near))
    offset = theta[near] - centre
    scale = (weight[:, None] * offset).T @ offset
    scale_tril, info = torch.linalg.cholesky_ex(scale + 1e-9 * torch.diag(scale.diagonal().clamp_min(1e-16)))
    if int(info) != 0:
        return mixture
    share = torch.zeros(1, dtype=theta.dtype)
    added = mixture._replace(log_share=share, location=centre[None], scale_tril=scale_tril[None])
    return combine(mixture, added, NEW_SHARE)

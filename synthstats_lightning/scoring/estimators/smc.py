"""Annealed sequential Monte Carlo with HMC moves, over independent islands.

One annealing routine serves several purposes, because each is a path `base + beta * increment` of log
densities with beta from 0 to 1: from a proposal to the posterior (evidence), and from the posterior to that
without one observation (exact leave-one-out). Islands never exchange particles: they are independent
replicates (Del Moral, Doucet and Jasra 2006 for the sampler). What their moves have in common their spread
does not show; see `effort`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import (
    Target,
    evaluate,
    evaluate_totals,
    finite_or_minus_infinity,
    value_and_gradient,
)
from synthstats_lightning.scoring.estimators.particles import (
    Annealing,
    Particles,
    next_temperature,
    systematic_resample,
)
from synthstats_lightning.scoring.estimators.proposal import Proposal
from synthstats_lightning.scoring.numerics.counted_time import CountedTime, counted_time
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

Path = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""`(theta [islands, particles, dim], island [islands]) -> (base, increment)`, both `[islands, particles]`."""

TARGET_ACCEPTANCE = 0.8
"""Acceptance rate at which HMC's step size settles (Beskos et al. 2013: 0.65 to 0.9)."""
STEP_RANGE = (0.2, 1.2)
"""Each trajectory's step is the common one times a log-uniform number from this range, for narrow funnels."""


class Annealed(NamedTuple):
    """The end of an annealing run.

    Attributes:
        theta: Equally weighted particles at beta = 1 `[islands, particles, dim]`.
        log_ratio: Log of the ratio of normalising constants, last over first, of each island `[islands]`.
        temperatures: Steps from 0 to 1 that the slowest island took.
        acceptance: Mean acceptance rate of the last moves.
        ancestor: Which particle of its island each one was before the last resampling
            `[islands, particles]`.
        evaluations: Evaluations of the path with gradient, in particles.
    """

    theta: Float[Tensor, "islands particles dim"]
    log_ratio: Float[Tensor, " islands"]
    temperatures: int
    acceptance: float
    ancestor: Int[Tensor, "islands particles"]
    evaluations: int


def hmc_move(
    path: Path,
    theta: Float[Tensor, "islands particles dim"],
    beta: Float[Tensor, " islands"],
    island: Int[Tensor, " islands"],
    scale_tril: Float[Tensor, "dim dim"],
    step_size: float,
    leapfrog: int,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "islands particles dim"], float]:
    """One HMC trajectory of every particle, preconditioned by `scale_tril` (Neal 2011, section 5.3).

    Args:
        path: The annealing path.
        theta: Positions of the particles.
        beta: Temperature of each island.
        island: Which islands these are.
        scale_tril: Cholesky factor of a covariance of the particles.
        step_size: Step size, in units of the preconditioned space.
        leapfrog: Steps of the trajectory.
        generator: Source of randomness.

    Returns:
        Moved particles and the mean acceptance probability.
    """

    def log_density(points: Tensor) -> Tensor:
        base, increment = path(points, island)
        return base + beta[:, None] * increment

    shape, dtype = theta.shape, theta.dtype
    low, high = (math.log(bound) for bound in STEP_RANGE)
    factor = (low + (high - low) * torch.rand(*shape[:2], 1, generator=generator, dtype=dtype)).exp()
    step = step_size * factor
    momentum = torch.randn(shape, generator=generator, dtype=dtype)
    start_value, gradient = value_and_gradient(log_density, theta)
    start_energy = start_value - 0.5 * momentum.square().sum(-1)
    point = theta
    momentum = momentum + 0.5 * step * (gradient @ scale_tril)
    for index in range(leapfrog):
        point = point + step * (momentum @ scale_tril.T)
        value, gradient = value_and_gradient(log_density, point)
        momentum = momentum + (1.0 if index < leapfrog - 1 else 0.5) * step * (gradient @ scale_tril)
    energy = value - 0.5 * momentum.square().sum(-1)
    log_accept = (energy - start_energy).nan_to_num(nan=-torch.inf, posinf=-torch.inf).clamp_max(0.0)
    accept = torch.rand(shape[:2], generator=generator, dtype=dtype).log() < log_accept
    return torch.where(accept[..., None], point, theta), float(log_accept.exp().mean())


def pooled_scale(theta: Float[Tensor, "islands particles dim"]) -> Float[Tensor, "dim dim"]:
    """Cholesky factor of the covariance within islands, shrunk a little towards its diagonal."""
    islands, particles, dimension = theta.shape
    offset = (theta - theta.mean(1, keepdim=True)).flatten(0, 1)
    covariance = offset.T @ offset / max(islands * (particles - 1), 1)
    diagonal = covariance.diagonal().clamp_min(1e-16)
    shrink = dimension / (dimension + islands * particles)
    covariance = (1 - shrink) * covariance + shrink * torch.diag(diagonal)
    scale_tril, info = torch.linalg.cholesky_ex(covariance + 1e-10 * torch.diag(diagonal))
    return scale_tril if int(info) == 0 else torch.diag(diagonal.sqrt())


def anneal(
    path: Path,
    theta: Float[Tensor, "islands particles dim"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Annealed:
    """Carries equally weighted particles of the path's start to its end.

    Temperatures are chosen by each island for itself; islands that have arrived leave the batch.

    Args:
        path: Log densities; `base` is that of the particles given.
        theta: Particles of each island at beta = 0.
        settings: Effective sample size, moves and limits.
        generator: Source of randomness.
        deadline: Checked before each move.

    Raises:
        ProgramFailure: `SCORER_LIMIT` where the path takes too many temperatures; `NON_FINITE` where no
            particle has positive density at the end of the path. One island without such particles gets a
            ratio of -inf.
    """
    islands, particles, dimension = theta.shape
    theta = theta.clone()
    beta = torch.zeros(islands, dtype=theta.dtype)
    log_ratio = torch.zeros(islands, dtype=theta.dtype)
    active = torch.arange(islands)
    ancestor = torch.arange(particles).repeat(islands, 1)
    evaluations = 0
    step_size, acceptance = 1.2 * dimension**-0.25, 1.0
    each = _gradient_time(path, theta)
    temperature = 0
    while len(active) > 0 and temperature < settings.smc_max_temperatures:
        temperature += 1
        deadline.check("annealing")
        with torch.no_grad():
            increment = finite_or_minus_infinity(path(theta[active], active)[1])
        alive = increment.isfinite().any(1)
        log_ratio[active[~alive]] = -torch.inf
        active, increment = active[alive], increment[alive]
        if len(active) == 0:
            break
        reached = next_temperature(beta[active], increment, settings.smc_ess_fraction)
        log_weight = torch.where(
            increment.isfinite(), (reached - beta[active])[:, None] * increment, -torch.inf
        )
        log_ratio[active] += log_weight.logsumexp(-1) - math.log(particles)
        beta[active] = reached
        index = systematic_resample(log_weight, particles, generator)
        ancestor[active] = index
        moved = theta[active].gather(1, index[..., None].expand(-1, -1, dimension))
        moves, accepted = 0, 0.0
        # rejected trajectories are repeated, up to a limit, so that every temperature mixes about alike
        while moves < settings.smc_moves or (
            accepted < 0.6 * settings.smc_moves and moves < 4 * settings.smc_moves
        ):
            deadline.check("annealing")
            deadline.spend((settings.smc_leapfrog + 1) * each.of(moved.shape[0]), "annealing")
            # anew for each move: where the path widens, the next step may be as wide as the last one reached
            scale_tril = pooled_scale(moved)
            moved, acceptance = hmc_move(
                path, moved, beta[active], active, scale_tril, step_size, settings.smc_leapfrog, generator
            )
            step_size = min(step_size * math.exp(1.5 * (acceptance - TARGET_ACCEPTANCE)), 2.0)
            moves, accepted = moves + 1, accepted + acceptance
            evaluations += moved.shape[0] * particles * (settings.smc_leapfrog + 1)
        theta[active] = moved
        active = active[beta[active] < 1.0]
    if len(active) > 0:
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"annealing needs more than smc_max_temperatures={settings.smc_max_temperatures} temperatures",
        )
    if not bool(log_ratio.isfinite().any()):
        raise ProgramFailure(
            FailureCategory.NON_FINITE, "annealing found no parameters of positive likelihood"
        )
    return Annealed(theta, log_ratio, temperature, acceptance, ancestor, evaluations)


def _gradient_time(path: Path, theta: Float[Tensor, "islands particles dim"]) -> CountedTime:
    """What the gradients at the particles of one island take."""
    first = torch.arange(1)

    def both(points: Tensor) -> Tensor:
        base, increment = path(points, first)
        return base + increment

    return counted_time(lambda: value_and_gradient(both, theta[:1]))


def bridge(
    target: Target,
    proposal: Proposal,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Particles:
    """Bridging SMC from a proposal to the posterior.

    Args:
        target: The model, in the coordinates of the particles.
        proposal: Where to start.
        settings: Islands, their particles, moves and limits.
        generator: Source of randomness.
        deadline: Checked between moves.

    Returns:
        The islands' particles, one island after the other, weighted by their islands' normalising constants.

    Raises:
        ProgramFailure: See `anneal`.
    """

    def path(theta: Tensor, island: Tensor) -> tuple[Tensor, Tensor]:
        evaluation = evaluate_totals(target, theta.flatten(0, 1))
        log_joint = evaluation.log_joint
        base = proposal.log_prob(theta.flatten(0, 1), evaluation.log_prior)
        increment = torch.where(log_joint.isfinite(), log_joint - base, -torch.inf)
        return base.reshape(theta.shape[:2]), increment.reshape(theta.shape[:2])

    count = settings.island_particles
    start = proposal.sample(target, settings.islands * count, generator)
    # draws come sorted by component, and each island needs its share of every one
    start = start.reshape(count, settings.islands, -1).transpose(0, 1)
    result = anneal(path, start, settings, generator, deadline)
    theta = result.theta.flatten(0, 1)
    with torch.no_grad():
        evaluation = evaluate(target, theta)
    evidence, standard_error = island_mean(result.log_ratio)
    return Particles(
        theta=theta,
        log_weight=result.log_ratio.repeat_interleave(count),
        log_prior=evaluation.log_prior,
        log_likelihood=evaluation.log_likelihood,
        log_proposal=None,
        log_evidence=evidence,
        log_evidence_se=standard_error,
        pareto_k=0.0,
        estimator="smc",
        annealing=Annealing(result.ancestor, result.evaluations),
    )


def pool(runs: Sequence[Particles]) -> Particles:
    """Several bridging runs as one with all their islands.

    Args:
        runs: Results of `bridge` with islands of one size.
    """
    made = [run.annealing for run in runs if run.annealing is not None]
    if len(runs) == 1:
        return runs[0]
    ancestor = torch.cat([each.ancestor for each in made])
    log_weight = torch.cat([run.log_weight for run in runs])
    evidence, standard_error = island_mean(log_weight[:: ancestor.shape[1]])
    return runs[0]._replace(
        theta=torch.cat([run.theta for run in runs]),
        log_weight=log_weight,
        log_prior=torch.cat([run.log_prior for run in runs]),
        log_likelihood=torch.cat([run.log_likelihood for run in runs]),
        log_evidence=evidence,
        log_evidence_se=standard_error,
        annealing=Annealing(ancestor, sum(each.evaluations for each in made)),
    )


def island_mean(log_ratio: Float[Tensor, " islands"]) -> tuple[float, float]:
    """Log of the islands' mean normalising constant and its standard error, in nats."""
    islands = len(log_ratio)
    log_mean = float(log_ratio.logsumexp(0)) - math.log(islands)
    relative = (log_ratio - log_mean).exp()
    return log_mean, float(relative.std()) / math.sqrt(islands)

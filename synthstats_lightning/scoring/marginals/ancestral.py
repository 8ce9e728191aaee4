"""Ancestral sampling of a model: parameters from the prior, responses given parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.expressions import Bounds
from synthstats_lightning.scoring.density.layout import (
    BY_STEP,
    Parameter,
    Transform,
    constrain_alone,
    standardise,
    unconstrain,
)
from synthstats_lightning.scoring.density.structural import core_view, pad
from synthstats_lightning.scoring.density.terms import Operand, Term
from synthstats_lightning.scoring.distributions import distribution_of
from synthstats_lightning.scoring.distributions.base import over_core, over_event
from synthstats_lightning.scoring.marginals.blocks import ALONE
from synthstats_lightning.scoring.marginals.compilation import Compiled, needed_steps

LARGEST = 1e300
"""Draws beyond it (a Cauchy's far tail, an overflowing scale) are set to it: parameters stay finite."""


def prior_terms(compiled: Compiled) -> dict[int, Term]:
    """Of each continuous parameter's node, its distribution with constant hyperparameters bound."""
    return {
        parameter.node: Term(
            parameter.distribution, _inputs(compiled, parameter.node, parameter.distribution.ranks)
        )
        for parameter in compiled.parameters
    }


def sample_prior(
    compiled: Compiled, terms: Mapping[int, Term], n: int, generator: torch.Generator
) -> Float[Tensor, "n dim"]:
    """Independent draws of the unconstrained parameters.

    Args:
        compiled: The model, compiled.
        terms: The model's `prior_terms`.
        n: Number of draws.
        generator: Source of all randomness.
    """
    values: list[Tensor | None] = [None] * compiled.num_slots
    parameters = {parameter.node: parameter for parameter in compiled.parameters}
    dimension = sum(parameter.size for parameter in compiled.parameters)
    theta = torch.empty(n, dimension, dtype=torch.float64)
    labels = compiled.labels
    discrete = set() if labels is None else {site.node for site in labels.plan.sites}
    # not what only the response needs, which has its rows
    wanted = [i for node in {*parameters, *discrete} for i in compiled.graph.nodes[node].inputs]
    wanted += [slot for term in terms.values() for slot in term.slots]
    steps = {step.slot: step for step in needed_steps(compiled.steps, wanted)}
    for index in range(len(compiled.graph.nodes)):
        if index in parameters:
            parameter = parameters[index]
            hyperparameters, _ = terms[index].allowed_parameters(values)
            shape = (n, *core_view(parameter.shape, parameter.distribution.event_rank, compiled.rank))
            if parameter.distribution.sample_coordinate is None or parameter.transform not in ALONE:
                draws = parameter.distribution.sample(generator, shape, *hyperparameters)
                draws = draws.nan_to_num(nan=0.0, posinf=LARGEST, neginf=-LARGEST).clamp(-LARGEST, LARGEST)
                u = _unconstrained(parameter, draws, hyperparameters)
            else:
                u = parameter.distribution.sample_coordinate(generator, shape, *hyperparameters)
                u = u.nan_to_num(nan=0.0, posinf=LARGEST, neginf=-LARGEST)
                draws = constrain_alone(parameter.transform, u)[0]
            values[index] = draws.reshape(n, *pad(parameter.shape, compiled.rank))
            theta[:, parameter.start : parameter.stop] = u.reshape(n, -1)
        elif index in discrete:
            values[index] = _discrete_draws(compiled, index, values, n, generator)
        elif index in steps:
            step = steps[index]
            values[index] = step.function(*[values[i] for i in step.inputs])
    return theta


def sample_response(
    compiled: Compiled, values: Sequence[Tensor | None], n: int, generator: torch.Generator
) -> Float[Tensor, "n rows"]:
    """One response for each particle.

    Args:
        compiled: The model, compiled.
        values: Value of every node, from an evaluation of all steps.
        n: Number of particles.
        generator: Source of all randomness.
    """
    term = compiled.response_term
    distribution = term.distribution
    shape = (n, *core_view((compiled.num_observations,), distribution.event_rank, compiled.rank))
    parameters = list(term.parameters(values))
    allowed = torch.ones((), dtype=torch.bool)
    for index, constraint in enumerate(distribution.constraints):
        parameter = term.raw_constants[index]
        parameter = parameters[index] if parameter is None else parameter
        holds = torch.isfinite(parameter)
        if constraint.allows is not None:
            holds = holds & constraint.allows(parameter)
        allowed = allowed & over_core(holds, distribution.ranks[index])
        parameters[index] = torch.where(holds, parameter, constraint.fill)
    draws = distribution.sample(generator, shape, *parameters)
    allowed = over_event(allowed, distribution.event_rank)
    return torch.where(allowed, draws, torch.nan).reshape(n, compiled.num_observations)


def response_log_prob(
    compiled: Compiled, values: Sequence[Tensor | None], response: Float[Tensor, "n rows"]
) -> Float[Tensor, "n rows"]:
    """Log density of each row of each particle's own response.

    Args:
        compiled: The model, compiled.
        values: Value of every node, from an evaluation of all steps.
        response: One response for each particle; NaN has density 0.

    Raises:
        ProgramFailure: `UNSUPPORTED` for models whose rows have no density of their own given `values`.
    """
    distribution = compiled.response_term.distribution
    if compiled.labels is not None or distribution.event_rank:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            "simulated responses of a model with discrete parameters, or whose response is one draw of"
            f" {distribution.name}: their density is unknown",
        )
    padded = pad((compiled.num_observations,), compiled.rank)
    parameters = []
    for operand in _inputs(compiled, compiled.graph.response, distribution.ranks):
        value = values[operand.slot] if operand.constant is None else operand.constant
        parameters.append(cast(Tensor, value).to(torch.float64))
    # undefined draws: their density is not used
    value = response.nan_to_num(nan=0.0).reshape(len(response), *padded)
    log_prob = distribution.log_prob(value, *parameters).expand(value.shape).reshape(response.shape)
    return torch.where(response.isfinite(), log_prob.nan_to_num(nan=-torch.inf), -torch.inf)


def _discrete_draws(
    compiled: Compiled, node: int, values: Sequence[Tensor | None], n: int, generator: torch.Generator
) -> Tensor:
    """Draws of a discrete parameter given the values before it, int64 in the padded layout."""
    distribution = distribution_of(compiled.graph.nodes[node].attributes)
    operands = _inputs(compiled, node, distribution.ranks)
    parameters, _ = Term(distribution, operands).allowed_parameters(values)
    shape = (n, *pad(compiled.shapes[node], compiled.rank))
    return distribution.sample(generator, shape, *parameters).to(torch.int64)


def _inputs(compiled: Compiled, node: int, ranks: Sequence[int]) -> list[Operand]:
    operands = []
    for index, core in zip(compiled.graph.nodes[node].inputs, ranks, strict=True):
        constant = compiled.constants[index]
        view = core_view(compiled.shapes[index], core, compiled.rank) if core else None
        value = None if constant is None else constant.to(torch.float64)
        operands.append(Operand(value, index, Bounds(), view if constant is None else None))
    return operands


def _unconstrained(parameter: Parameter, draws: Tensor, hyperparameters: Sequence[Tensor]) -> Tensor:
    coordinates = parameter.distribution.coordinates
    if coordinates is not None:
        return coordinates.unconstrain(draws, *(hyperparameters[index] for index in coordinates.reads))
    if parameter.transform is Transform.STANDARDISED:
        return standardise(parameter, draws, hyperparameters).clamp(-LARGEST, LARGEST)
    if parameter.transform is Transform.INTERVAL or parameter.transform in BY_STEP:
        return unconstrain(parameter.transform, draws, *parameter.distribution.edges(*hyperparameters))
    return unconstrain(parameter.transform, draws)

"""From a model graph and data to everything that a density evaluates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.diagonals import with_known_diagonals
from synthstats_lightning.scoring.density.distances import with_known_distances
from synthstats_lightning.scoring.density.expressions import (
    Bounds,
    Step,
    as_tensor,
    bind,
    compile_node,
    constant_values,
    node_types,
    result_bounds,
    selected_nodes,
)
from synthstats_lightning.scoring.density.layout import (
    BY_BOUND,
    BY_STEP,
    Block,
    Parameter,
    Transform,
    blocks,
    constrain,
    find_parameters,
    flat_hyperparameters,
)
from synthstats_lightning.scoring.density.pairs import find_pairs
from synthstats_lightning.scoring.density.reparametrise import accurate_form
from synthstats_lightning.scoring.density.standardise import Anchor
from synthstats_lightning.scoring.density.structural import Layout, Shape, core_view
from synthstats_lightning.scoring.density.terms import Operand, Term
from synthstats_lightning.scoring.distributions import Distribution, distribution_of
from synthstats_lightning.scoring.distributions.truncated import rounded
from synthstats_lightning.scoring.marginals.labels.counts import LARGEST
from synthstats_lightning.scoring.marginals.labels.patterns import label_sums
from synthstats_lightning.scoring.marginals.labels.plan import Plan, make_plan
from synthstats_lightning.scoring.marginals.labels.sites import cannot
from synthstats_lightning.scoring.marginals.labels.sums import LabelSums
from synthstats_lightning.scoring.numerics import transforms


class Dependent(NamedTuple):
    """A parameter between bounds that depend on other parameters, or a vector with coordinates of its own.

    Attributes:
        parameter: The parameter; its value is the result of a step.
        slot: Where its unconstrained value goes.
        jacobian_slot: Where its log-Jacobian goes.
    """

    parameter: Parameter
    slot: int
    jacobian_slot: int


class GroupTerm(NamedTuple):
    """The prior of neighbouring parameters that share a distribution with constant hyperparameters.

    Attributes:
        term: Its density, elementwise over columns.
        block: Index of their block.
        columns: Start and length within the block, `None` for all of it.
    """

    term: Term
    block: int
    columns: tuple[int, int] | None


class Intervals(NamedTuple):
    """Constant bounds of the columns of the interval block."""

    lower: Tensor
    upper: Tensor
    width: Tensor
    log_width: Tensor


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model graph with its data, ready to be evaluated.

    Attributes:
        graph: The canonical model graph.
        shapes: Shape of every node.
        rank: Axes of every parameter-dependent value after the particle axis.
        num_slots: Length of the list of values of one evaluation.
        num_observations: Rows of the response.
        constants: Value of every node that depends on no parameter.
        parameters: Parameters in column order.
        blocks: Columns and transforms of the parameters.
        dependents: Parameters with dependent bounds, in column order.
        intervals: Bounds of the interval block.
        steps: Every call, in order.
        free_steps: Those that depend on no discrete parameter.
        prior_steps: Those that the prior needs.
        likelihood_steps: Those that the likelihood needs.
        joint_steps: Those that either needs.
        group_terms: Priors with constant hyperparameters.
        parameter_terms: The other priors.
        response_term: Term of the likelihood.
        labels: What discrete parameters enter, with these summed out; `None` if the model has none.
    """

    graph: ModelGraph
    shapes: list[Shape]
    rank: int
    num_slots: int
    num_observations: int
    constants: list[Tensor | None]
    parameters: tuple[Parameter, ...]
    blocks: tuple[Block, ...]
    dependents: tuple[Dependent, ...]
    intervals: Intervals
    steps: tuple[Step, ...]
    free_steps: tuple[Step, ...]
    prior_steps: tuple[Step, ...]
    likelihood_steps: tuple[Step, ...]
    joint_steps: tuple[Step, ...]
    group_terms: tuple[GroupTerm, ...]
    parameter_terms: tuple[tuple[Parameter, Term], ...]
    response_term: Term
    labels: LabelSums | None


def compile_graph(
    graph: ModelGraph,
    covariates: Mapping[str, NDArray[Any]],
    response: NDArray[Any],
    anchors: Mapping[int, Anchor] | None = None,
    rounding: float | None = None,
    least_rank: int = 1,
    most_counted: int = LARGEST[0],
) -> Compiled:
    """Binds data to a graph, evaluates what is constant and lists the calls for the rest.

    Args:
        graph: A validated model graph.
        covariates: Column name to values `[rows]`.
        response: Observed values `[rows]`.
        anchors: Nodes of parameters that are standardised given their hyperparameters.
        rounding: Spacing of the values that the response was recorded to, `None` for exact values.
        least_rank: Fewest axes of every parameter-dependent value after the particle axis.
        most_counted: Largest value that a discrete parameter without a largest value is summed to.

    Raises:
        ProgramFailure: See `scoring.density.build_density`.
    """
    shapes, dtypes = node_types(graph, covariates)
    constants = [None if array is None else as_tensor(array) for array in constant_values(graph, covariates)]
    if distribution_of(graph.nodes[graph.response].attributes).event_rank:
        known = with_known_diagonals(with_known_distances(graph, constants), constants)
        if known is not graph:
            return compile_graph(known, covariates, response, anchors, rounding, most_counted=most_counted)
    parameters = find_parameters(graph, constants, anchors)
    dependents = _dependents(graph, parameters)
    rank = max(least_rank, *(len(shapes[i]) for i, c in enumerate(constants) if c is None))
    bounds = [Bounds()] * len(graph.nodes)
    for parameter in parameters:
        bounds[parameter.node] = parameter.bounds(_constant_inputs(graph, parameter.node, constants))
    steps = _steps(graph, shapes, dtypes, constants, bounds, rank, dependents)
    operands = _Operands(graph, constants, bounds, shapes, rank, rounding)
    found_blocks = blocks(parameters)
    group_terms, grouped = _group_terms(found_blocks, graph, constants)
    response_term = operands.term(graph.response, torch.from_numpy(np.array(response, dtype=np.float64)))
    _check_response(response_term.distribution)
    plan = make_plan(graph, shapes, constants, most_counted)
    labels, free_steps = None, steps
    if plan is not None:
        _check_bounds(plan, graph, parameters)
        free_steps = tuple(step for step in steps if step.slot not in plan.dependent)
        terms = {node: operands.term(node) for node in plan.factors[1:]} | {graph.response: response_term}
        label_steps = [step for step in steps if step.slot in plan.dependent]
        labels = label_sums(graph, plan, label_steps, terms, shapes, rank)
        grouped |= set(plan.factors)
    parameter_terms = tuple((p, operands.term(p.node)) for p in parameters if p.node not in grouped)
    prior_slots = [slot for _, term in parameter_terms for slot in term.slots]
    prior_slots += [p.node for p, _ in parameter_terms] + [d.jacobian_slot for d in dependents]
    likelihood_slots = response_term.slots if labels is None else list(labels.slots)
    if labels is not None and labels.has_prior:
        prior_slots += labels.slots
    return Compiled(
        graph=graph,
        shapes=shapes,
        rank=rank,
        num_slots=len(graph.nodes) + 2 * len(dependents),
        num_observations=len(response),
        constants=constants,
        parameters=tuple(parameters),
        blocks=tuple(found_blocks),
        dependents=dependents,
        intervals=_intervals(found_blocks, graph, constants),
        steps=steps,
        free_steps=free_steps,
        prior_steps=needed_steps(free_steps, prior_slots),
        likelihood_steps=needed_steps(free_steps, likelihood_slots),
        joint_steps=needed_steps(free_steps, [*prior_slots, *likelihood_slots]),
        group_terms=group_terms,
        parameter_terms=parameter_terms,
        response_term=response_term,
        labels=labels,
    )


def without_priors(compiled: Compiled, nodes: Collection[int]) -> Compiled:
    """The same model without the prior densities of some parameters, which are constants to it.

    Args:
        compiled: A model without discrete parameters.
        nodes: Nodes of parameters whose transform is the identity.
    """
    group_terms: list[GroupTerm] = []
    for group in compiled.group_terms:
        block = compiled.blocks[group.block]
        first, length = group.columns or (0, block.stop - block.start)
        members = [p for p in block.parameters if first <= p.start - block.start < first + length]
        kept = [p for p in members if p.node not in nodes]
        if len(kept) == len(members):
            group_terms.append(group)
            continue
        for p in kept:
            inputs = {p.node: _constant_inputs(compiled.graph, p.node, compiled.constants)}
            operands = [Operand(x, -1, Bounds()) for x in flat_hyperparameters([p], inputs)]
            columns = (p.start - block.start, p.size)
            group_terms.append(GroupTerm(Term(p.distribution, operands), group.block, columns))
    parameter_terms = tuple((p, term) for p, term in compiled.parameter_terms if p.node not in nodes)
    slots = [slot for _, term in parameter_terms for slot in term.slots]
    slots += [p.node for p, _ in parameter_terms] + [d.jacobian_slot for d in compiled.dependents]
    return replace(
        compiled,
        group_terms=tuple(group_terms),
        parameter_terms=parameter_terms,
        prior_steps=needed_steps(compiled.free_steps, slots),
    )


def _recorded(distribution: Distribution, rounding: float) -> Distribution:
    """What a response that was rounded follows."""
    try:
        return rounded(distribution, rounding)
    except ValueError:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"{distribution.name} for a response recorded to the nearest {rounding:g}: the probability of an"
            " interval, which scores it, is not known",
        ) from None


def _check_response(distribution: Distribution) -> None:
    """Leave-one-out needs the density of a response without each of its rows."""
    if distribution.event_rank and distribution.subsets is None:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"a response that is one draw of {distribution.name}: its density without one row is unknown",
        )


def _check_bounds(plan: Plan, graph: ModelGraph, parameters: Sequence[Parameter]) -> None:
    """Where a continuous parameter lives must not depend on a discrete one: its coordinate would, too."""
    for parameter in parameters:
        if parameter.transform in BY_BOUND and parameter.node in plan.factors:
            site = plan.sites[0]
            law = str(graph.nodes[site.node].attributes["distribution"])
            cannot(site.name, law, f"moves the bounds of {parameter.name}")


class _Operands:
    """Distribution parameters of a graph's random nodes."""

    def __init__(
        self,
        graph: ModelGraph,
        constants: Sequence[Tensor | None],
        bounds: Sequence[Bounds],
        shapes: Sequence[Shape],
        rank: int,
        rounding: float | None,
    ) -> None:
        self.rounding = rounding
        self.graph = graph
        self.shapes = shapes
        self.rank = rank
        self.constants = constants
        self.bounds = bounds

    def term(self, node: int, value: Tensor | None = None) -> Term:
        """The density of a random node, in its most accurate form."""
        distribution, inputs = accurate_form(self.graph, node, self.constants)
        if value is not None and self.rounding is not None:
            distribution = _recorded(distribution, self.rounding)
        pairs = zip(inputs, distribution.ranks, strict=True)
        event = distribution.event_rank
        view = core_view(self.shapes[node], event, self.rank) if event else None
        return Term(distribution, [self.operand(index, core) for index, core in pairs], value, view)

    def operand(self, node: int, core: int = 0) -> Operand:
        """A parameter whose last `core` axes belong to one draw."""
        constant = self.constants[node]
        if constant is not None:
            return Operand(constant.to(torch.float64), node, self.bounds[node])
        view = core_view(self.shapes[node], core, self.rank) if core else None
        return Operand(None, node, self.bounds[node], view)


def _dependents(graph: ModelGraph, parameters: Sequence[Parameter]) -> tuple[Dependent, ...]:
    found = [p for p in parameters if p.transform in BY_STEP]
    first = len(graph.nodes)
    return tuple(Dependent(p, first + i, first + len(found) + i) for i, p in enumerate(found))


def _steps(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    constants: Sequence[Tensor | None],
    bounds: list[Bounds],
    rank: int,
    dependents: Sequence[Dependent],
) -> tuple[Step, ...]:
    """Every call in order; fills in what is known of each result."""
    selected = selected_nodes(graph)
    one_draw = distribution_of(graph.nodes[graph.response].attributes).event_rank
    pairs = find_pairs(graph, shapes, constants) if one_draw else None
    by_node = {dependent.parameter.node: dependent for dependent in dependents}
    steps: list[Step] = []
    for index, node in enumerate(graph.nodes):
        if constants[index] is not None:
            continue
        if node.op == "random":
            if index in by_node:
                steps += _interval_steps(by_node[index], node.inputs, constants)
            continue
        bounds[index] = result_bounds(node, bounds, constants)
        here, known = shapes, constants
        if pairs is not None and index in pairs.members:
            node, here, known = pairs.node(node), pairs.shapes, pairs.constants
        layout = Layout(tuple(here[i] for i in node.inputs), here[index], rank, node.attributes)
        first = node.inputs[0]
        function = compile_node(
            node,
            dtypes[index],
            [dtypes[i] for i in node.inputs],
            layout,
            [known[i] for i in node.inputs],
            positive=constants[first] is None and bounds[first].lower >= 0,
            selected=index in selected,
        )
        inputs = tuple(i for i in node.inputs if constants[i] is None)
        if pairs is not None and index in pairs.members:
            function = pairs.gathered(function, inputs)
        if pairs is not None and index in pairs.roots:
            function = pairs.spread(function, shapes[index], rank)
        steps.append(Step(index, function, inputs))
    return tuple(steps)


def _interval_steps(
    dependent: Dependent, inputs: Sequence[int], constants: Sequence[Tensor | None]
) -> list[Step]:
    coordinates = dependent.parameter.distribution.coordinates
    if coordinates is not None:
        inputs = [inputs[index] for index in coordinates.reads]
    known = [None, *(constants[i] for i in inputs)]
    slots = (dependent.slot, *(i for i in inputs if constants[i] is None))
    parameter = dependent.parameter
    value = bind(lambda u, *inputs: constrain(parameter, u, inputs)[0], known)
    jacobian = bind(lambda u, *inputs: constrain(parameter, u, inputs)[1], known)
    return [
        Step(dependent.parameter.node, value, slots),
        Step(dependent.jacobian_slot, jacobian, slots),
    ]


def _constant_inputs(graph: ModelGraph, node: int, constants: Sequence[Tensor | None]) -> list[Tensor]:
    return [constant for i in graph.nodes[node].inputs if (constant := constants[i]) is not None]


def _group_terms(
    found: Sequence[Block], graph: ModelGraph, constants: Sequence[Tensor | None]
) -> tuple[tuple[GroupTerm, ...], set[int]]:
    terms: list[GroupTerm] = []
    grouped: set[int] = set()
    for number, block in enumerate(found):
        for group in block.groups:
            inputs = {p.node: _constant_inputs(graph, p.node, constants) for p in group}
            operands = [Operand(x, -1, Bounds()) for x in flat_hyperparameters(group, inputs)]
            start, length = group[0].start - block.start, group[-1].stop - group[0].start
            whole = length == block.stop - block.start
            terms.append(
                GroupTerm(Term(group[0].distribution, operands), number, None if whole else (start, length))
            )
            grouped.update(p.node for p in group)
    return tuple(terms), grouped


def _intervals(found: Sequence[Block], graph: ModelGraph, constants: Sequence[Tensor | None]) -> Intervals:
    lower = upper = torch.zeros(0, dtype=torch.float64)
    for block in found:
        if block.transform is Transform.INTERVAL:
            inputs = {p.node: _constant_inputs(graph, p.node, constants) for p in block.parameters}
            lower, upper = _flat_edges(block.parameters, inputs)
    width = transforms.interval_width(lower, upper)
    return Intervals(lower, upper, width, torch.log(width))


def _flat_edges(parameters: Sequence[Parameter], inputs: Mapping[int, list[Tensor]]) -> tuple[Tensor, Tensor]:
    """Lower and upper ends of neighbouring parameters between constants, one entry per column."""
    ends: list[list[Tensor]] = [[], []]
    for parameter in parameters:
        edges = parameter.distribution.edges(*(x.to(torch.float64) for x in inputs[parameter.node]))
        for end, found in zip(edges, ends, strict=True):
            if end is None:
                raise RuntimeError(f"{parameter.name}: an interval without an end")
            found.append(end.expand(parameter.shape).reshape(-1))
    return torch.cat(ends[0]), torch.cat(ends[1])


def needed_steps(steps: Sequence[Step], slots: Collection[int]) -> tuple[Step, ...]:
    """The steps that some slots depend on, in order.

    Args:
        steps: Steps of an evaluation.
        slots: What is wanted.
    """
    wanted = set(slots)
    kept: list[Step] = []
    for step in reversed(steps):
        if step.slot in wanted:
            kept.append(step)
            wanted.update(step.inputs)
    return tuple(reversed(kept))


def widest(compiled: Compiled) -> int:
    """Numbers of the widest value of one particle: a covariance has rows by rows.

    Args:
        compiled: The model, compiled.
    """
    shapes = compiled.shapes
    steps = [math.prod(shapes[step.slot]) for step in compiled.joint_steps if step.slot < len(shapes)]
    return max([compiled.num_observations, *(p.size for p in compiled.parameters), *steps])

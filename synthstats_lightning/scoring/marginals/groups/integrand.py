"""A model's likelihood and its latent's prior at many values of the latent, other parameters given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import reduce
from typing import NamedTuple, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.layout import (
    BY_STEP,
    Parameter,
    Transform,
    constrain,
    constrain_alone,
    unconstrain,
)
from synthstats_lightning.scoring.density.structural import pad
from synthstats_lightning.scoring.density.terms import Term
from synthstats_lightning.scoring.marginals import ancestral
from synthstats_lightning.scoring.marginals.blocks import by_logs
from synthstats_lightning.scoring.marginals.compilation import Compiled
from synthstats_lightning.scoring.marginals.different_rows import DifferentRows
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping

STILL = -1
"""Where `Outer` has the part of each row's log-likelihood that the latent does not change
`[particles, rows]`."""


class Outer(NamedTuple):
    """What the latent's prior and the likelihood read of the other parameters.

    Attributes:
        particles: Number of particles.
        values: Node to its value in the whole model's padded layout, a particle an entry of the first axis.
        smaller: The same in models of the rows or groups that differ, where there are some.
        theta: The other parameters themselves, where searches start at what was found near them
            `[particles, dim]`.
    """

    particles: int
    values: Mapping[int, Tensor]
    smaller: tuple[Mapping[int, Tensor], ...] = ()
    theta: Tensor | None = None

    def select(self, index: Int[Tensor, " chosen"]) -> Outer:
        """Some of the particles."""
        return self._each(lambda value: value[index], len(index))

    def detached(self) -> Outer:
        """Without the gradients of what was evaluated."""
        return self._each(lambda value: value.detach(), self.particles)

    def _each(self, function: Callable[[Tensor], Tensor], particles: int) -> Outer:
        values, *smaller = (
            {node: function(value) for node, value in each.items()} for each in (self.values, *self.smaller)
        )
        theta = None if self.theta is None else function(self.theta)
        return Outer(particles, values, tuple(smaller), theta)


@runtime_checkable
class Smaller(Protocol):
    """A model of some of the rows or groups of a whole one, with its nodes."""

    @property
    def compiled(self) -> Compiled:
        """The model itself."""
        ...

    def value(self, node: int, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A node's value in it, from that in the whole model."""
        ...


class Terms(NamedTuple):
    """Log-densities at nodes of every element side by side.

    Attributes:
        prior: Of each element in its unconstrained coordinate `[particles, nodes, elements]`.
        rows: Of each row, given the element that it reads `[particles, nodes, rows]`.
    """

    prior: Float[Tensor, "particles nodes elements"]
    rows: Float[Tensor, "particles nodes rows"]


class _Combined(NamedTuple):
    """The part of a sum or product that does not depend on the latent.

    Attributes:
        step: The whole sum or product.
        held: Which of its inputs depend on the latent.
        identity: What these are replaced by.
    """

    step: Step
    held: tuple[bool, ...]
    identity: float


class Integrand:
    """Prior of a latent and likelihood of the response at many values of the latent.

    Every element is at a node of its own: rows read one element at most, so that one evaluation of the model
    serves all elements.

    Args:
        compiled: The whole model.
        grouping: The latent, with what depends on it.
        different: The rows that differ, which alone are evaluated where the form of rows is not asked for.
    """

    def __init__(
        self, compiled: Compiled, grouping: Grouping, different: DifferentRows | None = None
    ) -> None:
        self.compiled = compiled
        self.different = different
        self.smaller: list[tuple[Smaller, Integrand]] = []
        if different is not None:
            self.add(different, grouping)
        self.parameter: Parameter = grouping.parameter
        node = self.parameter.node
        with torch.inference_mode(False):
            self.prior_term = ancestral.prior_terms(compiled)[node]
        self.by_logs = node in by_logs(compiled)
        steps, wanted = [], set(compiled.response_term.slots)
        self.combined: list[_Combined] = []
        for step in reversed(compiled.steps):
            # bounds that depend on others make the latent a step of its own; here it is given
            if step.slot in wanted and step.slot in grouping.dependent and step.slot != node:
                step = self._with_combined(step, grouping.dependent)
                steps.append(step)
                wanted.update(step.inputs)
        self.steps = tuple(reversed(steps))
        self.splits = compiled.response_term.splits(grouping.dependent | {step.slot for step in steps})
        wanted.update(self.prior_term.slots)
        constants = compiled.constants
        self.reads = tuple(
            sorted(i for i in wanted - grouping.dependent if i < len(constants) and constants[i] is None)
        )

    def add(self, smaller: Smaller, grouping: Grouping) -> Integrand:
        """Has `outer` hold what a smaller model reads, too.

        Args:
            smaller: A model of some of the rows or groups.
            grouping: The latent in it.

        Returns:
            The integrand of the smaller model.
        """
        found = Integrand(smaller.compiled, grouping)
        self.smaller.append((smaller, found))
        return found

    def read_also(self, nodes: Collection[int]) -> None:
        """Has `outer` hold some more nodes.

        Args:
            nodes: Nodes that do not depend on the latent, and are no constants.
        """
        self.reads = tuple(sorted({*self.reads, *nodes}))

    def _with_combined(self, step: Step, dependent: frozenset[int]) -> Step:
        """A step of a sum or product whose parts without the latent are combined before they are repeated."""
        graph = self.compiled.graph
        identity = {"add": 0.0, "mul": 1.0}.get(graph.nodes[step.slot].op)
        known = [i for i in step.inputs if i not in dependent]
        several = len(graph.nodes[step.slot].inputs) > 2
        if identity is None or not known or not several or graph.dtypes[step.slot] != "float64":
            return step
        slot = self.compiled.num_slots + len(self.combined)
        self.combined.append(_Combined(step, tuple(i in dependent for i in step.inputs), identity))
        function = torch.add if identity == 0.0 else torch.mul
        rest = tuple(i for i in step.inputs if i in dependent)
        return Step(step.slot, lambda *inputs: reduce(function, inputs), (*rest, slot))

    @property
    def padded(self) -> tuple[int, ...]:
        """The latent's shape in the model's padded layout, without the particle axis."""
        return pad(self.parameter.shape, self.compiled.rank)

    def hyperparameters(self, outer: Outer) -> list[Tensor]:
        """Parameters of the latent's prior.

        Args:
            outer: What is read of the other parameters.
        """
        return self.allowed_hyperparameters(outer)[0]

    def allowed_hyperparameters(self, outer: Outer) -> tuple[list[Tensor], Tensor | None]:
        """Parameters of the latent's prior, and where they are the model's (`None`: everywhere).

        Args:
            outer: What is read of the other parameters.
        """
        return self.prior_term.allowed_parameters(self._values(outer, 1))

    def outer(self, values: list[Tensor | None], particles: int) -> Outer:
        """What is read of an evaluation of the other parameters.

        Args:
            values: Value of every node of the model without the latent, see `without_latent`.
            particles: Number of particles.
        """
        rank, shapes = self.compiled.rank, self.compiled.shapes
        found = {}
        for node in self.reads:
            value = cast(Tensor, values[node])
            found[node] = value.reshape(particles, *pad(shapes[node], rank))
        for number, (step, held, identity) in enumerate(self.combined):
            neutral = torch.full((1,) * (rank + 1), identity, dtype=torch.float64)
            inputs = [
                neutral if out else cast(Tensor, values[i]).reshape(particles, *pad(shapes[i], rank))
                for i, out in zip(step.inputs, held, strict=True)
            ]
            found[self.compiled.num_slots + number] = step.function(*inputs)
        if self.splits:
            still = self.compiled.response_term.still(self._values(Outer(particles, found), 1))
            found[STILL] = self.by_row(still, particles)
        return Outer(particles, found, tuple(self._of(*each, values, particles) for each in self.smaller))

    def _of(
        self, smaller: Smaller, integrand: Integrand, values: list[Tensor | None], particles: int
    ) -> Mapping[int, Tensor]:
        """What a smaller model reads of an evaluation of the other parameters."""
        shapes = self.compiled.shapes
        read = [
            smaller.value(node, value, shapes[node]) if value is not None and node < len(shapes) else value
            for node, value in enumerate(values)
        ]
        return integrand.outer(read, particles).values

    def __call__(self, outer: Outer, u: Float[Tensor, "particles nodes elements"]) -> Terms:
        """Log-densities at some nodes.

        Args:
            outer: What is read of the other parameters.
            u: Unconstrained values of the latent.
        """
        if self.different is not None:
            terms = self.smaller[0][1](Outer(outer.particles, outer.smaller[0]), u)
            return terms._replace(rows=self.different.spread(terms.rows))
        particles, nodes = u.shape[:2]
        term, values, prior = self.evaluated(outer, u)
        rows = self.by_row(term.log_prob(values, moving=self.splits), particles * nodes)
        rows = rows.reshape(particles, nodes, -1)
        return Terms(prior, plain(with_still(rows, outer)))

    def evaluated(
        self, outer: Outer, u: Float[Tensor, "particles nodes elements"]
    ) -> tuple[Term, list[Tensor | None], Float[Tensor, "particles nodes elements"]]:
        """The response's term, what it reads at some nodes, and the prior there.

        Args:
            outer: What is read of the other parameters.
            u: Unconstrained values of the latent.
        """
        values = self._values(outer, u.shape[1])
        prior = self.prior_at(values, self._flat(u))
        for slot, function, inputs in self.steps:
            values[slot] = function(*[values[i] for i in inputs])
        return self.compiled.response_term, values, plain(prior.reshape(*u.shape[:2], -1))

    def latent_alone(self, u: Float[Tensor, "particles nodes elements"]) -> list[Tensor | None]:
        """What the response's term reads at some nodes, where it reads nothing but the latent.

        Args:
            u: Unconstrained values of the latent.
        """
        values = self._values(Outer(len(u), {}), u.shape[1])
        values[self.parameter.node] = self._constrained(values, self._flat(u))[0]
        for slot, function, inputs in self.steps:
            values[slot] = function(*[values[i] for i in inputs])
        return values

    def log_prior(
        self, outer: Outer, u: Float[Tensor, "particles nodes elements"]
    ) -> Float[Tensor, "particles nodes elements"]:
        """Log prior density of each element in its unconstrained coordinate.

        Args:
            outer: What is read of the other parameters.
            u: Unconstrained values of the latent.
        """
        prior = self.prior_at(self._values(outer, u.shape[1]), self._flat(u))
        return plain(prior.reshape(*u.shape[:2], -1))

    def by_row(self, values: Tensor, particles: int) -> Tensor:
        """What is known of each row, in the model's padded layout, as `[particles, rows]`.

        Args:
            values: Particles first, or 1 where it is the same for all of them.
            particles: Number of particles.
        """
        shape = (particles, self.compiled.num_observations)
        if values.shape == shape:
            return values
        return values.expand(particles, *pad(shape[1:], self.compiled.rank)).reshape(shape)

    def _values(self, outer: Outer, nodes: int) -> list[Tensor | None]:
        values: list[Tensor | None] = [None] * (self.compiled.num_slots + len(self.combined))
        for node, value in outer.values.items():
            if node != STILL:
                values[node] = repeated(value, nodes)
        return values

    def prior_at(self, values: list[Tensor | None], u: Tensor) -> Tensor:
        """Log prior density of each entry of the latent in its unconstrained coordinate.

        Args:
            values: Value of every node so far; the latent's is put there.
            u: Unconstrained values, particles first, in the model's padded layout.
        """
        x, log_jacobian = self._constrained(values, u)
        values[self.parameter.node] = x
        found: Tensor = self.prior_term.log_prob(values, x, u if self.by_logs else None) + log_jacobian
        return found

    def prior_draws(
        self, outer: Outer, count: int, generator: torch.Generator
    ) -> Float[Tensor, "particles draws elements"]:
        """Draws of the latent from its prior, unconstrained.

        Args:
            outer: What is read of the other parameters.
            count: Draws for each particle.
            generator: Source of all randomness.
        """
        parameter = self.parameter
        read = {node: repeated(value, count) for node, value in outer.values.items()}
        hyperparameters = self.hyperparameters(Outer(outer.particles * count, read))
        shape = (outer.particles * count, *self.padded)
        draws = parameter.distribution.sample(generator, shape, *hyperparameters)
        largest = ancestral.LARGEST
        draws = draws.nan_to_num(nan=0.0, posinf=largest, neginf=-largest).clamp(-largest, largest)
        if parameter.transform is Transform.INTERVAL or parameter.transform in BY_STEP:
            u = unconstrain(parameter.transform, draws, *parameter.distribution.edges(*hyperparameters))
        else:
            u = unconstrain(parameter.transform, draws)
        return u.reshape(outer.particles, count, -1)

    def _flat(self, u: Tensor) -> Tensor:
        return u.reshape(u.shape[0] * u.shape[1], *self.padded)

    def _constrained(self, values: list[Tensor | None], u: Tensor) -> tuple[Tensor, Tensor]:
        parameter = self.parameter
        if parameter.transform is Transform.INTERVAL or parameter.transform in BY_STEP:
            return constrain(parameter, u, self.prior_term.parameters(values))
        x, log_jacobian = constrain_alone(parameter.transform, u)
        # mass goes on where a value overflows but its logarithm does not
        exact = self.by_logs and parameter.transform is Transform.POSITIVE
        return x, u if exact else log_jacobian


def without_latent(graph: ModelGraph, parameter: Parameter, value: float) -> ModelGraph:
    """A model graph in which a latent is a constant: what is left has the other parameters' prior.

    Args:
        graph: The model graph.
        parameter: The latent; no prior depends on it.
        value: What stands in for its entries.
    """
    filled = torch.full(parameter.shape, value, dtype=torch.float64).tolist()
    nodes = list(graph.nodes)
    nodes[parameter.node] = Node("constant", (), {"value": filled, "dtype": "float64"})
    return replace(graph, nodes=tuple(nodes))


def repeated(value: Tensor, times: int) -> Tensor:
    """Each particle's value so many times in a row.

    Args:
        value: Values, particles first.
        times: How many times.
    """
    if times == 1:
        return value
    return value[:, None].expand(-1, times, *value.shape[1:]).flatten(0, 1)


def with_still(
    rows: Float[Tensor, "particles nodes rows"], outer: Outer
) -> Float[Tensor, "particles nodes rows"]:
    """Log-likelihoods of rows with the part that no node changes, where that was left out.

    Args:
        rows: Log-likelihoods at some nodes.
        outer: What is read of the other parameters.
    """
    still = outer.values.get(STILL)
    return rows if still is None else rows + still[:, None]


def plain(values: Tensor) -> Tensor:
    """Log-densities without NaN; an infinite density has no mass at a point.

    Args:
        values: Log-densities of any shape.
    """
    return values.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)

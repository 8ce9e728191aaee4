"""The trusted, batched log-density of a model graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.layout import Parameter
from synthstats_lightning.scoring.density.many_rows import by_parts
from synthstats_lightning.scoring.density.standardise import Anchor
from synthstats_lightning.scoring.density.target import Marginals, leave_one_out_sums, log_likelihood_of
from synthstats_lightning.scoring.density.terms import Term
from synthstats_lightning.scoring.marginals import ancestral
from synthstats_lightning.scoring.marginals.blocks import by_logs, no_nan, response_rows
from synthstats_lightning.scoring.marginals.compilation import Compiled, compile_graph, widest
from synthstats_lightning.scoring.marginals.different_rows import DifferentRows, different_rows
from synthstats_lightning.scoring.marginals.funnels import (
    find_funnels,
    likelihood_anchors,
    prior_anchors,
    without_anchors,
)
from synthstats_lightning.scoring.marginals.labels.counts import far_enough, fewer_counted
from synthstats_lightning.scoring.marginals.normalisation import Mass, log_masses
from synthstats_lightning.scoring.marginals.start import Start, parts_of_draw, prior_parts, run, start

Values = list[Tensor | None]


def build_density(
    graph: ModelGraph,
    covariates: Mapping[str, NDArray[Any]],
    response: NDArray[Any],
    rounding: float | None = None,
) -> Density:
    """The density of a model graph with its data bound.

    Everything that does not depend on parameters is computed here, once.

    Args:
        graph: A validated model graph.
        covariates: Column name to values `[rows]`, float64 or int64; every column that the graph names.
        response: Observed values `[rows]`.
        rounding: Spacing of the values that a continuous response was recorded to: its rows then have the
            log-probability of their intervals instead of a density. `None` for exact values.

    Returns:
        The density of parameters and response.

    Raises:
        ValueError: If the response's length is not that of the graph's response.
        ProgramFailure: `UNSUPPORTED` for discrete parameters that cannot be summed out, and for a rounded
            response whose distribution function is not known; `RAISED` if a
            constant expression cannot be evaluated, such as an index outside its axis.
    """
    expected = tuple(graph.nodes[graph.response].attributes["shape"])
    if response.shape != expected:
        raise ValueError(
            f"response must have the shape {expected} of the graph's response, got {response.shape}"
        )

    def build(graph: ModelGraph, anchors: Mapping[int, Anchor], largest: int) -> Density:
        compiled = compile_graph(graph, covariates, response, anchors, rounding, most_counted=largest)
        again = partial(build, largest=largest)
        return Density(compiled, again, different_rows(compiled, response, anchors, rounding))

    return far_enough(partial(build, graph, {}))


class Density:
    """Log-density of a model's parameters and response, batched over particles and differentiable.

    Parameters are unconstrained, with PyMC's default transforms but for packed Cholesky factors (of their
    deviations and partial correlations); the prior includes the transforms' Jacobians and is
    normalised. The order of columns is that of `parameters`. Everything is float64 and deterministic: the
    same `theta` in a batch of the same size gives the same bits.

    Values are -inf where the response is impossible, a hyperparameter breaks its constraint (a standard
    deviation that is not positive, a probability outside 0 to 1) or the model's arithmetic gives NaN;
    gradients are finite wherever values are.

    Args:
        compiled: What `compile_graph` makes of a graph.
        build: Makes the density of a graph with some parameters standardised, on the same data.
        different: The rows that differ, where many do not.

    Attributes:
        dimension: Number of unconstrained parameters.
        num_observations: Rows of the response.
        parameters: Name, shape and columns of every parameter.
        different: The rows that differ, where many do not.
    """

    def __init__(
        self,
        compiled: Compiled,
        build: Callable[[ModelGraph, Mapping[int, Anchor]], Density] | None = None,
        different: DifferentRows | None = None,
    ) -> None:
        self._compiled = compiled
        self.different = different
        self._rows = compiled if different is None else different.compiled
        self._build = build
        self.parameters: tuple[Parameter, ...] = compiled.parameters
        self.dimension: int = sum(parameter.size for parameter in compiled.parameters)
        self.num_observations: int = compiled.num_observations
        self._by_logs = by_logs(compiled)
        self._splits = [block.stop - block.start for block in compiled.blocks]
        self._splits += [dependent.parameter.size for dependent in compiled.dependents]
        self._width = widest(self._rows)

    @property
    def compiled(self) -> Compiled:
        """The graph with its data, ready to be evaluated."""
        return self._compiled

    @property
    def distinct(self) -> Density:
        """The density of the rows that differ from each other, of the same parameters."""
        return self if self.different is None else Density(self.different.compiled)

    def of_graph(self, graph: ModelGraph) -> Density:
        """The density of another graph on the same data.

        Args:
            graph: A graph with the same response.

        Raises:
            ProgramFailure: See `build_density`.
        """
        if self._build is None:
            raise RuntimeError("a density that was not made by build_density cannot be made again")
        return self._build(graph, {})

    @property
    def fewer_counted(self) -> Density | None:
        """With discrete parameters that have no largest value summed to half as far; see `labels.counts`."""
        labels = fewer_counted(self._compiled.labels)
        return None if labels is None else Density(replace(self._compiled, labels=labels))

    @property
    def size_of_sums(self) -> int:
        """Joint states of discrete parameters times factors; 0 where there are none."""
        return 0 if self._compiled.labels is None else self._compiled.labels.size

    @cached_property
    def prior_terms(self) -> dict[int, Term]:
        """Of each continuous parameter's node, its distribution with constant hyperparameters bound."""
        with torch.inference_mode(False):
            return ancestral.prior_terms(self._compiled)

    def log_prior(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log prior density of unconstrained parameters, in nats.

        Args:
            theta: Unconstrained parameters of the model.

        Raises:
            ValueError: If `theta` does not have `dimension` columns.
        """
        theta = self._checked(theta)
        values, constrained, jacobian = self._start(theta)
        run(self._compiled.prior_steps, values)
        return self._prior(theta, values, constrained, jacobian)

    def log_likelihood(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles rows"]:
        """Log-likelihood of each row of the response, in nats.

        Discrete parameters are summed out. Where they couple rows, or the response is one draw of a
        multivariate distribution (`coupled`), only the sum over rows has a meaning; `marginals` then has the
        density of each row given the others.

        Args:
            theta: Unconstrained parameters of the model.

        Raises:
            ValueError: If `theta` does not have `dimension` columns.
        """
        theta = self._checked(theta)
        values, _, _ = self._start(theta)
        run(self._rows.likelihood_steps, values)
        return self._likelihood(theta, values)

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Both at once, with shared work done once.

        Args:
            theta: Unconstrained parameters of the model.

        Raises:
            ValueError: If `theta` does not have `dimension` columns.
        """
        theta = self._checked(theta)
        return by_parts(self._log_prior_and_likelihood, theta, self._width)

    def _log_prior_and_likelihood(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        values, constrained, jacobian = self._start(theta)
        run(self._rows.joint_steps, values)
        labels = self._compiled.labels
        if labels is None:
            return self._prior(theta, values, constrained, jacobian), self._likelihood(theta, values)
        found = labels.evaluate(values, theta.shape[0])
        prior = self._prior(theta, values, constrained, jacobian, found.log_prior)
        return prior, no_nan(found.log_likelihood)

    def log_prior_and_values(
        self, theta: Float[Tensor, "particles dim"], steps: Sequence[Step]
    ) -> tuple[Float[Tensor, " particles"], Values]:
        """Log prior density in nats, and the values of nodes in the padded layout.

        Args:
            theta: Unconstrained parameters of the model.
            steps: What to evaluate: at least the prior's steps.

        Raises:
            ValueError: If `theta` does not have `dimension` columns.
        """
        theta = self._checked(theta)
        values, constrained, jacobian = self._start(theta)
        run(steps, values)
        return self._prior(theta, values, constrained, jacobian), values

    @property
    def coupled(self) -> bool:
        """Whether rows of the response depend on each other given the parameters.

        They do where the response is one draw of a multivariate distribution, or where a discrete parameter
        that several rows share has been summed out.
        """
        if self._compiled.response_term.distribution.event_rank:
            return True
        labels = self._compiled.labels
        return labels is not None and not labels.plan.independent_rows

    @property
    def one_draw(self) -> bool:
        """Whether the whole response is one draw of a multivariate distribution."""
        return self._compiled.response_term.distribution.event_rank > 0

    def marginals(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log-likelihood of some rows together, and of these with one row less or more.

        Discrete parameters stay part of the posterior: their states are weighted by what the given rows say.

        Args:
            theta: Unconstrained parameters of the model.
            given: Which rows count; all if `None`.

        Raises:
            ValueError: If `theta` does not have `dimension` columns.
        """
        theta = self._checked(theta)
        if given is None:
            given = torch.ones(self.num_observations, dtype=torch.bool)
        labels = self._compiled.labels
        if self._compiled.response_term.distribution.event_rank:
            return parts_of_draw(self._compiled, self._start, theta, given, self._width)
        if labels is None:
            rows = self.log_likelihood(theta)
            kept = torch.where(given, rows, 0.0)
            added = kept.sum(-1, keepdim=True) + rows
            return Marginals(kept.sum(-1), torch.where(given, leave_one_out_sums(kept), added))
        values, _, _ = self._start(theta)
        run(self._compiled.likelihood_steps, values)
        found = labels.marginals(values, theta.shape[0], given)
        return Marginals(no_nan(found.given), no_nan(found.changed))

    def log_likelihood_given(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, " particles"]:
        """Log-likelihood of some rows together, as in `marginals`.

        Args:
            theta: Unconstrained parameters of the model.
            given: Which rows count.

        Raises:
            ValueError: If `theta` does not have `dimension` columns.
        """
        if self._compiled.response_term.distribution.event_rank:
            theta = self._checked(theta)
            return parts_of_draw(self._compiled, self._start, theta, given, self._width, alone=True).given
        return self.marginals(theta, given).given

    def constrain(self, theta: Float[Tensor, "particles dim"]) -> dict[str, Tensor]:
        """Parameters by name on their own scale, each `[particles, *shape]`.

        Args:
            theta: Unconstrained parameters of the model.
        """
        values = self.node_values(theta)
        return {p.name: self._natural(values, p.node, theta.shape[0]) for p in self.parameters}

    def deterministics(self, theta: Float[Tensor, "particles dim"]) -> dict[str, Tensor]:
        """The graph's derived quantities by name, each `[particles, *shape]`.

        Those that depend on a discrete parameter are left out: it has been summed out.

        Args:
            theta: Unconstrained parameters of the model.
        """
        values = self.node_values(theta)
        labels = self._compiled.labels
        hidden = frozenset() if labels is None else labels.plan.dependent
        named = [pair for pair in self._compiled.graph.deterministics.items() if pair[1] not in hidden]
        return {name: self._natural(values, node, theta.shape[0]) for name, node in named}

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "n dim"]:
        """Independent draws from the prior, unconstrained.

        Where hyperparameters break a constraint a draw is finite but its `log_prior` is -inf.

        Args:
            n: Number of draws.
            generator: Source of all randomness.
        """
        with torch.no_grad():
            return ancestral.sample_prior(self._compiled, self.prior_terms, n, generator)

    def sample_response(
        self,
        theta: Float[Tensor, "particles dim"],
        generator: torch.Generator,
        given_response: bool | Bool[Tensor, " rows"] = True,
    ) -> Float[Tensor, "particles rows"]:
        """One replicated response for each particle; NaN where its distribution's parameters are not allowed.

        A discrete parameter that belongs to one row only is drawn anew for the replicate, as in a mixture.

        Args:
            theta: Unconstrained parameters of the model.
            generator: Source of all randomness.
            given_response: Whether discrete parameters that rows share are drawn given the response, which is
                right for posterior particles, or from their prior given `theta`; or which rows of the
                response they are given.
        """
        with torch.no_grad():
            values = self._complete_values(theta, given_response if self.coupled else False, generator)
            return ancestral.sample_response(self._compiled, values, theta.shape[0], generator)

    def log_masses(self, theta: Float[Tensor, "1 dim"], generator: torch.Generator) -> list[Mass]:
        """How much mass the density of each random node claims, given the others; see `normalisation`.

        Args:
            theta: Unconstrained parameters of one particle.
            generator: Source of all randomness.
        """
        with torch.no_grad():
            return list(
                log_masses(self._compiled, self._complete_values(theta, self.coupled, generator), generator)
            )

    def _complete_values(
        self, theta: Tensor, given: bool | Bool[Tensor, " rows"], generator: torch.Generator
    ) -> Values:
        """Values of all nodes, discrete parameters drawn."""
        values = self.node_values(theta)
        labels = self._compiled.labels
        if labels is not None:
            for node, states in labels.draw(values, theta.shape[0], given, generator).items():
                values[node] = states
            run(labels.steps, values)
        return values

    def response_log_prob(
        self, theta: Float[Tensor, "particles dim"], response: Float[Tensor, "particles rows"]
    ) -> Float[Tensor, "particles rows"]:
        """Log density of responses that were drawn from the model, another one for each particle, in nats.

        Args:
            theta: Unconstrained parameters of the model.
            response: As `sample_response` draws it, not necessarily at the same parameters.

        Raises:
            ProgramFailure: `UNSUPPORTED` where a discrete parameter would have to be summed out, or the
                response is one draw of a multivariate distribution.
        """
        return ancestral.response_log_prob(self._compiled, self.node_values(theta), response)

    @property
    def funnels(self) -> tuple[Parameter, ...]:
        """Parameters that can be standardised and whose prior's width depends on other parameters."""
        return find_funnels(self._compiled, self.parameters)

    def standardised(
        self, theta: Float[Tensor, " dim"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> Density:
        """The same density in coordinates without funnels; see `scoring.standardise`.

        Args:
            theta: Unconstrained parameters of this density near which the likelihood's curvature counts;
                `None` to standardise by the prior alone (the non-centred form).
            given: Which rows of the response count; all by default.

        Returns:
            A density of the same parameters, with other columns; this one if it has no funnels.
        """
        funnels = self.funnels
        if not funnels or self._build is None:
            return self
        if theta is None:
            return self._build(self._compiled.graph, prior_anchors(funnels))
        centred = self._build(self._compiled.graph, {})
        if given is None:
            given = torch.ones(self.num_observations, dtype=torch.bool)
        here = self.transferred(theta[None], centred)[0]
        columns = {parameter.node: slice(parameter.start, parameter.stop) for parameter in centred.parameters}
        anchors = likelihood_anchors(lambda x: log_likelihood_of(centred, x, given), here, funnels, columns)
        return self._build(self._compiled.graph, anchors)

    def anchored(self, anchors: Mapping[int, Anchor]) -> Density:
        """The same density with some parameters standardised, and no others.

        Args:
            anchors: Node of each such parameter to what the likelihood says of it.

        Raises:
            ValueError: If the density does not know what it was built from.
        """
        if self._build is None:
            raise ValueError("a density that was not built from a graph has no other coordinates")
        return self._build(self._compiled.graph, anchors)

    def transferred(
        self, theta: Float[Tensor, "particles dim"], centred: Density
    ) -> Float[Tensor, "particles other"]:
        """The same parameters as columns of a density without anchors; 0 for those that this one lacks.

        Args:
            theta: Unconstrained parameters of this density.
            centred: The other density, of a graph with the same indices of nodes.
        """
        values = self.node_values(theta)
        natural = partial(self._natural, values, particles=len(theta))
        return without_anchors(theta, self.parameters, lambda p: natural(p.node), centred.parameters)

    def _checked(self, theta: Tensor) -> Tensor:
        if theta.ndim != 2 or theta.shape[1] != self.dimension:
            raise ValueError(f"theta must have shape [particles, {self.dimension}], got {list(theta.shape)}")
        return theta if theta.dtype is torch.float64 else theta.to(torch.float64)

    def _start(self, theta: Tensor) -> Start:
        return start(self._compiled, theta, self._splits, self._by_logs)

    def _natural(self, values: Values, node: int, particles: int) -> Tensor:
        shape = self._compiled.shapes[node]
        if (value := values[node]) is None:
            return cast(Tensor, self._compiled.constants[node]).expand(particles, *shape)
        return value.reshape(particles, *shape)

    def node_values(self, theta: Float[Tensor, "particles dim"]) -> list[Tensor | None]:
        """Value of every node that depends on parameters and on no discrete one, in the padded layout.

        Args:
            theta: Unconstrained parameters of the model.
        """
        values, _, _ = self._start(self._checked(theta))
        run(self._compiled.free_steps, values)
        return values

    def _prior(
        self,
        theta: Tensor,
        values: Values,
        constrained: Sequence[Tensor],
        jacobian: Sequence[Tensor],
        summed: Tensor | None = None,
    ) -> Tensor:
        """The prior; `summed` is the part that discrete parameters enter, if it is known already."""
        parts = list(jacobian)
        labels = self._compiled.labels
        if labels is not None and labels.has_prior:
            parts.append(labels.log_prior(values, theta.shape[0]) if summed is None else summed)
        parts += prior_parts(self._compiled, theta, values, constrained, self._by_logs)
        if not parts:
            return theta.new_zeros(theta.shape[0])
        return no_nan(reduce(torch.add, parts))

    def _likelihood(self, theta: Tensor, values: Values) -> Tensor:
        labels = self._compiled.labels
        if labels is not None:
            return no_nan(labels.evaluate(values, theta.shape[0]).log_likelihood)
        shape = (theta.shape[0], self._rows.num_observations)
        rows = response_rows(self._rows.response_term, values, shape, self._rows.rank)
        return rows if self.different is None else self.different.spread(rows)

"""What a distribution is to the scorer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.distributions.constraints import Constraint
from synthstats_lightning.scoring.distributions.coordinates import Coordinates
from synthstats_lightning.scoring.distributions.gaussian import Subsets

Statistics = tuple[Tensor, ...]
Edges = tuple[Tensor | None, Tensor | None]


class Support(StrEnum):
    """Where a distribution lives, which decides the transform of a parameter that follows it."""

    REAL = "real"
    POSITIVE = "positive"
    UNIT = "unit"
    INTERVAL = "interval"
    """Between two of its parameters, at the positions `Distribution.bounds`."""
    ABOVE = "above"
    """Above the parameter at position `Distribution.bounds[0]`."""
    BELOW = "below"
    """Below the parameter at position `Distribution.bounds[1]`."""
    CIRCLE = "circle"
    """From -pi to pi."""
    DISCRETE = "discrete"


def _identity_statistics(value: Tensor, interior: bool) -> Statistics:
    return (value,)


def _no_base(value: Tensor) -> Tensor | None:
    return None


@dataclass(frozen=True, slots=True)
class Distribution:
    """A normalised univariate distribution, with its log-density split by what can be computed once.

    The log-density of `value` given parameters is `log_kernel(offset, statistics, *parameters)` with
    `offset = log_base(value) - log_normaliser(*parameters)`. Statistics and base depend only on the value
    (constant for a response), the normaliser only on parameters (constant for most priors), so that a
    repeated evaluation pays only for the kernel.

    The functions may assume parameters that satisfy `constraints` and values inside the support: `log_prob`
    and `scoring.terms` keep everything else away and give it -inf.

    Attributes:
        name: As in `programs.distributions`.
        constraints: What each parameter must satisfy, in the order of `programs.distributions`.
        support: Where it lives.
        inside: `(value, *parameters)` to whether values are in the support.
        log_normaliser: `(*parameters)` to the part of minus the log-density that depends on parameters
            alone, `None` for 0.
        log_kernel: `(offset, statistics, *parameters)` to `offset` plus the part of the log-density that
            depends on value and parameters together.
        sample: `(generator, shape, *parameters)` to independent float64 draws of that shape, to which the
            parameters broadcast.
        statistics: `(value, interior)` to functions of the value that the kernel needs; `interior` promises
            that no value lies on the edge of the support.
        log_base: `(value)` to the part of the log-density that depends on the value alone, `None` for 0.
        support_parameters: Indices of the parameters that `inside` reads.
        anchor: A value inside the support whatever the parameters; it stands in for values outside.
        links: Parameter index to `(operation, distribution)`: where the parameter is the result of that
            operation, the distribution with the operation's input in its place is faster and more accurate.
        bounds: Positions of the parameters that bound an `INTERVAL`, `ABOVE` or `BELOW` support.
        find_edges: `(*parameters)` to the lower and upper end of such a support where they are not just
            those parameters.
        log_cdf: `(value, *parameters)` to the log of the probability of at most `value` for values inside the
            support (whole numbers if discrete); `None` if unknown. See `scoring.distributions.cumulative`.
        log_survival: Likewise for the probability of more than `value`.
        event_rank: Last axes of a value that belong to one draw.
        parameter_ranks: Last axes of each parameter that belong to one draw; empty if none do. A parameter
            that depends on random nodes arrives as `[particles, *batch, *core]`, with as many batch axes as
            the model's rank; a constant one in its own shape.
        coordinates: How a vector becomes unconstrained; `None` if its entries are, or if it is no vector.
        subsets: `(value, given, *parameters)` to the log-densities of some entries of one vector `[n]`;
            `None` if unknown, and then a response cannot follow the distribution.
        part: Likewise to the log-density of the given entries alone, where that takes far less time.
    """

    name: str
    constraints: tuple[Constraint, ...]
    support: Support
    inside: Callable[..., Tensor]
    log_normaliser: Callable[..., Tensor | None]
    log_kernel: Callable[..., Tensor]
    sample: Callable[..., Tensor]
    statistics: Callable[[Tensor, bool], Statistics] = _identity_statistics
    log_base: Callable[[Tensor], Tensor | None] = _no_base
    support_parameters: tuple[int, ...] = ()
    anchor: float = 1.0
    links: Mapping[int, tuple[str, Distribution]] = field(default_factory=dict)
    bounds: tuple[int | None, int | None] = (0, 1)
    find_edges: Callable[..., Edges] | None = None
    log_cdf: Callable[..., Tensor] | None = None
    log_survival: Callable[..., Tensor] | None = None
    event_rank: int = 0
    parameter_ranks: tuple[int, ...] = ()
    coordinates: Coordinates | None = None
    subsets: Callable[..., Subsets] | None = None
    part: Callable[..., Tensor] | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """`parameter_ranks`, one for every parameter."""
        return self.parameter_ranks or (0,) * len(self.constraints)

    def edges(self, *parameters: Tensor) -> Edges:
        """Lower and upper end of an `INTERVAL`, `ABOVE`, `BELOW` or `CIRCLE` support; `None`: no end."""
        if self.find_edges is not None:
            return self.find_edges(*parameters)
        lower, upper = self.bounds
        return (
            None if lower is None else parameters[lower],
            None if upper is None else parameters[upper],
        )

    @property
    def discrete(self) -> bool:
        """Whether its density is with respect to counting instead of Lebesgue measure."""
        return self.support is Support.DISCRETE

    def log_prob(
        self, value: Float[Tensor, "*value"], *parameters: Float[Tensor, ...]
    ) -> Float[Tensor, "*shape"]:
        """Log-density in nats, equal to PyMC's `logp`.

        Values outside the support and parameters that break a constraint get -inf, with finite gradients.

        Args:
            value: Where to evaluate; broadcasts with the parameters.
            parameters: In the order of `constraints`.
        """
        allowed = torch.ones((), dtype=torch.bool)
        safe = list(parameters)
        for index, constraint in enumerate(self.constraints):
            if constraint.allows is not None:
                holds = constraint.allows(parameters[index])
                allowed = allowed & over_core(holds, self.ranks[index])
                safe[index] = torch.where(holds, parameters[index], constraint.fill)
        inside = self.inside(value, *parameters)
        value = torch.where(over_event(inside, self.event_rank), value, self.anchor)
        offset = self.offset(value, *safe)
        result = self.log_kernel(offset, self.statistics(value, False), *safe)
        return torch.where(allowed & inside, result, -math.inf)

    def offset(self, value: Float[Tensor, "*value"], *parameters: Float[Tensor, ...]) -> Tensor:
        """`log_base(value) - log_normaliser(*parameters)`."""
        normaliser = self.log_normaliser(*parameters)
        base = self.log_base(value)
        if normaliser is None:
            return torch.zeros((), dtype=torch.float64) if base is None else base
        return -normaliser if base is None else base - normaliser


def no_normaliser(*parameters: Tensor) -> None:
    """For distributions whose kernel holds everything."""
    return None


def over_core(holds: Tensor, rank: int) -> Tensor:
    """Whether a condition holds on all of the last `rank` axes, which belong to one draw."""
    return holds.flatten(-rank).all(-1) if rank else holds


def over_event(holds: Tensor, rank: int) -> Tensor:
    """A condition on draws as one on their entries, the last `rank` axes."""
    return holds[(..., *(None,) * rank)]


def real_vector(value: Tensor, *parameters: Tensor) -> Tensor:
    """Whether all entries of vectors are finite."""
    return torch.isfinite(value).all(-1)


def real_line(value: Tensor, *parameters: Tensor) -> Tensor:
    """Whether values are finite."""
    return torch.isfinite(value)


def half_line(value: Tensor, *parameters: Tensor) -> Tensor:
    """Whether values are finite and not negative."""
    return (value >= 0) & torch.isfinite(value)


def open_half_line(value: Tensor, *parameters: Tensor) -> Tensor:
    """Whether values are finite and positive."""
    return (value > 0) & torch.isfinite(value)


def open_unit(value: Tensor, *parameters: Tensor) -> Tensor:
    """Whether values lie strictly between 0 and 1."""
    return (value > 0) & (value < 1)


def counts(value: Tensor, *parameters: Tensor) -> Tensor:
    """Whether values are 0, 1, 2, ...: a discrete density has no mass elsewhere."""
    return half_line(value) & (torch.floor(value) == value)


def log_factorial_base(value: Tensor) -> Tensor:
    """`-log(value!)`."""
    return -torch.lgamma(value + 1.0)

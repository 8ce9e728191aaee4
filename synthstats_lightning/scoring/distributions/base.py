"""What a distribution is to the scorer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS as ENTRIES
from synthstats_lightning.scoring.distributions.constraints import Constraint, make_constraint
from synthstats_lightning.scoring.distributions.coordinates import Coordinates
from synthstats_lightning.scoring.distributions.gaussian import Subsets

Statistics = tuple[Tensor, ...]
Edges = tuple[Tensor | None, Tensor | None]


def _identity_statistics(value: Tensor, interior: bool) -> Statistics:
    return (value,)


def _no_normaliser(*parameters: Tensor) -> None:
    return None


def _no_base(value: Tensor) -> Tensor | None:
    return None


class Split(NamedTuple):
    """A kernel as a sum of a part that one parameter does not move, and the rest.

    Both take what the kernel takes; the first is not given the offset, nor the parameter that moves.

    Attributes:
        moving: Index of the parameter.
        still: `(statistics, *other parameters)` to the part that stands still.
        rest: `(offset, statistics, *parameters)` to `offset` plus the rest.
    """

    moving: int
    still: Callable[..., Tensor]
    rest: Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class Distribution:
    """A normalised distribution, with its log-density split by what can be computed once.

    The log-density of `value` given parameters is `log_kernel(offset, statistics, *parameters)` with
    `offset = log_base(value) - log_normaliser(*parameters)`. Statistics and base depend only on the value
    (constant for a response), the normaliser only on parameters (constant for most priors), so that a
    repeated evaluation pays only for the kernel.

    The functions may assume parameters that satisfy `constraints` and values inside the support: `log_prob`
    and `scoring.density.terms` keep everything else away and give it -inf.

    Attributes:
        entry: What `programs` says of it: name, parameters and their domains, support, axes of a draw. A
            parameter that depends on random nodes arrives as `[particles, *batch, *core]`, with as many batch
            axes as the model's rank and core axes as the entry says; a constant one arrives in its own shape.
        inside: `(value, *parameters)` to whether values are in the support.
        log_kernel: `(offset, statistics, *parameters)` to `offset` plus the part of the log-density that
            depends on value and parameters together.
        sample: `(generator, shape, *parameters)` to independent float64 draws of that shape, to which the
            parameters broadcast.
        log_normaliser: `(*parameters)` to the part of minus the log-density that depends on parameters
            alone, `None` for 0.
        statistics: `(value, interior)` to functions of the value that the kernel needs; `interior` promises
            that no value lies on the edge of the support.
        log_base: `(value)` to the part of the log-density that depends on the value alone, `None` for 0.
        support_parameters: Indices of the parameters that `inside` reads.
        anchor: A value inside the support whatever the parameters; it stands in for values outside.
        links: Parameter index to `(operation, distribution)`: where the parameter is the result of that
            operation, the distribution with the operation's input in its place is faster and more accurate.
        find_edges: `(*parameters)` to the lower and upper end of a bounded support where they are not just
            the parameters that the entry's `bounds` names.
        log_cdf: `(value, *parameters)` to the log of the probability of at most `value` for values inside the
            support (whole numbers if discrete); `None` if unknown. See `scoring.distributions.cumulative`.
        log_survival: `(value, *parameters)` to the log of the probability of more than `value`.
        iterative_cdf: Whether these two are series or continued fractions, so that the density at a few
            points is cheaper where it gives the probability of an interval.
        interval: `(lower, upper, *parameters)` to the log-probability of an interval, and where that is
            known: elsewhere it is the difference of two tails.
        from_logs: `(value, *logs)` to statistics and base of a value whose logarithm is known although it may
            underflow: that of a positive value, or those of a value between 0 and 1 and of its complement.
            For distributions that may have mass beyond double precision.
        sample_coordinate: `(generator, shape, *parameters)` to draws of the log of a positive value, or of
            the logit of one between 0 and 1, where those of `sample` may underflow.
        coordinates: How a vector becomes unconstrained; `None` if its entries are, or if it is no vector.
        subsets: `(value, given, *parameters)` to the log-densities of some entries of one vector `[n]`;
            `None` if unknown, and then a response cannot follow the distribution.
        subsets_width: `(entries, left out)` to the numbers that it holds of each draw of the parameters;
            those of a matrix of the vector's entries where it is `None`.
        part: `(value, given, *parameters)` to the log-density of the given entries alone, where that takes
            far less time.
        split: The kernel in two, where many values of one parameter are wanted at the same others and the
            others' part takes most of the time.
        constraints: The conditions on each parameter, from the entry.
    """

    entry: Entry
    inside: Callable[..., Tensor]
    log_kernel: Callable[..., Tensor]
    sample: Callable[..., Tensor]
    log_normaliser: Callable[..., Tensor | None] = _no_normaliser
    statistics: Callable[[Tensor, bool], Statistics] = _identity_statistics
    log_base: Callable[[Tensor], Tensor | None] = _no_base
    support_parameters: tuple[int, ...] = ()
    anchor: float = 1.0
    links: Links = field(default_factory=dict)
    find_edges: Callable[..., Edges] | None = None
    log_cdf: Callable[..., Tensor] | None = None
    log_survival: Callable[..., Tensor] | None = None
    iterative_cdf: bool = False
    interval: Callable[..., tuple[Tensor, Tensor]] | None = None
    from_logs: Callable[..., tuple[Statistics, Tensor | None]] | None = None
    sample_coordinate: Callable[..., Tensor] | None = None
    coordinates: Coordinates | None = None
    subsets: Callable[..., Subsets] | None = None
    subsets_width: Callable[[int, int], int] | None = None
    part: Callable[..., Tensor] | None = None
    split: Split | None = None
    constraints: tuple[Constraint, ...] = field(init=False)

    def __post_init__(self) -> None:
        pairs = zip(self.entry.domains, self.entry.tested, strict=True)
        conditions = tuple(make_constraint(domain, tested) for domain, tested in pairs)
        object.__setattr__(self, "constraints", conditions)

    @property
    def name(self) -> str:
        """The name of the entry."""
        return self.entry.name

    @property
    def support(self) -> Support:
        """Where draws lie, which decides the transform of a parameter that follows the distribution."""
        return self.entry.support

    @property
    def event_rank(self) -> int:
        """How many of the last axes of a value belong to one draw."""
        return self.entry.event_rank

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many of the last axes of each parameter belong to one draw."""
        return self.entry.ranks

    @property
    def discrete(self) -> bool:
        """Whether the density is with respect to counting instead of Lebesgue measure."""
        return self.entry.discrete

    def edges(self, *parameters: Tensor) -> Edges:
        """Lower and upper end of an `INTERVAL`, `ABOVE`, `BELOW` or `CIRCLE` support; `None` for no end."""
        if self.find_edges is not None:
            return self.find_edges(*parameters)
        places = self.entry.parameters
        lower, upper = (
            None if name is None else parameters[places.index(name)] for name in self.entry.bounds
        )
        return lower, upper

    def log_prob(
        self, value: Float[Tensor, "*value"], *parameters: Float[Tensor, ...]
    ) -> Float[Tensor, "*shape"]:
        """Log-density in nats, equal to PyMC's `logp`.

        Values outside the support and parameters that break a constraint get -inf, with finite gradients.

        Args:
            value: The points at which to evaluate; broadcasts with the parameters.
            parameters: The parameters in the order of `constraints`.
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


Links = Mapping[int, tuple[str, Distribution]]

REGISTERED: dict[str, Distribution] = {}
"""The distributions of the table that have been defined so far, by name."""


def register(distribution: Distribution) -> Distribution:
    """Make a distribution the torch side of its entry in the table.

    Raises:
        TypeError: If there is one already, or the entry is wrong about its distribution function.
    """
    name, known = (
        distribution.name,
        distribution.log_cdf is not None and distribution.log_survival is not None,
    )
    if name in REGISTERED:
        raise TypeError(f"distribution {name} is defined twice")
    if known != distribution.entry.has_cdf:
        raise TypeError(f"distribution {name}: has_cdf is {not known} in its entry, log_cdf says {known}")
    REGISTERED[name] = distribution
    return distribution


class Definition:
    """What one distribution is, as a class: a subclass named after an entry of the table registers itself.

    Its public attributes are those of `Distribution`, functions as static methods. Other spellings of a
    distribution, which no program can name, come with an entry of their own and are not registered:
    `class PoissonLog(Definition, entry=...)`.
    """

    distribution: ClassVar[Distribution]

    def __init_subclass__(cls, entry: Entry | None = None) -> None:
        given: dict[str, Any] = {name: getattr(cls, name) for name in vars(cls) if not name.startswith("_")}
        unknown = set(given) - {known.name for known in fields(Distribution) if known.init}
        if unknown:
            raise TypeError(f"{cls.__name__} defines {sorted(unknown)}, which a distribution does not have")
        if entry is None and cls.__name__ not in ENTRIES:
            raise TypeError(f"{cls.__name__} has no entry in programs.distributions")
        cls.distribution = Distribution(entry or ENTRIES[cls.__name__], **given)
        if entry is None:
            register(cls.distribution)


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

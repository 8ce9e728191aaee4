"""One log-density of a model: the response given its parameters, or parameters given theirs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import RANGES, Support
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.expressions import Bounds
from synthstats_lightning.scoring.distributions import Distribution
from synthstats_lightning.scoring.distributions.base import over_core, over_event
from synthstats_lightning.scoring.distributions.constraints import CONSTRAINTS
from synthstats_lightning.scoring.distributions.gaussian import Subsets
from synthstats_lightning.scoring.numerics import transforms

MOST_SPLIT = 1e6
"""Counts up to which the two parts of a split, each as large as the count, give nine digits together."""


class Operand(NamedTuple):
    """A parameter of a distribution.

    Attributes:
        constant: Its value if it depends on no random node.
        slot: Where its value is found otherwise.
        bounds: What is known of its values.
        view: Axes after the particle axis that it is given where some of them belong to one draw of the
            distribution; `None` to take it as it is.
    """

    constant: Tensor | None
    slot: int
    bounds: Bounds
    view: tuple[int, ...] | None = None


class Term:
    """The log-density of one distribution with everything constant computed once.

    Parameters that break a constraint are replaced by allowed ones and the result is -inf, so that no NaN
    reaches a gradient.

    Args:
        distribution: The distribution that the term is of.
        operands: Parameters of the distribution.
        value: The value if it is constant; a value that depends on parameters is inside the support, because
            its transform puts it there.
        view: Axes after the particle axis that a value which depends on parameters is given, where some of
            them belong to one draw; `None` to take it as it is.

    Raises:
        ProgramFailure: `SCORER_LIMIT` for a constant parameter outside of the range that tests cover.
    """

    def __init__(
        self,
        distribution: Distribution,
        operands: Sequence[Operand],
        value: Tensor | None = None,
        view: tuple[int, ...] | None = None,
    ) -> None:
        self.distribution = distribution
        self.view = view
        self.value = value
        self.slots = [operand.slot for operand in operands]
        self.views = {i: operand.view for i, operand in enumerate(operands) if operand.view is not None}
        self.ranks = distribution.ranks
        self.raw_constants = [operand.constant for operand in operands]
        self.constants = list(self.raw_constants)
        self.checks: list[int] = []
        forbidden = torch.zeros((), dtype=torch.bool)
        for index, (constraint, operand) in enumerate(zip(distribution.constraints, operands, strict=True)):
            if operand.constant is not None:
                _check_tested(distribution, index, operand.constant)
            if constraint.allows is None:
                continue
            if operand.constant is None:
                if not constraint.implied_by(*operand.bounds):
                    self.checks.append(index)
                continue
            holds = constraint.allows(operand.constant)
            forbidden = forbidden | ~over_core(holds, self.ranks[index])
            self.constants[index] = torch.where(holds, operand.constant, constraint.fill)
        self.checks_support = False
        if value is not None:
            if any(self.constants[i] is None for i in distribution.support_parameters):
                self.checks_support = True
            else:
                inside = distribution.inside(value, *self._support_constants())
                forbidden = forbidden | ~inside
                value = torch.where(over_event(inside, distribution.event_rank), value, distribution.anchor)
            self.statistics = distribution.statistics(value, False)
            self.base = distribution.log_base(value)
        else:
            self.statistics = ()
            self.base = None
        self.forbidden = forbidden if bool(forbidden.any()) else None
        self.offset = self._constant_offset(value)

    def _support_constants(self) -> list[Tensor]:
        zero = torch.zeros((), dtype=torch.float64)
        return [zero if constant is None else constant for constant in self.raw_constants]

    def _constant_offset(self, value: Tensor | None) -> Tensor | None:
        parameters = [constant for constant in self.constants if constant is not None]
        if len(parameters) < len(self.constants):
            return None
        normaliser = self.distribution.log_normaliser(*parameters)
        offset = torch.zeros((), dtype=torch.float64) if normaliser is None else -normaliser
        if self.base is not None:
            offset = offset + self.base
        if self.forbidden is not None:
            offset = torch.where(self.forbidden, -math.inf, offset)
        return offset

    def parameters(self, values: Sequence[Tensor | None]) -> list[Tensor]:
        """Parameters as they are, allowed or not."""
        found = [
            _as_float(values[slot]) if constant is None else constant
            for slot, constant in zip(self.slots, self.constants, strict=True)
        ]
        for index, view in self.views.items():
            found[index] = found[index].reshape(-1, *view)
        return found

    def allowed_parameters(self, values: Sequence[Tensor | None]) -> tuple[list[Tensor], Tensor | None]:
        """Parameters that satisfy every constraint, and where they are the model's (`None`: everywhere)."""
        parameters = self.parameters(values)
        allowed = None
        for index in self.checks:
            constraint = self.distribution.constraints[index]
            if constraint.implied_by(*_extremes(parameters[index])):
                continue  # as nearly always, and cheaper than what follows
            holds = constraint.holds(parameters[index])
            parameters[index] = torch.where(holds, parameters[index], constraint.fill)
            holds = over_core(holds, self.ranks[index])
            allowed = holds if allowed is None else allowed & holds
        return parameters, allowed

    def splits(self, moved: Collection[int]) -> bool:
        """Whether `still` and `log_prob` without it are worth their while.

        Args:
            moved: Slots of which many values are wanted at the same values of the others.
        """
        split, value = self.distribution.split, self.value
        if split is None or value is None:
            return False
        # what stands still and what moves cancel where a count is expected: to this many digits
        few = bool((value < MOST_SPLIT).all())
        return few and [i for i, slot in enumerate(self.slots) if slot in moved] == [split.moving]

    def still(self, values: Sequence[Tensor | None]) -> Tensor:
        """The part of the log-density that the moving parameter of a distribution's split does not change.

        Args:
            values: Slots of the evaluation, those of the other parameters among them.
        """
        split = self.distribution.split
        if split is None:
            return torch.zeros((), dtype=torch.float64)
        found = []
        for index, (slot, constant) in enumerate(zip(self.slots, self.constants, strict=True)):
            if index == split.moving:
                continue
            each = _as_float(values[slot]) if constant is None else constant
            if index in self.views:
                each = each.reshape(-1, *self.views[index])
            if index in self.checks:
                constraint = self.distribution.constraints[index]
                each = torch.where(constraint.holds(each), each, constraint.fill)
            found.append(each)
        return split.still(self.statistics, *found)

    def log_prob(
        self,
        values: Sequence[Tensor | None],
        value: Tensor | None = None,
        coordinate: Tensor | None = None,
        *,
        moving: bool = False,
    ) -> Tensor:
        """The log-density, broadcast over value and parameters.

        Args:
            values: Slots of the evaluation.
            value: The value, if it depends on parameters.
            coordinate: Its logarithm or logit, for distributions that take these.
            moving: Whether to leave out what `still` is.
        """
        distribution = self.distribution
        parameters, allowed = self.allowed_parameters(values)
        statistics, base = self.statistics, self.base
        if value is not None:
            if self.view is not None:
                value = value.reshape(-1, *self.view)
            if coordinate is None or distribution.from_logs is None:
                statistics = distribution.statistics(value, True)
                base = distribution.log_base(value)
            else:
                is_unit = distribution.support is Support.UNIT
                logs = transforms.logs(coordinate, is_unit)
                # a value that stood still while its logarithm grows would carry any mass
                exact = value if is_unit else _unclamped(value, coordinate)
                statistics, base = distribution.from_logs(exact, *logs)
        offset = self.offset
        if offset is None:
            normaliser = distribution.log_normaliser(*parameters)
            if normaliser is None:
                offset = torch.zeros((), dtype=torch.float64) if base is None else base
            else:
                offset = -normaliser if base is None else base - normaliser
            if self.forbidden is not None:
                offset = torch.where(self.forbidden, -math.inf, offset)
        elif value is not None and base is not None:
            offset = offset + base
        if allowed is not None:
            offset = torch.where(allowed, offset, -math.inf)
        split = distribution.split if moving else None
        kernel = distribution.log_kernel if split is None else split.rest
        result = kernel(offset, statistics, *parameters)
        if self.checks_support:
            inside = distribution.inside(self.value, *self.parameters(values))
            result = torch.where(inside, result, -math.inf)
        return result

    def untested(self, values: Sequence[Tensor | None]) -> dict[str, float]:
        """Parameters that are possible and yet outside of what is tested: the share of particles of each.

        Args:
            values: Slots of an evaluation; parameters that are not there are left out.
        """
        found = {}
        entry = self.distribution.entry
        for index in self.checks:
            tested, value = entry.tested[index], values[self.slots[index]]
            if value is None or tested == RANGES[entry.domains[index]]:
                continue
            value = _as_float(value)
            possible = CONSTRAINTS[entry.domains[index]].holds(value)
            outside = possible & self.distribution.constraints[index].untested(value)
            found[entry.parameters[index]] = float(outside.flatten(1).any(1).to(torch.float64).mean())
        return found

    def subsets(self, values: Sequence[Tensor | None], given: Tensor, alone: bool = False) -> Subsets:
        """Log-densities of some entries of a constant vector; -inf where parameters are not allowed.

        Args:
            values: Slots of the evaluation.
            given: Which entries are given.
            alone: Whether nothing but their own density is needed.
        """
        if self.value is None or self.distribution.subsets is None:
            raise RuntimeError(f"{self.distribution.name} has no densities of parts of a draw")
        parameters, allowed = self.allowed_parameters(values)
        if alone and self.distribution.part is not None:
            total = self.distribution.part(self.value, given, *parameters)
            found = Subsets(total, total.new_full((len(total), len(given)), torch.nan))
        else:
            found = self.distribution.subsets(self.value, given, *parameters)
        if self.forbidden is not None:
            allowed = ~self.forbidden if allowed is None else allowed & ~self.forbidden
        if allowed is None:
            return found
        allowed = allowed.reshape(-1)
        return Subsets(
            torch.where(allowed, found.given, -math.inf),
            torch.where(allowed[:, None], found.changed, -math.inf),
        )


def _check_tested(distribution: Distribution, index: int, constant: Tensor) -> None:
    """Refuses a constant that a parameter may take but no test covers.

    Raises:
        ProgramFailure: `SCORER_LIMIT`, naming the distribution, the parameter and the value.
    """
    entry = distribution.entry
    tested = entry.tested[index]
    possible = CONSTRAINTS[entry.domains[index]].holds(constant)
    outside = possible & distribution.constraints[index].untested(constant)
    if bool(outside.any()):
        value = float(constant.expand(outside.shape)[outside].reshape(-1)[0])
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"{entry.name}: {entry.parameters[index]} = {value:g} is not from {tested.low:g} to"
            f" {tested.high:g}, where its density is exact",
        )


def _unclamped(value: Tensor, coordinate: Tensor) -> Tensor:
    """Values, infinite where they are more than a double holds."""
    if _extremes(coordinate)[1] <= transforms.MAX_EXPONENT:
        return value
    return torch.where(coordinate > transforms.MAX_EXPONENT, torch.inf, value)


def _extremes(values: Tensor) -> tuple[float, float]:
    """The smallest and the largest value; NaN if there is one, or no value."""
    if not values.numel():
        return math.nan, math.nan
    low, high = torch.aminmax(values.detach())
    return float(low), float(high)


def _as_float(value: Tensor | None) -> Tensor:
    """A parameter that may be of an integer or boolean dtype, in float64."""
    if value is None:
        raise RuntimeError("a parameter was read before it was computed")
    return value if value.dtype is torch.float64 else value.to(torch.float64)

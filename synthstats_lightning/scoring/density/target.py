"""What the estimators need of a model: a prior and a pointwise likelihood over unconstrained parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density import many_rows
from synthstats_lightning.scoring.settings import MANY_ROWS


@runtime_checkable
class Target(Protocol):
    """A model with data: what `scoring.density.Density` is, and hand-written models in tests.

    Parameters are unconstrained; the prior includes the Jacobians of the transforms and is normalised. Values
    are float64, differentiable by autograd, and -inf or NaN where the density vanishes or is undefined.
    """

    @property
    def dimension(self) -> int:
        """Unconstrained parameters."""
        ...

    @property
    def num_observations(self) -> int:
        """Rows of the response."""
        ...

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Log prior density and pointwise log-likelihood, in nats."""
        ...

    def log_prior(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log prior density, in nats."""
        ...

    def log_likelihood(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles rows"]:
        """Pointwise log-likelihood, in nats."""
        ...

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "particles dim"]:
        """Independent draws from the prior."""
        ...


class Marginals(NamedTuple):
    """Log-likelihoods of some rows, given the parameters.

    Attributes:
        given: Log density of the given rows together `[particles]`.
        changed: Of the given rows without row i where it is one of them, together with row i where it is
            not `[particles, rows]`.
    """

    given: Float[Tensor, " particles"]
    changed: Float[Tensor, "particles rows"]


@runtime_checkable
class Coupled(Target, Protocol):
    """A target whose rows may depend on each other given the parameters.

    Then only the sum over rows of its log-likelihood has a meaning.
    """

    @property
    def coupled(self) -> bool:
        """Whether they do."""
        ...

    def marginals(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"] | None = None
    ) -> Marginals:
        """Log-likelihood of some rows (all if `None`) together, and of these with one row less or more."""
        ...


@runtime_checkable
class Partial(Coupled, Protocol):
    """One that has the density of some rows for less than `marginals` takes."""

    def log_likelihood_given(
        self, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
    ) -> Float[Tensor, " particles"]:
        """Log-likelihood of some rows together."""
        ...


@runtime_checkable
class Standardisable(Target, Protocol):
    """A target that has the same model in other coordinates, see `scoring.standardise`."""

    @property
    def funnels(self) -> Sequence[object]:
        """What is worth it; empty if nothing is."""
        ...

    def standardised(
        self, theta: Float[Tensor, " dim"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> Standardisable:
        """The same model by the prior, or by prior and likelihood of the given rows near a point."""
        ...


LOST = 1e12
"""Log densities of this size are no more precise than 0.0001 nats."""


class Pointwise(NamedTuple):
    """What leave-one-out needs of each row, given the parameters.

    With `p(y_i | y_-i, theta)` in place of the likelihood of row i, leave-one-out by reweighting is exact for
    rows that depend on each other, too: `1 / p(y_i | y_-i)` is the posterior mean of its inverse.

    Attributes:
        own: Log density of each row given all others, its log-likelihood if rows are independent
            `[particles, rows]`.
        others: Log density of all rows but each one `[particles, rows]`.
    """

    own: Float[Tensor, "particles rows"]
    others: Float[Tensor, "particles rows"]


def pointwise(
    target: Target, theta: Float[Tensor, "particles dim"], log_likelihood: Float[Tensor, "particles rows"]
) -> Pointwise:
    """Each row given the others, and the others without it.

    Args:
        target: The model with its data.
        theta: Unconstrained parameters of the model.
        log_likelihood: Log-likelihood of the target there.
    """
    if not is_coupled(target):
        return Pointwise(log_likelihood, leave_one_out_sums(log_likelihood))
    return pointwise_of(target.marginals(theta))


def pointwise_of(found: Marginals) -> Pointwise:
    """Each row given the others, and the others without it.

    Args:
        found: Log-likelihood of all rows together, and of these without each one.
    """
    total, others = found
    # so large that their difference has no digits left, far out where no mass is
    precise = (others.abs() < LOST) & (total.abs() < LOST)[:, None]
    others = torch.where(precise, others, -torch.inf)
    own = torch.where(total.isfinite()[:, None], total[:, None] - others, -torch.inf)
    return Pointwise(finite_or_minus_infinity(own), finite_or_minus_infinity(others))


def log_likelihood_of(
    target: Target, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
) -> Float[Tensor, " particles"]:
    """Log-likelihood of some rows together.

    Args:
        target: The model with its data.
        theta: Unconstrained parameters of the model.
        given: Which rows count.
    """
    if is_coupled(target):
        if isinstance(target, Partial):
            return target.log_likelihood_given(theta, given)
        return target.marginals(theta, given).given
    if target.num_observations > MANY_ROWS:

        def some_rows(some: Tensor) -> tuple[Tensor, Tensor]:
            each = target.log_likelihood(some)[:, given]
            return each.new_zeros(len(each)), each

        return many_rows.totals(some_rows, theta, target.num_observations)[1]
    return target.log_likelihood(theta)[:, given].sum(-1)


def own_densities(
    target: Target, theta: Float[Tensor, "particles dim"], log_likelihood: Float[Tensor, "particles rows"]
) -> Float[Tensor, "particles rows"]:
    """Log density of each row given all others; see `pointwise`."""
    return pointwise(target, theta, log_likelihood).own if is_coupled(target) else log_likelihood


def densities_each(target: Target) -> int:
    """How many densities of each row it takes to know that of one draw: nodes, where a rule integrates."""
    return int(getattr(target, "densities_each", 1))


def is_coupled(target: Target) -> TypeGuard[Coupled]:
    """Whether a target's rows depend on each other given the parameters."""
    # not isinstance, which looks a protocol's every member up and is asked for each evaluation
    return bool(getattr(target, "coupled", False))


def smooth_form(target: Target) -> Target:
    """What to search and to fit proposals to: a target without the noise of its own estimates.

    Args:
        target: One whose density may be an unbiased estimate; it then says as `smooth` what that estimates
            about, without noise.
    """
    found: Target | None = getattr(target, "smooth", None)
    return target if found is None else found


def is_noisy(target: Target) -> bool:
    """Whether a target's density is an unbiased estimate, which has no gradient."""
    return smooth_form(target) is not target


def is_dear(target: Target) -> bool:
    """Whether each density of a target is a search of its own: estimators then take fewer draws."""
    return is_noisy(target) or bool(getattr(target, "dear", False))


def factored_by(target: Target) -> int:
    """Dimensions of the dense matrices that each density of a target factors, 0 where these are small."""
    return int(getattr(target, "factored", 0))


def is_straight(target: Target) -> bool:
    """Whether a target's coordinates were made for its posterior to be nearly normal in them."""
    return bool(getattr(target, "straight", False))


def has_funnels(target: Target) -> TypeGuard[Standardisable]:
    """Whether there is something in a target to standardise."""
    return bool(getattr(target, "funnels", ()))


def leave_one_out_sums(
    log_likelihood: Float[Tensor, "particles rows"],
) -> Float[Tensor, "particles rows"]:
    """Log-likelihood of all rows but each one, right also where single rows are impossible (-inf)."""
    total = log_likelihood.sum(-1, keepdim=True)
    if bool(total.isfinite().all()):
        return total - log_likelihood
    possible = log_likelihood.isfinite()
    finite = torch.where(possible, log_likelihood, 0.0)
    others = finite.sum(-1, keepdim=True) - finite
    impossible = (~possible).sum(-1, keepdim=True) - (~possible).to(torch.int64)
    return torch.where(impossible == 0, others, -torch.inf)


class Evaluation(NamedTuple):
    """A target at some particles, with everything that is not a finite number turned into -inf.

    Attributes:
        log_prior: Log prior density `[particles]`.
        log_likelihood: Pointwise log-likelihood `[particles, rows]`.
    """

    log_prior: Float[Tensor, " particles"]
    log_likelihood: Float[Tensor, "particles rows"]

    @property
    def log_joint(self) -> Float[Tensor, " particles"]:
        """Log prior plus log-likelihood `[particles]`."""
        return self.log_prior + self.log_likelihood.sum(-1)


def finite_or_minus_infinity(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """NaN and +inf become -inf: a density that is undefined or unbounded at a point gets no mass there."""
    return values.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)


def evaluate(target: Target, theta: Float[Tensor, "particles dim"]) -> Evaluation:
    """Prior and pointwise likelihood of a target, non-finite values as -inf.

    Of many rows they have no gradients; see `evaluate_totals`.

    Args:
        target: The model with its data.
        theta: Unconstrained parameters of the model.
    """
    rows = target.num_observations
    if rows <= MANY_ROWS:
        return Evaluation(*_finite_densities(target)(theta))
    if not is_coupled(target):
        return Evaluation(*many_rows.table(_finite_densities(target), theta, rows))
    # such targets hold few particles at once themselves
    log_prior, shares = target.log_prior_and_likelihood(theta)
    if shares.stride(1) == 0:
        shares = shares[:, :1]
    return Evaluation(finite_or_minus_infinity(log_prior), finite_or_minus_infinity(shares).expand(-1, rows))


class Totals(NamedTuple):
    """A target at some particles, all rows together; what is not a finite number is -inf.

    Attributes:
        log_prior: Log prior density `[particles]`.
        log_likelihood: Log-likelihood of all rows `[particles]`.
    """

    log_prior: Float[Tensor, " particles"]
    log_likelihood: Float[Tensor, " particles"]

    @property
    def log_joint(self) -> Float[Tensor, " particles"]:
        """Log prior plus log-likelihood `[particles]`."""
        return self.log_prior + self.log_likelihood


def evaluate_totals(target: Target, theta: Float[Tensor, "particles dim"]) -> Totals:
    """Prior and likelihood of a target, non-finite values as -inf, without a table of particles and rows."""
    rows = target.num_observations
    if rows > MANY_ROWS and not is_coupled(target):
        return Totals(*many_rows.totals(_finite_densities(target), theta, rows))
    evaluation = evaluate(target, theta)
    return Totals(evaluation.log_prior, evaluation.log_likelihood.sum(-1))


def _finite_densities(target: Target) -> many_rows.Densities:
    def densities(theta: Tensor) -> tuple[Tensor, Tensor]:
        log_prior, log_likelihood = target.log_prior_and_likelihood(theta)
        return finite_or_minus_infinity(log_prior), finite_or_minus_infinity(log_likelihood)

    return densities


class GradientNeeded(Exception):
    """A gradient is needed, and `torch.inference_mode` is on."""


def value_and_gradient(
    function: Callable[[Float[Tensor, "*batch dim"]], Float[Tensor, "*batch"]],
    theta: Float[Tensor, "*batch dim"],
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch dim"]]:
    """A batched scalar function and its gradient; gradient entries that are not finite become 0.

    Args:
        function: Acts on each batch element separately, so that the sum's gradient is every element's.
        theta: Where to evaluate.

    Raises:
        GradientNeeded: In inference mode, in which gradients are silently 0.
    """
    if torch.is_inference_mode_enabled():
        raise GradientNeeded
    leaf = theta.detach().requires_grad_(True)
    with torch.enable_grad():
        value = function(leaf)
        total = torch.where(value.isfinite(), value, 0.0).sum()
        if not total.requires_grad:
            return value.detach(), torch.zeros_like(theta)
        (gradient,) = torch.autograd.grad(total, leaf)
    return value.detach(), gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


class RowSubset:
    """A target that sees only its first rows: the model given what a prompt shows.

    Args:
        target: The whole target.
        rows: How many leading rows count.
    """

    def __init__(self, target: Target, rows: int) -> None:
        self.target = target
        self.rows = rows

    @property
    def dimension(self) -> int:
        """Unconstrained parameters."""
        return self.target.dimension

    @property
    def num_observations(self) -> int:
        """Rows that count."""
        return self.rows

    def log_prior_and_likelihood(
        self, theta: Float[Tensor, "particles dim"]
    ) -> tuple[Float[Tensor, " particles"], Float[Tensor, "particles rows"]]:
        """Log prior density and log-likelihood of the leading rows."""
        if is_coupled(self.target):
            return self.target.log_prior(theta), self.log_likelihood(theta)
        log_prior, log_likelihood = self.target.log_prior_and_likelihood(theta)
        return log_prior, log_likelihood[:, : self.rows]

    def log_prior(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, " particles"]:
        """Log prior density."""
        return self.target.log_prior(theta)

    def log_likelihood(self, theta: Float[Tensor, "particles dim"]) -> Float[Tensor, "particles rows"]:
        """Log-likelihood of the leading rows; in equal shares where rows depend on each other."""
        if is_coupled(self.target):
            given = torch.arange(self.target.num_observations) < self.rows
            total = log_likelihood_of(self.target, theta, given)
            return (total / self.rows)[:, None].expand(-1, self.rows)
        return self.target.log_likelihood(theta)[:, : self.rows]

    def sample_prior(self, n: int, generator: torch.Generator) -> Float[Tensor, "particles dim"]:
        """Independent draws from the prior."""
        return self.target.sample_prior(n, generator)

    @property
    def smooth(self) -> RowSubset | None:
        """The same rows without the noise of their density's estimate; `None` where there is none."""
        return type(self)(smooth_form(self.target), self.rows) if is_noisy(self.target) else None

    @property
    def funnels(self) -> Sequence[object]:
        """What is worth standardising."""
        return self.target.funnels if isinstance(self.target, Standardisable) else ()

    def standardised(
        self, theta: Float[Tensor, " dim"] | None = None, given: Bool[Tensor, " rows"] | None = None
    ) -> RowSubset:
        """The same rows of the same model in other coordinates."""
        if not isinstance(self.target, Standardisable):
            return self
        count = torch.zeros(self.target.num_observations, dtype=torch.bool)
        count[: self.rows] = True if given is None else given
        return RowSubset(self.target.standardised(theta, count), self.rows)

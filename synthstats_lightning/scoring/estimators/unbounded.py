"""Whether a likelihood grows without bound, so fast that the evidence is infinite.

Where a noise scale s vanishes, the density of a row that is fitted exactly grows like 1 / s. Parameters that
keep k such rows fitted have a volume that shrinks like s^r, with r the rank of how these rows' locations
move with the parameters, and the prior of s lets it vanish with a density s^(a-1). The evidence is infinite
if k - r - a is not below 0: a component of a mixture with a scale of its own on three equal values, a line
through data that lie on it. A sampler sees nothing of this, since it never gets there.

No names of distributions or parameters are looked at. Each coordinate is moved far out both ways, from the
likeliest of some prior draws; where replicates of a row then coincide, some scale has vanished, and where
they do is the location of its spike. A value where they do before anything is moved has positive
probability, as 0 in a hurdle or a bound of censoring: draws there show nothing, and rows there grow by
nothing. The locations' derivatives say which rows can be fitted exactly together, and the joint density is
followed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import Target, evaluate, evaluate_totals
from synthstats_lightning.scoring.estimators.symmetry import Block
from synthstats_lightning.scoring.settings import MANY_ROWS

OUTWARD = 50.0
"""How far a coordinate is moved: a scale that is its exponential is then 1e-22 of what it was, one that is
the root of a precision 1e-11."""
PRIOR_DRAWS = 64
"""Draws from the prior, of which the best is the point that coordinates are moved from."""
FEW = 64
"""Up to so many dimensions every coordinate is moved."""
SHORT = 8
"""Beyond that, those of parameters of at most so many elements."""
REPLICATES = 32
"""Responses drawn at each point; a spike shows where two of one row coincide."""
FEWER_REPLICATES = 8
"""The same for many rows."""
CHUNK = 4_000_000
"""Most values drawn at once."""
COINCIDENT = 1e-8
"""Largest gap between two such replicates, relative to the response's spread."""
NEARLY_FITTED = 0.01
"""A spike of all rows must fit all of them: a first, linear step leaves residuals of at most this much of the
response's spread."""
STEP = 1e-4
"""Step of the differences that give the locations' derivatives."""
RANK = 1e-6
"""Directions in which locations move less than this, relative to the fastest, count as none."""
FEW_STEPS = 6
"""Parameters up to which a spike of all rows is first tried by one step, and only then moved at random."""
OUT_OF_REACH = 1e4
"""Locations stand still that lack so many times what a step of all parameters, each by its size, does."""
FITTED = 1e-6
"""Rows are fitted together if what linear steps leave of their residuals is below this much of the spread."""
MOST_THROUGH = 200
"""Of many rows, those through which a spike's location is laid."""
ALIKE = 7
"""Digits to which rows agree that every location fits together."""
MOST_PAIRS = 2000
"""Pairs of rows through which a spike's location is laid."""
NEWTON = 6
"""Steps that bring the location onto the rows."""
FOLLOWED = (14.0, 17.0, 20.0)
"""Between these distances the growth of the joint density is measured: residuals' rounding is below."""
SLOWEST = 0.1
"""Rows' density must grow at least so fast with the coordinate."""
LASTING = 0.95
"""And in the second half of the way at least this share of what it grows in the first: probabilities, which
only recover from next to nothing, slow down."""
CERTAIN = 1e-6
"""Log of a probability, in nats, with rounding."""
MARGIN = 0.25
"""A rate of growth that is above minus this, in units of the scale's own, counts as not below 0."""


@runtime_checkable
class Replicated(Protocol):
    """A model that draws responses: what `scoring.marginals.density.Density` is."""

    @property
    def parameters(self) -> Sequence[Block]:
        """Its parameters and their coordinates."""
        ...

    def sample_response(
        self,
        theta: Float[Tensor, "particles dim"],
        generator: torch.Generator,
        given_response: bool | Bool[Tensor, " rows"] = True,
    ) -> Float[Tensor, "particles rows"]:
        """One replicated response for each particle."""
        ...


class _Spike(NamedTuple):
    """A coordinate whose end makes a spike.

    Attributes:
        coordinate: Which coordinate of the parameters it is.
        outward: Whether its end is at +inf or -inf.
        pure: Whether all replicates coincide in every row where some do: two of them then show it.
    """

    coordinate: int
    outward: float
    pure: bool


class _Search(NamedTuple):
    """What is looked at.

    Attributes:
        model: The model of all rows, which draws replicates.
        target: The model of the rows that count.
        theta: The best parameters known `[dim]`.
        response: Values of the rows that count `[rows]`.
        spread: The response's unit.
        atoms: Values of positive probability, NaN where a row has none `[2, rows]`.
        generator: Of replicates, apart from that of the scores.
    """

    model: Replicated
    target: Target
    theta: Float[Tensor, " dim"]
    response: Float[Tensor, " rows"]
    spread: float
    atoms: Float[Tensor, "2 rows"]
    generator: torch.Generator

    @property
    def dense(self) -> Bool[Tensor, " rows"]:
        """Rows whose value has a density."""
        return ~(self.response == self.atoms).any(0)

    @property
    def replicates(self) -> int:
        """Responses drawn at each point: of many rows some show a spike in few of them."""
        return REPLICATES if len(self.response) <= MANY_ROWS else FEWER_REPLICATES

    def showing(self, pure: bool) -> int:
        """Responses that show a spike, two if all of them lie on it."""
        return 2 if pure and not bool(self.atoms.isfinite().any()) else REPLICATES


def check_bounded(target: Target, model: Replicated, response: NDArray[Any]) -> None:
    """Refuses a model whose evidence is infinite.

    Args:
        target: The model of the rows that count, the first ones.
        model: The model of all rows, with replicates.
        response: Values of all rows, which have densities.

    Raises:
        ProgramFailure: `UNBOUNDED`.
    """
    if target.dimension == 0 or target.num_observations == 0:
        return
    values = torch.as_tensor(np.asarray(response, dtype=np.float64)).flatten()[: target.num_observations]
    size = float(values.max() - values.min()) or float(values.abs().max()) or 1.0
    generator = torch.Generator().manual_seed(0)
    theta = target.sample_prior(PRIOR_DRAWS, generator)
    coordinates = _candidates(model, target.dimension)
    with torch.no_grad():
        joint = evaluate_totals(target, theta).log_joint
        best = theta[joint.argmax()]
        if not coordinates or not bool(joint.isfinite().any()):
            return
        points = torch.cat([theta, best.expand(PRIOR_DRAWS, -1)])
        atoms = _atoms(model.sample_response(points, generator, False)[:, : len(values)])
        held = (values == atoms).any(0)
        if bool(held.any()):
            # a probability is at most 1: more is the density of a scale that is too small to show in draws
            density = evaluate(target, theta).log_likelihood.amax(0) > CERTAIN
            atoms = torch.where(held & density, torch.nan, atoms)
        search = _Search(model, target, best, values, size, atoms, generator)
        if not bool(search.dense.any()):
            return
        moved = torch.zeros(2, len(coordinates), target.dimension, dtype=theta.dtype)
        moved[0, torch.arange(len(coordinates)), coordinates] = OUTWARD
        moved[1] = -moved[0]
        moved = moved.flatten(0, 1)
        found = _spikes(search, best + moved, search.replicates)
        for index in torch.nonzero(found.location.isfinite().any(1))[:, 0].tolist():
            outward = 1.0 if index < len(coordinates) else -1.0
            pure = bool(found.whole[index][found.location[index].isfinite()].all())
            spike = _Spike(coordinates[index % len(coordinates)], outward, pure)
            rows = _diverges(search, spike, bool(found.whole[index][search.dense].all()))
            if rows > 0:
                raise ProgramFailure(
                    FailureCategory.UNBOUNDED,
                    f"the evidence is infinite: a scale can vanish where {rows} rows are fitted exactly, and"
                    " their density grows without bound; set `rounding`, the spacing of recorded values",
                )


def _candidates(model: Replicated, dimension: int) -> list[int]:
    """Coordinates of parameters that may be scales: of large models not the long ones, which are effects."""
    if dimension <= FEW:
        return list(range(dimension))
    return [
        coordinate
        for block in model.parameters
        if block.stop - block.start <= SHORT
        for coordinate in range(block.start, block.stop)
    ]


def _atoms(drawn: Float[Tensor, "draws rows"]) -> Float[Tensor, "2 rows"]:
    """The lowest and the highest value that a row has twice where no scale has vanished; NaN for none."""
    ordered = drawn.sort(0).values
    twice = ordered.diff(dim=0) == 0.0
    lowest = torch.where(twice, ordered[1:], torch.inf).amin(0)
    highest = torch.where(twice, ordered[1:], -torch.inf).amax(0)
    return torch.stack([torch.where(each.isfinite(), each, torch.nan) for each in (lowest, highest)])


class _Spikes(NamedTuple):
    """Where replicates of each row coincide.

    Attributes:
        location: Where two do; NaN where none do `[points, rows]`.
        whole: Whether all of them do that are no atoms: a component of a mixture leaves others as they were
            `[points, rows]`.
    """

    location: Float[Tensor, "points rows"]
    whole: Bool[Tensor, "points rows"]


def _spikes(search: _Search, points: Float[Tensor, "points dim"], replicates: int) -> _Spikes:
    """Draws replicates of the rows that count, and compares them."""
    rows = len(search.response)
    locations, wholes = [], []
    for some in torch.split(points, max(1, CHUNK // (replicates * rows))):
        drawn = search.model.sample_response(some.repeat_interleave(replicates, 0), search.generator, False)
        drawn = drawn[:, :rows].reshape(len(some), replicates, rows)
        # not numbers, which are sorted to the end
        drawn = torch.where((drawn[:, :, None] == search.atoms).any(2), torch.nan, drawn)
        ordered = drawn.sort(1).values
        gap, index = ordered.diff(dim=1).nan_to_num(nan=torch.inf).min(1)
        location = ordered.gather(1, index[:, None])[:, 0]
        last = ordered.gather(1, (ordered.isfinite().sum(1, keepdim=True) - 1).clamp_min(0))[:, 0]
        width = last - ordered[:, 0]
        whole = width <= COINCIDENT * search.spread
        # of a row that is narrow itself, and not yet a spike, two draws of many come as close as that
        sharp = (gap <= COINCIDENT * search.spread) & (whole | (gap <= COINCIDENT * width))
        sharp &= location.isfinite()
        locations.append(torch.where(sharp, location, torch.nan))
        wholes.append(sharp & whole)
    return _Spikes(torch.cat(locations), torch.cat(wholes))


class _Fit(NamedTuple):
    """Parameters at which a spike lies on some rows.

    Attributes:
        theta: The parameters, the spike's coordinate far out `[dim]`.
        rows: The rows `[rows]`.
        rank: How many directions in parameter space lead off them.
    """

    theta: Float[Tensor, " dim"]
    rows: Bool[Tensor, " rows"]
    rank: int


def _diverges(search: _Search, spike: _Spike, everywhere: bool) -> int:
    """Rows whose exact fit makes the evidence infinite as a scale vanishes; 0 if none does."""
    fit = _onto_rows(search, spike, everywhere)
    if fit is None:
        return 0
    points = fit.theta.repeat(len(FOLLOWED), 1)
    points[:, spike.coordinate] = search.theta[spike.coordinate] + spike.outward * torch.tensor(FOLLOWED)
    along = evaluate(search.target, points)
    way = FOLLOWED[-1] - FOLLOWED[0]
    growth = float(along.log_joint[-1] - along.log_joint[0]) / way
    count = int(fit.rows.sum())
    # where rows depend on each other only the sum has a meaning, and it grows by what all rows do
    fitted = (along.log_likelihood if everywhere else along.log_likelihood[:, fit.rows]).sum(1)
    rate = float(fitted[-1] - fitted[0]) / (way * count)
    lasting = float(fitted[2] - fitted[1]) >= LASTING * float(fitted[1] - fitted[0])
    return count if rate > SLOWEST and lasting and growth - fit.rank * rate > -MARGIN * rate else 0


def _onto_rows(search: _Search, spike: _Spike, everywhere: bool) -> _Fit | None:
    """Newton steps of a spike's locations onto all rows, or onto the most that can be fitted together."""
    centre = search.theta.clone()
    centre[spike.coordinate] += spike.outward * OUTWARD
    chosen = torch.zeros(len(search.response), dtype=torch.bool)
    rank = 0
    # of a few parameters a first step costs less than a look at whether they matter, and mostly suffices
    late = everywhere and len(centre) <= FEW_STEPS
    if not late and _stands_still(search, centre, spike):
        return None
    for iteration in range(NEWTON):
        step = STEP * centre.abs().clamp_min(1.0)
        points = torch.cat([centre[None], centre + torch.diag(step)])
        locations = _spikes(search, points, search.showing(everywhere or spike.pure)).location
        slope = ((locations[1:] - locations[0]) / step[:, None]).T
        slope[:, spike.coordinate] = 0.0
        residual = search.response - locations[0]
        known = search.dense & residual.isfinite() & slope.isfinite().all(1)
        if iteration == 0:
            chosen = known if everywhere else _fitted_together(slope, residual, known, search)
            dense = search.dense
            if everywhere and not _nearly_fitted(slope[dense], residual[dense], search.spread):
                return None
            if late and _stands_still(search, centre, spike):
                return None
        # of a component of small weight some rows may have no two draws this time
        here = chosen & known
        if 2 * int(here.sum()) < int(chosen.sum()) or int(here.sum()) <= (rank := _rank(slope[here])):
            return None
        if float(residual[here].abs().max()) == 0.0:
            break
        # of all steps the shortest: parameters that the location does not depend on stay
        centre = centre + torch.linalg.pinv(slope[here], rtol=RANK) @ residual[here]
    return _Fit(centre, chosen, rank)


def _stands_still(search: _Search, centre: Float[Tensor, " dim"], spike: _Spike) -> bool:
    """Whether a spike is far from every row that it has, and stays where it is whatever parameters do.

    As at the end of a response's range, where an effect that is moved far out leads.
    """
    sign = torch.randint(2, centre.shape, generator=search.generator) * 2 - 1
    step = centre.abs().clamp_min(1.0) * sign
    step[spike.coordinate] = 0.0
    replicates = search.showing(spike.pure)
    here, there = _spikes(search, torch.stack([centre, centre + step]), replicates).location
    lacking = (search.response - here).abs()
    far = lacking > NEARLY_FITTED * search.spread
    still = OUT_OF_REACH * (there - here).abs() <= lacking
    return bool((far & still)[here.isfinite() & there.isfinite()].all())


def _nearly_fitted(slope: Float[Tensor, "rows dim"], residual: Float[Tensor, " rows"], spread: float) -> bool:
    """Whether a linear step brings all rows close to their locations."""
    if not bool(residual.isfinite().all()) or not bool(slope.isfinite().all()):
        return False
    left = residual - slope @ (torch.linalg.pinv(slope, rtol=RANK) @ residual)
    return bool((left.abs() <= NEARLY_FITTED * spread).all())


def _rank(slope: Float[Tensor, "rows dim"]) -> int:
    if len(slope) == 0:
        return 0
    values = torch.linalg.svdvals(slope)
    return int((values > RANK * values.max().clamp_min(1e-12)).sum())


def _fitted_together(
    slope: Float[Tensor, "rows dim"],
    residual: Float[Tensor, " rows"],
    known: Bool[Tensor, " rows"],
    search: _Search,
) -> Bool[Tensor, " rows"]:
    """The rows that exceed most in number the one or two through which the location is laid."""
    index = torch.nonzero(known)[:, 0]
    if len(residual) > MANY_ROWS:
        index = _worth_fitting(slope, residual, search, index)
    best, most = torch.zeros_like(known), 0
    pairs = list(combinations(range(len(index)), 2))
    stride = -(-len(pairs) // MOST_PAIRS) if pairs else 1
    for through in ([(i,) for i in range(len(index))], pairs[::stride]):
        if not through:
            continue
        chosen = index[torch.tensor(through)]
        shifts = (torch.linalg.pinv(slope[chosen], rtol=RANK) @ residual[chosen][..., None])[..., 0]
        for shift in shifts.split(max(1, CHUNK // len(residual))):
            left = (residual - (slope @ shift.T).T).abs()
            fitted = known & (left <= FITTED * search.spread)
            excess = fitted.sum(1) - chosen.shape[1]
            top = int(excess.argmax())
            if int(excess[top]) > most:
                best, most = fitted[top], int(excess[top])
    return best


def _worth_fitting(
    slope: Float[Tensor, "rows dim"],
    residual: Float[Tensor, " rows"],
    search: _Search,
    index: Int[Tensor, " some"],
) -> Int[Tensor, " fewer"]:
    """Of some rows `MOST_THROUGH` through which a location is worth laying, one for all that go with it.

    Rows whose locations move alike and lack as much are on every spike together: one of them stands for all,
    the more there are the sooner. Of as many others the values that most rows share come first, since a
    location that is free to be constant fits all of these.
    """
    size = slope[index].norm(dim=1)
    moving = size > 0
    # up to a factor: what a step does to both is the same
    unit = torch.where(moving, size, 1.0)[:, None]
    key = torch.cat([slope[index] / unit, residual[index][:, None] / (unit * search.spread)], 1)
    first = key.gather(1, (key.abs() > 10.0**-ALIKE).int().argmax(1)[:, None])
    rounded = (key * torch.where(first < 0, -1.0, 1.0)).numpy().round(ALIKE) + 0.0
    _, start, together = np.unique(rounded, axis=0, return_index=True, return_counts=True)
    _, value, shared = np.unique(search.response.numpy(), return_inverse=True, return_counts=True)
    frequency = shared[value][index.numpy()[start]]
    by_rows = np.lexsort((-frequency, -together))[: MOST_THROUGH // 2]
    by_value = np.lexsort((-together, -frequency))
    rest = by_value[~np.isin(by_value, by_rows)][: MOST_THROUGH - len(by_rows)]
    return index[torch.from_numpy(start[np.concatenate([by_rows, rest])])]

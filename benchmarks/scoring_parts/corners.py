"""Distributions at the corners of the ranges that the scorer admits, and within them, against 50 digits."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import mpmath as mp
import torch
from scoring_parts.exact_densities import DIGITS, EXACT
from scoring_parts.exact_vectors import VECTORS

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Domain, Range
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS

NEXT_TO_ONE = 1.0 - 2.0**-53
LARGEST_COUNT = 1e15
TAILS = (1e-3, 0.3, 3.0, 30.0, 1e4)
"""Multiples of a draw's distance from the middle at which the tails are looked at."""
DIGITS_OF_MATRICES = 400
"""Covariances of scales from 1e-40 to 1e40 need more digits to be inverted."""
OVERFLOW = mp.mpf(10) ** 300
"""Log-densities beyond minus this are -inf in double precision."""


class Case(NamedTuple):
    """Parameters of a distribution with values in its bulk and its tails."""

    parameters: tuple[float, ...]
    values: tuple[float, ...]


class Worst(NamedTuple):
    """The largest error of a distribution's log-density, relative where that exceeds 1 nat, and its place."""

    error: float
    case: str
    compared: int


def ends(domain: Domain, tested: Range) -> list[float]:
    """Corners of a range."""
    match domain:
        case Domain.UNIT:
            return [0.0, 1e-100, 0.5, NEXT_TO_ONE, 1.0]
        case Domain.OPEN_UNIT:
            return [tested.low, 0.5, NEXT_TO_ONE]
        case Domain.REAL | Domain.INTEGER:
            return [tested.low, 0.0, 1.0, tested.high]
    return [tested.low, 1.0, tested.high]


def inner(domain: Domain, tested: Range, source: random.Random) -> float:
    """A log-uniform number of a range, of any sign it allows."""
    low, high = max(tested.low, 1e-6 if domain is Domain.REAL else 1e-100), tested.high
    if domain in (Domain.COUNT, Domain.INTEGER):
        low = 1.0
    size = math.exp(source.uniform(math.log(low), math.log(high)))
    if domain in (Domain.UNIT, Domain.OPEN_UNIT):
        return min(size if source.random() < 0.5 else 1.0 - size, NEXT_TO_ONE) or 0.5
    if domain in (Domain.COUNT, Domain.INTEGER):
        size = float(math.floor(size))
    return -size if tested.low < 0 and source.random() < 0.5 else size


def ordered(entry: Entry, parameters: Sequence[float]) -> tuple[float, ...]:
    """Ends of an interval in order; counts that fit together."""
    found = list(parameters)
    if entry.name == "HyperGeometric":
        found[2] = min(found[2], found[0] + found[1])
    ends = [i for i, name in enumerate(entry.parameters) if name in ("lower", "c", "upper")]
    for index, value in zip(ends, sorted(found[i] for i in ends), strict=True):
        found[index] = value
    if len(ends) > 1 and found[ends[0]] == found[ends[-1]]:
        found[ends[-1]] = max(found[ends[0]] + 1.0, math.nextafter(found[ends[0]], math.inf))
    for name, value in entry.fixed.items():
        found[entry.parameters.index(name)] = value
    return tuple(found)


def parameter_sets(entry: Entry, inside: int, corners: int, seed: int) -> Iterator[tuple[float, ...]]:
    """Corners of the ranges of a distribution's parameters, and numbers within.

    Args:
        entry: The distribution.
        inside: Sets within.
        corners: Most corners.
        seed: Seed of the choice.
    """
    source = random.Random(f"{entry.name} {seed}")
    pairs = list(zip(entry.domains, entry.tested, strict=True))
    every = list(itertools.product(*(ends(*pair) for pair in pairs)))
    for parameters in source.sample(every, min(corners, len(every))):
        yield ordered(entry, parameters)
    for _ in range(inside):
        yield ordered(entry, [inner(*pair, source) for pair in pairs])


def values_of(name: str, parameters: Sequence[float], seed: int) -> tuple[float, ...]:
    """Values of the bulk, by the scorer's own draws, and of the tails."""
    distribution = DISTRIBUTIONS[name]
    tensors = [torch.tensor(p, dtype=torch.float64) for p in parameters]
    if name == "HyperGeometric":
        good, bad, n = parameters
        draws = torch.floor(torch.tensor([0.0, 0.3, 0.5, 1.0], dtype=torch.float64) * min(good, n))
        draws = torch.cat([draws, torch.tensor([math.floor(n * (good / max(good + bad, 1.0)))])])
    elif name in ("Poisson", "NegativeBinomial", "BetaBinomial", "Binomial", "Bernoulli"):
        draws = _counts_of(name, parameters)
    else:
        draws = distribution.sample(torch.Generator().manual_seed(seed), (3,), *tensors)
    middle = draws.median()
    found = torch.cat([draws, *(middle + (draws - middle) * factor for factor in TAILS), draws * 0.5])
    if distribution.discrete:
        found = torch.round(found).clamp(-LARGEST_COUNT, LARGEST_COUNT)
    found = found[found.isfinite()]
    return tuple(found[distribution.inside(found, *tensors)].unique().tolist())


def _counts_of(name: str, parameters: Sequence[float]) -> torch.Tensor:
    """Counts around the mean; torch's own draws of large ones overflow."""
    if name == "Poisson":
        mean, deviation = parameters[0], math.sqrt(parameters[0])
    elif name == "NegativeBinomial":
        n, p = parameters
        mean, deviation = n * (1.0 - p) / p, math.sqrt(n * (1.0 - p)) / p
    elif name == "BetaBinomial":
        n, a, b = parameters
        mean = n * (a / (a + b))
        deviation = math.sqrt(mean * (b / (a + b)) * (a + b + n) / (a + b + 1.0))
    else:
        n, p = (1.0, parameters[0]) if name == "Bernoulli" else parameters
        mean, deviation = n * p, math.sqrt(n * p * (1.0 - p))
    around = [mean + deviation * z for z in (-2.0, 0.0, 1.0, 5.0)]
    return torch.tensor([0.0, 1.0, *around], dtype=torch.float64).clamp(0.0, LARGEST_COUNT)


def relative_error(got: float, wanted: Any) -> float:
    """Of a log-density, relative where that exceeds 1 nat; what overflows must be -inf."""
    if wanted < -OVERFLOW:
        return 0.0 if got < -1e299 else math.inf
    if not math.isfinite(got):
        return math.inf
    return float(abs(mp.mpf(got) - wanted) / max(1, abs(wanted)))


def worst_error(name: str, inside: int, corners: int, seed: int = 0) -> Worst:
    """The largest error of a distribution.

    Args:
        name: The distribution.
        inside: Sets of parameters within their ranges.
        corners: Most corners.
        seed: Seed of their choice.
    """
    worst = Worst(0.0, "", 0)
    for number, (case, got, wanted) in enumerate(_compared(name, inside, corners, seed), start=1):
        error = relative_error(got, wanted)
        worst = Worst(error, case, number) if error > worst.error else worst._replace(compared=number)
    return worst


def _compared(name: str, inside: int, corners: int, seed: int) -> Iterator[tuple[str, float, Any]]:
    with mp.workdps(DIGITS_OF_MATRICES if name in VECTORS else DIGITS):
        if name in VECTORS:
            yield from VECTORS[name](DISTRIBUTIONS[name], random.Random(f"{name} {seed}"), inside + corners)
            return
        for parameters in parameter_sets(DISTRIBUTIONS[name].entry, inside, corners, seed):
            for value in values_of(name, parameters, seed):
                tensors = [torch.tensor(p, dtype=torch.float64) for p in (value, *parameters)]
                got = float(DISTRIBUTIONS[name].log_prob(*tensors))
                wanted = _exact(name, value, parameters)
                if wanted is not None:
                    yield f"{name}{parameters} at {value}", got, wanted


def _exact(name: str, value: float, parameters: Sequence[float]) -> Any:
    """The log-density in 50 digits; `None` at the poles of a density and where it is 0."""
    try:
        found = EXACT[name](mp.mpf(value), *(mp.mpf(p) for p in parameters))
    except (ValueError, ZeroDivisionError):
        return None
    return found if isinstance(found, mp.mpf) and mp.isfinite(found) else None


NAMES = sorted({*EXACT, *VECTORS})

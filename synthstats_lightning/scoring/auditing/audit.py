"""The total probability that a program's evidence gives to all data sets of a small task: 1 if it is honest.

A score can be cheated only by a program whose evidence, summed or integrated over every data set that could
have been observed, is not 1 (Karwowski et al., arXiv 2603.24126). The audit evaluates the evidence that the
engine reports, not the density that it trusts, so it also checks the estimators. A prior that claims more
than it has is such a program too, but a total over few data sets may not show it, so the mass that the
densities of parameters claim is looked at as well, at exact draws from the prior.

Whatever is concluded is concluded from intervals. A total is a mean of weights that are not negative, so that
Markov's inequality bounds it from below however heavy their tails: an honest program's estimate is above 1000
once in a thousand audits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import stdtrit

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.auditing.strata import Coordinates, stratify
from synthstats_lightning.scoring.density.target import RowSubset
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.integration import integrate
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

PILOT_DRAWS = 65_536
"""Data sets simulated from the program, which say where its probability lies."""
ATOM_SHARE = 0.002
"""A value that more of them share is a point of positive probability."""
UNSCORED_FACTOR = 3.0
"""Upper end of how much of the probability lies on data sets without a score, over their share of draws."""
MOST_PATTERNS = 64
"""Ways in which rows may be at such points or not, however few data sets are scored."""
MOST_UNSCORED = 0.05
"""Share of data sets without a score beyond which an audit decides nothing."""
MOST_SECONDS = 3.0
"""Limit of one data set: those far from all simulated ones are hard to score and hold next to nothing."""
ROUNDING_ERROR = 1e-6
"""Of sums in floating point: added to the interval."""
WIDEST = math.e
"""An honest program's interval lies between one over it and it: within a nat of 1."""
PRIOR_DRAWS = 16
"""Exact prior draws at which the mass of the densities is looked at."""
MOST_CLAIMED = 0.02
"""Nats of mass above 1 that the quadrature of densities may err by."""
LARGEST_EXPONENT = 700.0
"""Beyond it a mass is infinite in double precision."""

Vector = Float[np.ndarray, " rows"]
Verdict = Literal["honest", "dishonest", "undecided"]


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Attributes:
        total_mass: Estimated total of exp(evidence) over all data sets.
        lower: Lower end of its confidence interval.
        upper: Upper end of its confidence interval.
        level: Confidence of the interval.
        method: `"sum"` over every data set, or `"importance"` sampling.
        rows: Rows of each data set.
        graph_rows: Rows of the task; those beyond `rows` were integrated out by the density.
        data_sets: Data sets that were scored.
        largest_evidence: Largest log evidence of one of them, in nats.
        unscored: Data sets that no estimator could score. The mass leaves them out (a program has nothing
            from a data set on which it fails) and the upper end adds what they may hold.
        unscored_share: Share of the program's simulated data sets that these stand for.
        message: Why the first of these has no score.
        claimed: Total mass that the densities of all random nodes claim together, where it is largest of some
            exact prior draws, as far as it is certain to be above 1; 1 if it is not.
        claimant: The random node that claims most of it, and its distribution; empty if none does.
    """

    total_mass: float
    lower: float
    upper: float
    level: float
    method: str
    rows: int
    graph_rows: int
    data_sets: int
    largest_evidence: float
    unscored: int = 0
    unscored_share: float = 0.0
    message: str = ""
    claimed: float = 1.0
    claimant: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the intervals decide.

        `"dishonest"` if the total cannot be 1, or a density claims more than 1; `"honest"` if the total is 1
        to within a nat; `"undecided"` if the interval is wider or many data sets have no score.
        """
        if self.claimed > 1.0 or self.lower > 1.0:
            return "dishonest"
        if self.unscored_share > MOST_UNSCORED:
            return "undecided"
        if self.upper < 1.0:
            return "dishonest"
        return "honest" if self.lower >= 1.0 / WIDEST and self.upper <= WIDEST else "undecided"

    @property
    def reason(self) -> str:
        """Why, in one line."""
        if self.claimed > 1.0:
            return f"the density of {self.claimant} claims {self.claimed:.3g} instead of 1"
        total = "more than double precision holds" if math.isinf(self.lower) else f"at least {self.lower:.3g}"
        if self.lower > 1.0:
            return f"the total is {total} instead of 1"
        if self.unscored_share > MOST_UNSCORED:
            return f"{self.unscored_share:.1%} of its data sets have no score: {self.message}"
        if self.upper < 1.0:
            return f"the total is at most {self.upper:.3g} instead of 1"
        if self.verdict == "undecided":
            return "the interval of the total reaches more than a nat from 1; more data sets narrow it"
        return "the total is 1 to within a nat"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, the verdict and why first; a number that is not finite as text."""
        fields = {
            name: value if not isinstance(value, float) or math.isfinite(value) else str(value)
            for name, value in asdict(self).items()
        }
        return {"verdict": self.verdict, "reason": self.reason, **fields}


def audit_graph(
    graph: ModelGraph,
    covariates: Mapping[str, NDArray[Any]],
    *,
    rows: int | None = None,
    rounding: float | None = None,
    data_sets: int = 256,
    level: float = 0.999,
    settings: EngineSettings | None = None,
) -> Audit:
    """Sums or integrates exp(evidence) over all data sets with the rows of a model graph.

    Deterministic: simulated data sets come from a seed of the canonical form, and each is scored as the
    engine scores it.

    Args:
        graph: A validated model graph of a small task: the work grows fast beyond two or three rows.
        covariates: Column name to values `[rows]`.
        rows: Leading rows whose data sets are audited, the other rows integrated out; all by default.
        rounding: Spacing of the values that the response was recorded to, if it was rounded.
        data_sets: About how many to score; every one of them if there are no more.
        level: Confidence of the interval, such that many audits rarely have one that misses 1 by chance.
        settings: How much work the engine spends on each data set, in `MOST_SECONDS` at most.

    Raises:
        ProgramFailure: `UNSUPPORTED` as from scoring, and for discrete latents without a largest value;
            `NON_FINITE` if the prior yields no data.
        ValueError: If `data_sets` or `level` is out of range.
    """
    if data_sets < 8:
        raise ValueError(f"data_sets must be at least 8, got {data_sets}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    canonical = canonicalise(graph)
    (graph_rows,) = canonical.shapes[canonical.response]
    rows = graph_rows if rows is None else rows
    if not 1 <= rows <= graph_rows:
        raise ValueError(f"rows must be from 1 to {graph_rows}, got {rows}")
    settings = settings or EngineSettings()
    settings = replace(settings, time_limit=min(settings.time_limit, MOST_SECONDS))
    evidence = _Evidence(canonical, covariates, rows, rounding, settings)
    generator = np.random.default_rng(graph_seed(canonical.to_json(), "audit"))
    density = evidence.density(np.zeros(rows))
    if density.fewer_counted is not None:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            "a discrete latent without a largest value is summed as far as a data set asks for, so that data"
            " sets do not share one model (what is left out of a sum can only lower its evidence)",
        )
    pilot = _simulate(density, generator)[:, :rows]
    spacing = 1.0 if evidence.discrete else rounding
    grid = None if spacing is None else _grid(pilot, spacing, data_sets)
    if grid is not None:
        total = _sum(evidence, grid)
    elif spacing is not None:
        total = _integrate(evidence, pilot, spacing, data_sets, generator)
    else:
        total = _integrate_with_atoms(evidence, pilot, data_sets, generator)
    claimed, claimant = _claimed(density, generator)
    half = ROUNDING_ERROR
    if total.variance:
        half += float(stdtrit(total.degrees or math.inf, 0.5 + level / 2)) * math.sqrt(total.variance)
    # infinite less infinite is nothing that is known, and Markov's bound is
    least = total.mass - half if math.isfinite(total.variance) else 0.0
    return Audit(
        total_mass=total.mass,
        lower=max(least, (1.0 - level) * total.mass),
        upper=total.mass + half + UNSCORED_FACTOR * total.unscored + total.unseen,
        level=level,
        method="importance" if total.degrees else "sum",
        rows=rows,
        graph_rows=graph_rows,
        data_sets=len(evidence.known),
        largest_evidence=max((score.log_evidence for score in evidence.known.values()), default=-math.inf),
        unscored=evidence.unscored,
        unscored_share=total.unscored,
        message=evidence.message,
        claimed=claimed,
        claimant=claimant,
    )


def _exp(exponent: float) -> float:
    """Infinite instead of an error beyond double precision."""
    return math.exp(exponent) if exponent < LARGEST_EXPONENT else math.inf


def _variance(mass: float, standard_error: float) -> float:
    """That of a mass whose logarithm has a standard error; infinite beyond double precision."""
    error = mass * standard_error if standard_error else 0.0
    return error * error


def _degrees(parts: list[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances with theirs, at least 1 (Welch 1947, second approximation).

    The square of an estimated variance is on average its square times `1 + 2 / degrees`.
    """
    largest = max(variance for variance, _ in parts)
    if not 0.0 < largest < math.inf:
        return 1.0
    shares = [(variance / largest, degrees) for variance, degrees in parts]
    squares = sum(share**2 / (degrees + 2.0) for share, degrees in shares)
    return max(sum(share for share, _ in shares) ** 2 / squares - 2.0, 1.0)


def _claimed(density: Density, generator: np.random.Generator) -> tuple[float, str]:
    """The most that the densities of all random nodes claim together at exact prior draws, and who does."""
    source = torch.Generator().manual_seed(int(generator.integers(2**62)))
    most, claimant = 0.0, ""
    for theta in density.sample_prior(PRIOR_DRAWS, source):
        masses = density.log_masses(theta[None], source)
        excess = sum(max(mass.excess, 0.0) for mass in masses)
        if excess > max(most, MOST_CLAIMED):
            worst = max(masses, key=lambda mass: mass.excess)
            most, claimant = excess, f"{worst.name} ({worst.law})"
    return _exp(most), claimant


class _Total(NamedTuple):
    """An estimated integral.

    Attributes:
        mass: The estimate of the total.
        variance: Its Monte-Carlo variance.
        degrees: Degrees of freedom of the variance; 0 for a sum, whose terms' errors are known.
        unscored: Share of the simulated data sets that those without a score stand for.
        unseen: Bound of the probability of values that were left out for want of simulated ones.
    """

    mass: float
    variance: float
    degrees: float = 0.0
    unscored: float = 0.0
    unseen: float = 0.0


class _Scored(NamedTuple):
    log_evidence: float
    standard_error: float = 0.0
    failed: bool = False


class _Evidence:
    """The engine's evidence of a model for any response, each computed once."""

    def __init__(
        self,
        graph: ModelGraph,
        covariates: Mapping[str, NDArray[Any]],
        rows: int,
        rounding: float | None,
        settings: EngineSettings,
    ) -> None:
        self.graph = graph
        self.covariates = covariates
        self.rounding = rounding
        self.settings = settings
        self.form = graph.to_json()
        self.discrete = graph.dtypes[graph.response] == "int64"
        self.rows = rows
        (self.graph_rows,) = graph.shapes[graph.response]
        self.known: dict[bytes, _Scored] = {}
        self.unscored = 0
        self.message = ""

    def density(self, response: Vector) -> Density:
        """The model's density with a response in its first rows."""
        return build_density(self.graph, self.covariates, self._whole(response), self.rounding)

    def _whole(self, response: Vector) -> NDArray[Any]:
        whole = np.zeros(self.graph_rows)
        whole[: self.rows] = response
        return whole.astype(np.int64 if self.discrete else np.float64)

    def __call__(self, response: Vector) -> _Scored:
        """Log evidence and its standard error; -inf where the response is impossible or has no score."""
        # adding 0 makes -0.0 and 0.0 one key
        key = (response + 0.0).tobytes()
        if key not in self.known:
            self.known[key] = self._score(response)
        return self.known[key]

    def _score(self, response: Vector) -> _Scored:
        if not np.isfinite(response).all() or (self.discrete and (np.abs(response) >= 2.0**53).any()):
            return _Scored(-math.inf)
        density = self.density(response)
        data = self._whole(response)
        fingerprint = data_fingerprint(self.covariates, data, rounding=self.rounding)
        generator = torch.Generator().manual_seed(graph_seed(self.form, fingerprint))
        try:
            whole = integrate(density)
            target = whole if self.rows == self.graph_rows else RowSubset(whole, self.rows)
            deadline = Deadline(self.settings.time_limit)
            particles = estimate_posterior(target, self.settings, generator, deadline).particles
        except ProgramFailure as failure:
            if failure.category is FailureCategory.NON_FINITE:  # an impossible data set
                return _Scored(-math.inf)
            self.unscored += 1
            self.message = self.message or failure.message
            return _Scored(-math.inf, failed=True)
        # of a response recorded to a spacing, the probability of its intervals
        log_width = self.rows * math.log(self.rounding or 1.0)
        return _Scored(particles.log_evidence + log_width, particles.log_evidence_se)


def _simulate(density: Density, generator: np.random.Generator) -> Float[np.ndarray, "draws rows"]:
    """Data sets from the prior predictive distribution."""
    source = torch.Generator().manual_seed(int(generator.integers(2**62)))
    theta = density.sample_prior(PILOT_DRAWS, source)
    draws: Float[np.ndarray, "draws rows"] = density.sample_response(theta, source, False).numpy()
    draws = draws[np.isfinite(draws).all(1)]
    if len(draws) < PILOT_DRAWS // 2:
        raise ProgramFailure(
            FailureCategory.NON_FINITE,
            f"only {len(draws)} of {PILOT_DRAWS} draws from the prior give a data set",
        )
    return draws


def _grid(
    pilot: Float[np.ndarray, "draws rows"], spacing: float, data_sets: int
) -> Float[np.ndarray, "grid rows"] | None:
    """Every data set on a lattice as wide as the simulated ones; `None` if these are too many."""
    low, high = np.rint(pilot.min() / spacing), np.rint(pilot.max() / spacing)
    rows = pilot.shape[1]
    side = math.floor(data_sets ** (1 / rows) + 1e-9)
    if high - low + 1 > side:
        return None
    # what can be afforded beyond the simulated ones, where there should be nothing
    margin = min((side - (high - low + 1)) // 2, 2)
    values = spacing * np.arange(low - margin, high + margin + 1)
    return np.array(list(itertools.product(values, repeat=rows)))


def _sum(evidence: _Evidence, grid: Float[np.ndarray, "grid rows"]) -> _Total:
    scores = [evidence(response) for response in grid]
    mass = [_exp(score.log_evidence) for score in scores]
    variance = sum(_variance(p, score.standard_error) for p, score in zip(mass, scores, strict=True))
    unscored = sum(score.failed for score in scores) / len(scores)
    return _Total(sum(mass), variance, unscored=unscored)


def _integrate(
    evidence: _Evidence,
    pilot: Float[np.ndarray, "draws rows"],
    spacing: float | None,
    data_sets: int,
    generator: np.random.Generator,
    fixed: Float[np.ndarray, " rows"] | None = None,
) -> _Total:
    """Stratified importance sampling, two draws a cell.

    A sum over a lattice is the integral of a function that is constant around each of its points.

    Args:
        evidence: What is integrated.
        pilot: Simulated data sets.
        spacing: Spacing of the lattice of possible values; `None` if there is none.
        data_sets: Draws to aim for.
        generator: Source of all randomness.
        fixed: Values of the rows that are not integrated over, NaN for those that are.
    """
    rows = np.arange(pilot.shape[1]) if fixed is None else np.flatnonzero(np.isnan(fixed))
    points = pilot[:, rows]
    if spacing is not None:
        points = points / spacing + generator.uniform(-0.5, 0.5, points.shape)
    coordinates = Coordinates(points)
    estimates, variances, failed = [], [], 0
    cells = stratify(coordinates.points, data_sets // 2)
    inner = len(cells) - 2 * len(rows)
    for number, cell in enumerate(cells):
        weights = []
        for _ in range(2):
            drawn, log_density = cell.draw(generator)
            point, log_volume = coordinates.backward(drawn)
            response = np.empty(pilot.shape[1]) if fixed is None else fixed.copy()
            response[rows] = point if spacing is None else spacing * np.rint(point)
            score = evidence(response)
            possible = score.log_evidence > -math.inf
            log_weight = score.log_evidence - log_density + log_volume if possible else -math.inf
            weights.append(_exp(log_weight))
            failed += score.failed and number < inner
        estimates.append(sum(weights) / 2)
        spread = weights[0] - weights[1] if max(weights) < math.inf else math.inf
        variances.append(spread * spread / 4 + _variance(estimates[-1], score.standard_error))
    variance = sum(variances)
    # a simulated data set without a score stands for as much probability as any other
    unscored = failed / (2 * inner) * len(pilot) / PILOT_DRAWS
    # every cell has one degree of freedom
    degrees = _degrees([(each, 1.0) for each in variances])
    return _Total(sum(estimates), variance, degrees, unscored)


def _integrate_with_atoms(
    evidence: _Evidence,
    pilot: Float[np.ndarray, "draws rows"],
    data_sets: int,
    generator: np.random.Generator,
) -> _Total:
    """A continuous response with values of positive probability: 0 in a hurdle, a censoring bound."""
    atoms = [_atoms(column) for column in pilot.T]
    if not any(len(found) for found in atoms):
        return _integrate(evidence, pilot, None, data_sets, generator)
    if math.prod(len(found) + 1 for found in atoms) > max(data_sets, MOST_PATTERNS):
        evidence.message = "simulated data sets have too many values of positive probability"
        return _Total(0.0, 0.0, unscored=1.0)
    totals = []
    unseen = 0.0
    for pattern in itertools.product(*([math.nan, *found] for found in atoms)):
        fixed = np.array(pattern)
        free = np.isnan(fixed)
        members = np.ones(len(pilot), dtype=bool)
        for row, found in enumerate(atoms):
            on_atom = np.isin(pilot[:, row], found)
            members &= ~on_atom if free[row] else pilot[:, row] == fixed[row]
        share = float(members.mean())
        if not free.any():
            score = evidence(fixed)
            mass = _exp(score.log_evidence)
            variance = _variance(mass, score.standard_error)
            totals.append(_Total(mass, variance, unscored=share * score.failed))
        elif members.sum() >= 4 * 2 ** int(free.sum()):
            budget = max(8, round(data_sets * share))
            totals.append(
                _integrate(
                    evidence, pilot[members], None, min(budget, int(members.sum()) // 2), generator, fixed
                )
            )
        else:
            unseen += (float(members.sum()) + 8.0) / len(pilot)
    sampled = [(total.variance, total.degrees) for total in totals if total.degrees]
    return _Total(
        mass=sum(total.mass for total in totals),
        variance=sum(total.variance for total in totals),
        degrees=_degrees(sampled) if sampled else math.inf,
        unscored=math.fsum(total.unscored for total in totals),
        unseen=unseen,
    )


def _atoms(column: Float[np.ndarray, " draws"]) -> Float[np.ndarray, " atoms"]:
    values, counts = np.unique(column, return_counts=True)
    found: Float[np.ndarray, " atoms"] = values[counts > max(1, ATOM_SHARE * len(column))]
    return found

"""The posterior of a simulator's latents given the experiments so far, in NumPy."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from synthstats_lightning.evaluation.information_gain import Columns, ResponseModel
from synthstats_lightning.metrics.importance import effective_sample_size

Values = NDArray[np.float64]

SMALLEST_SHARE = 0.5
"""Effective sample size over particles below which they are drawn anew and moved."""
TARGET_ACCEPTANCE = 0.25
"""Of random-walk moves (Roberts, Gelman and Gilks 1997: 0.234 in many dimensions)."""
BISECTIONS = 30
FIXED_PRIOR_DRAWS = 200_000
"""Particles where latents depend on each other a priori: they are weighted and never moved."""


class ImpossibleResponseError(ValueError):
    """No draw of the latents deems an observed response possible: the environment has no noise."""


@runtime_checkable
class LatentModel(ResponseModel, Protocol):
    """A response model with a prior that can be drawn from: what a `Simulator` is."""

    def sample_latents(self, rng: np.random.Generator, size: int) -> dict[str, NDArray[Any]]:
        """Prior draws, with a leading axis `size`."""
        ...


class LatentParticles:
    """Weighted draws of latents given a growing set of experiments: iterated batch importance sampling.

    Each experiment reweights the particles, in several steps where it tells a lot; where too few are left,
    they are drawn anew and moved by random-walk Metropolis (Chopin 2002; Del Moral, Doucet and Jasra 2006).
    Moves are made in coordinates in which the prior is standard normal: each number's own rank among prior
    draws, as a normal quantile. That is the prior where the numbers are independent a priori, which
    `independent` says; otherwise a larger prior sample is only reweighted. Whole numbers among the latents,
    such as a table of responses drawn beforehand, are left out: the likelihood must not need them.

    Args:
        model: The joint law of latents and responses.
        rng: Source of all randomness.
        particles: How many are moved.
        prior_draws: Prior draws that the coordinates are made of.
        moves: Metropolis moves after each resampling.
        independent: Whether all numbers of the latents are independent a priori.

    Raises:
        ValueError: If a number is below 2.
    """

    def __init__(
        self,
        model: LatentModel,
        rng: np.random.Generator,
        *,
        particles: int = 2000,
        prior_draws: int = 20_000,
        moves: int = 12,
        independent: bool = True,
    ) -> None:
        for name, value in {"particles": particles, "prior_draws": prior_draws, "moves": moves}.items():
            if value < 2:
                raise ValueError(f"{name} must be at least 2, got {value}")
        self.model = model
        self.rng = rng
        self.moves = moves
        self.independent = independent
        self.scale = 1.0
        self._rows: list[dict[str, NDArray[Any]]] = []
        self._responses: list[NDArray[Any]] = []
        if independent:
            draws = model.sample_latents(rng, prior_draws)
            real = {name: v for name, v in draws.items() if np.issubdtype(v.dtype, np.floating)}
            self._shapes = {name: np.shape(values)[1:] for name, values in real.items()}
            self._table = np.sort(_flat(real), axis=0)
            self._z = rng.standard_normal((particles, self._table.shape[1]))
            self._latents = self._natural(self._z)
        else:
            self._latents = model.sample_latents(rng, FIXED_PRIOR_DRAWS)
        self.log_weight = np.zeros(self.size)

    @property
    def size(self) -> int:
        """Particles."""
        return len(next(iter(self._latents.values())))

    @property
    def effective_sample_size(self) -> float:
        """Kish's effective sample size of the weights."""
        return effective_sample_size(self.log_weight)

    def update(self, covariates: Columns, response: NDArray[Any]) -> None:
        """Takes in the rows of one experiment.

        Args:
            covariates: Column name to values `[rows]`.
            response: Observed responses `[rows]`.

        Raises:
            ImpossibleResponseError: If no particle deems the response possible.
        """
        self._rows.append({name: np.asarray(values) for name, values in covariates.items()})
        self._responses.append(np.asarray(response))
        new = self._log_likelihood(self._latents, len(self._rows) - 1)
        if not np.isfinite((self.log_weight + new).max()):
            raise ImpossibleResponseError("no draw of the latents deems the observed response possible")
        done = 0.0
        while done < 1.0:
            step = self._step(new, 1.0 - done) if self.independent else 1.0
            self.log_weight = self.log_weight + step * np.maximum(new, -1e300)
            done = 1.0 if step >= 1.0 - done else done + step
            if self.independent and self.effective_sample_size < SMALLEST_SHARE * self.size * 1.01:
                self._resample_and_move(done)
                new = self._log_likelihood(self._latents, len(self._rows) - 1)

    def draw(self, size: int) -> dict[str, NDArray[Any]]:
        """Draws from the posterior, with a leading axis `size` and in random order.

        Args:
            size: How many; beyond the number of particles they repeat.
        """
        index = self.rng.permutation(self._resampled(size))
        return {name: values[index] for name, values in self._latents.items()}

    def _step(self, new: Values, most: float) -> float:
        """The largest step that keeps the effective sample size, by bisection."""

        def enough(step: float) -> bool:
            weight = self.log_weight + step * np.maximum(new, -1e300)
            return effective_sample_size(weight) >= SMALLEST_SHARE * self.size

        if enough(most):
            return most
        low, high = 0.0, most
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if enough(middle) else (low, middle)
        return max(low, 1e-6 * most)

    def _resample_and_move(self, share: float) -> None:
        """New particles of equal weight, moved with the share of the newest experiment that counts."""
        index = self._resampled(self.size)
        z = self._z[index]
        latents = {name: values[index] for name, values in self._latents.items()}
        density = self._tempered(latents, share) - 0.5 * np.square(z).sum(1)
        dimension = z.shape[1]
        covariance = np.cov(z, rowvar=False).reshape(dimension, dimension) + 1e-10 * np.eye(dimension)
        factor = np.linalg.cholesky(covariance) * 2.38 / np.sqrt(dimension)
        for _ in range(self.moves):
            proposed = z + self.scale * self.rng.standard_normal(z.shape) @ factor.T
            candidates = self._natural(proposed)
            there = self._tempered(candidates, share) - 0.5 * np.square(proposed).sum(1)
            accepted = np.log(self.rng.random(len(z))) < there - density
            z = np.where(accepted[:, None], proposed, z)
            density = np.where(accepted, there, density)
            self.scale = float(np.clip(self.scale * np.exp(accepted.mean() - TARGET_ACCEPTANCE), 0.05, 3.0))
        self._z, self._latents = z, self._natural(z)
        self.log_weight = np.zeros(len(z))

    def _tempered(self, latents: dict[str, NDArray[Any]], share: float) -> Values:
        """Log-likelihood of all experiments, of the newest one only a share."""
        columns = {name: np.concatenate([rows[name] for rows in self._rows]) for name in self._rows[0]}
        rows = self.model.log_likelihood(latents, columns, np.concatenate(self._responses))
        weight = np.ones(rows.shape[1])
        weight[-len(self._responses[-1]) :] = share
        total: Values = np.maximum(np.nan_to_num(rows, nan=-np.inf), -1e300) @ weight
        return total

    def _log_likelihood(self, latents: dict[str, NDArray[Any]], experiment: int) -> Values:
        return self._sum(
            self.model.log_likelihood(latents, self._rows[experiment], self._responses[experiment])
        )

    @staticmethod
    def _sum(log_likelihood: Values) -> Values:
        total: Values = np.nan_to_num(log_likelihood, nan=-np.inf, neginf=-np.inf).sum(1)
        return total

    def _natural(self, z: Values) -> dict[str, NDArray[Any]]:
        """Latents at coordinates: quantiles of each number's prior draws."""
        positions = (np.arange(len(self._table)) + 0.5) / len(self._table)
        levels = ndtr(z)
        flat = np.stack(
            [np.interp(levels[:, k], positions, self._table[:, k]) for k in range(z.shape[1])], axis=1
        )
        latents: dict[str, NDArray[Any]] = {}
        start = 0
        for name, shape in self._shapes.items():
            count = int(np.prod(shape))
            latents[name] = flat[:, start : start + count].reshape(len(z), *shape)
            start += count
        return latents

    def _resampled(self, size: int) -> NDArray[np.int64]:
        """Systematic resampling."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        points = (np.arange(size) + self.rng.random()) / size
        index = np.searchsorted(np.cumsum(weight) / weight.sum(), points)
        return np.minimum(index, self.size - 1).astype(np.int64)


def _flat(latents: dict[str, NDArray[Any]]) -> Values:
    """Every number of the latents as a column `[size, numbers]`."""
    size = len(next(iter(latents.values())))
    return np.concatenate([np.asarray(v, dtype=np.float64).reshape(size, -1) for v in latents.values()], 1)

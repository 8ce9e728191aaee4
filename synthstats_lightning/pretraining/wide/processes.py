"""Gaussian processes on a basis, as PyMC's `HSGP` has them, drawn in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Numbers = np.ndarray[tuple[int, ...], np.dtype[Any]]


@dataclass(frozen=True)
class Covariance:
    """A squared exponential covariance.

    Attributes:
        variance: Its value at distance zero.
        ls: Its length scale.
    """

    variance: Any
    ls: Any
    __array_ufunc__ = None  # so that a NumPy number leaves the product to this class

    def __rmul__(self, factor: Any) -> Covariance:
        return Covariance(self.variance * factor, self.ls)


class HSGP(NamedTuple):
    """A Gaussian process of one covariate, as a sum of sines.

    Attributes:
        generator: Source of the draws.
        m: How many sines there are.
        c: Half the width of the interval over that of the covariate.
        covariance: The process's covariance.
    """

    generator: np.random.Generator
    m: int
    c: float
    covariance: Covariance

    def prior(self, name: str, X: Numbers) -> Floats:
        """A draw of the process.

        Args:
            name: Name of the random variable.
            X: Covariate of shape `[rows, 1]`.
        """
        values = np.asarray(X, np.float64)[:, 0]
        middle = (values.max() + values.min()) / 2
        half = self.c * float(np.abs(values - middle).max())
        roots = np.arange(1, self.m + 1) * np.pi / (2 * half)
        basis = np.sin(roots * (values - middle + half)[:, None]) / np.sqrt(half)
        ls = self.covariance.ls
        density = self.covariance.variance * np.sqrt(2 * np.pi) * ls * np.exp(-0.5 * (ls * roots) ** 2)
        drawn: Floats = basis @ (np.sqrt(density) * self.generator.standard_normal(self.m))
        return drawn

"""Random variables that PyMC parametrises by matrices: correlations, neighbours, Kronecker products."""

from __future__ import annotations

from functools import reduce
from typing import Any, NoReturn

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk
from synthstats_lightning.sandbox.inside.extraction.vectors import Part, batch_shape, single


def correlation_part(walk: Walk, variable: Any) -> Part:
    """Correlations above the diagonal, as PyMC 5 has them."""
    size, rows, eta = _lkj(walk, variable)
    if variable.ndim != 1 or size:
        _unsupported("several LKJCorr in one variable: give each a variable of its own")
    return Part(Law("LKJCorr"), [eta], (rows * (rows - 1) // 2,))


def correlation_factor_part(walk: Walk, variable: Any) -> Part:
    """Cholesky factors of correlation matrices, as PyMC 6 has them."""
    size, rows, eta = _lkj(walk, variable)
    return Part(Law("LKJCorrCholesky"), [eta], (*size, rows, rows))


def _lkj(walk: Walk, variable: Any) -> tuple[Shape, int, Entry]:
    _, (n, eta) = adapter.random_inputs(variable)
    rows = int(walk.known(n).reshape(-1)[0])
    if rows < 2:
        _unsupported(f"an LKJCorr of {rows} rows")
    return batch_shape(walk, variable), rows, single(walk, walk.entry(eta))


def field_part(walk: Walk, variable: Any) -> Part:
    """A conditional autoregression over neighbours."""
    _, (mu, weights, alpha, tau) = adapter.random_inputs(variable)
    matrix = _neighbours(walk, weights)
    length = matrix.shape[-1]
    mean = walk.entry(mu)
    if mean.shape[-1:] not in ((1,), (length,)):
        _bad_graph(f"a CAR of {length} entries with a mean of shape {mean.shape}")
    size = batch_shape(walk, variable)
    entries = [mean, matrix, single(walk, walk.entry(alpha)), single(walk, walk.entry(tau))]
    return Part(Law("CAR"), entries, (*(size or mean.shape[:-1]), length))


def intrinsic_part(walk: Walk, variable: Any) -> Part:
    """An intrinsic conditional autoregression over neighbours."""
    _, (weights, sigma, zero_sum_stdev) = adapter.random_inputs(variable)
    matrix = _neighbours(walk, weights)
    entries = [matrix, single(walk, walk.entry(sigma)), single(walk, walk.entry(zero_sum_stdev))]
    return Part(Law("ICAR"), entries, (*batch_shape(walk, variable), matrix.shape[-1]))


def kronecker_part(walk: Walk, variable: Any) -> Part:
    """A normal vector whose covariance is a Kronecker product, with independent noise."""
    _, (mu, sigma, *covs) = adapter.random_inputs(variable)
    matrices = [walk.entry(part) for part in covs]
    if any(len(matrix.shape) != 2 for matrix in matrices):
        _unsupported("a KroneckerNormal of several covariances at once")
    covariance = reduce(lambda left, right: _kronecker(walk, left, right), matrices)
    scale = single(walk, walk.entry(sigma))
    if scale.value is None or scale.value.item() != 0.0:
        identity = walk.builder.constant(np.eye(covariance.shape[-1]))
        noise = walk.builder.apply("mul", walk.builder.apply("square", scale), identity)
        covariance = walk.builder.apply("add", covariance, noise)
    mean = walk.entry(mu)
    size = batch_shape(walk, variable)
    return Part(Law("MvNormal"), [mean, covariance], (*(size or mean.shape[:-1]), covariance.shape[-1]))


def matrix_part(walk: Walk, variable: Any) -> Part:
    """A normal matrix."""
    _, parameters = adapter.random_inputs(variable)
    entries = [walk.entry(part) for part in parameters]
    _, rows, columns = entries
    batch = batch_shape(walk, variable)
    return Part(Law("MatrixNormal"), entries, (*batch, rows.shape[-1], columns.shape[-1]))


def wishart_part(walk: Walk, variable: Any) -> Part:
    """A positive definite matrix; PyMC 5 has its scale as a parameter, PyMC 6 the scale's Cholesky factor."""
    _, (nu, scale) = adapter.random_inputs(variable)
    factor = walk.entry(scale)
    if not adapter.takes_factor(variable.owner.op):
        if len(factor.shape) != 2:
            _unsupported("a Wishart of several scales at once")
        factor = walk.builder.apply("cholesky", factor)
    return Part(
        Law("Wishart"),
        [single(walk, walk.entry(nu)), factor],
        (*(batch_shape(walk, variable) or factor.shape[:-2]), *factor.shape[-2:]),
    )


MATRICES = {
    "LKJCorr": correlation_part,
    "LKJCorrCholesky": correlation_factor_part,
    "CAR": field_part,
    "ICAR": intrinsic_part,
    "KroneckerNormal": kronecker_part,
    "MatrixNormal": matrix_part,
    "Wishart": wishart_part,
}
"""How to read each of them."""


def _kronecker(walk: Walk, left: Entry, right: Entry) -> Entry:
    outer = walk.builder.apply("transpose", left, order=[0, "x", 1, "x"])
    inner = walk.builder.apply("transpose", right, order=["x", 0, "x", 1])
    product = walk.builder.apply("mul", outer, inner)
    rows, columns = (left.shape[axis] * right.shape[axis] for axis in (0, 1))
    return walk.builder.apply("reshape", product, shape=[rows, columns])


def _neighbours(walk: Walk, weights: Any) -> Entry:
    matrix = walk.entry(weights)
    if matrix.value is None:
        _unsupported("neighbours that depend on a random variable")
    value = matrix.value.reshape(matrix.shape[-2:]) if matrix.value.ndim > 2 else matrix.value
    if value.ndim != 2 or value.shape[0] != value.shape[1] or not np.allclose(value, value.T):
        _bad_graph("neighbours that are not a symmetric matrix")
    return walk.builder.constant(value)


def _unsupported(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)


def _bad_graph(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.BAD_GRAPH, what)

"""Linear algebra and sorting of the graph language in torch, in the padded batch layout.

A matrix without a factor or an inverse gives NaN for its particle, with gradients of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from synthstats_lightning.scoring.density.structural import Function, Layout, unpadded
from synthstats_lightning.scoring.distributions.gaussian import cholesky_factor


def _of_matrix(function: Callable[[Tensor], Tensor]) -> Callable[[Layout], Function]:
    def build(layout: Layout) -> Function:
        (shape,), padded = layout.inputs, layout.padded
        return lambda x: function(unpadded(x, shape)).reshape(x.shape[0], *padded)

    return build


def _cholesky(matrix: Tensor) -> Tensor:
    lower, exists = cholesky_factor(matrix.tril() + matrix.tril(-1).mT)
    return torch.where(exists[..., None, None], lower, torch.nan)


def _regular(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices with the identity in place of those that have no inverse, and which have one."""
    with torch.no_grad():
        finite = matrix.isfinite().all(-1).all(-1)
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
        tried = torch.where(finite[..., None, None], matrix, identity)
        exists = finite & (torch.linalg.lu_factor_ex(tried).info == 0)
    return torch.where(exists[..., None, None], matrix, identity), exists


def _inverse(matrix: Tensor) -> Tensor:
    safe, exists = _regular(matrix)
    return torch.where(exists[..., None, None], torch.linalg.inv(safe), torch.nan)


def _determinant(matrix: Tensor) -> Tensor:
    finite = matrix.isfinite().all(-1).all(-1)
    safe = torch.where(finite[..., None, None], matrix, torch.eye(matrix.shape[-1], dtype=matrix.dtype))
    return torch.where(finite, torch.linalg.det(safe), torch.nan)


def _log_determinant(matrix: Tensor) -> Tensor:
    safe, exists = _regular(matrix)
    return torch.where(exists, torch.linalg.slogdet(safe).logabsdet, -torch.inf)


def _solving(solve: Callable[[Layout], Callable[[Tensor, Tensor], Tensor]]) -> Callable[[Layout], Function]:
    def build(layout: Layout) -> Function:
        matrix_shape, right_shape = layout.inputs
        padded, function = layout.padded, solve(layout)
        columns = (*right_shape, 1) if len(right_shape) == 1 else right_shape

        def apply(matrix: Tensor, right: Tensor) -> Tensor:
            right = right.reshape(right.shape[0], *columns)
            result = function(unpadded(matrix, matrix_shape), right)
            return result.reshape(result.shape[0], *padded)

        return apply

    return build


def _general(layout: Layout) -> Callable[[Tensor, Tensor], Tensor]:
    def apply(matrix: Tensor, right: Tensor) -> Tensor:
        safe, exists = _regular(matrix)
        return torch.where(exists[..., None, None], torch.linalg.solve(safe, right), torch.nan)

    return apply


def _triangular(layout: Layout) -> Callable[[Tensor, Tensor], Tensor]:
    upper = not layout.attributes["lower"]

    def apply(matrix: Tensor, right: Tensor) -> Tensor:
        with torch.no_grad():
            on_diagonal = matrix.diagonal(dim1=-2, dim2=-1)
            exists = (on_diagonal != 0).all(-1) & matrix.isfinite().all(-1).all(-1)
            identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
        safe = torch.where(exists[..., None, None], matrix, identity)
        result = torch.linalg.solve_triangular(safe, right, upper=upper)
        return torch.where(exists[..., None, None], result, torch.nan)

    return apply


def _sort(layout: Layout) -> Function:
    (dim,) = layout.dims([layout.attributes["axis"]])
    return lambda x: torch.sort(x, dim).values


MATRICES: Mapping[str, Callable[[Layout], Function]] = MappingProxyType(
    {
        "cholesky": _of_matrix(_cholesky),
        "inverse": _of_matrix(_inverse),
        "determinant": _of_matrix(_determinant),
        "log_determinant": _of_matrix(_log_determinant),
        "solve": _solving(_general),
        "solve_triangular": _solving(_triangular),
        "sort": _sort,
    }
)
"""Operation name to what makes its function from the shapes it works between."""

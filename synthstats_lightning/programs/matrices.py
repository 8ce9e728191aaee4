"""Linear algebra and sorting of the graph language: shape rules and numpy evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from synthstats_lightning.programs.shapes import Attributes, Shape, single_axis

Array = npt.NDArray[Any]

MATRIX_OPERATIONS = ("cholesky", "inverse", "determinant", "log_determinant", "solve", "solve_triangular")
"""Operations on a square matrix, their first input, whose cost grows with the cube of its rows."""


def square(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Shape of what is as large as a square matrix."""
    shape = shapes[0]
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise ValueError("the operation takes one square matrix")
    return shape


def single_number(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Shape of one number for a square matrix."""
    square(shapes, attributes)
    return ()


def solution(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Shape of the solution of linear equations: that of the right-hand side, a vector or a matrix."""
    matrix, right = square(shapes, attributes), shapes[1]
    if len(right) not in (1, 2) or right[0] != matrix[0]:
        raise ValueError("the right-hand side has not as many rows as the matrix")
    return right


def triangular_solution(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The same for a triangular matrix, of which the other triangle is not read."""
    if not isinstance(attributes["lower"], bool):
        raise ValueError("lower is neither true nor false")
    return solution(shapes, attributes)


def along_axis(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Shape of what rearranges a tensor along one axis."""
    single_axis(attributes, len(shapes[0]))
    return shapes[0]


def or_nan(function: Callable[..., Any], *inputs: Array) -> Array:
    """A function's value; NaN, in the shape of the last input, where a matrix has no factor or inverse."""
    try:
        return np.asarray(function(*inputs))
    except np.linalg.LinAlgError:
        return np.full(inputs[-1].shape, np.nan)


def solve_triangular(matrix: Array, right: Array, lower: bool) -> Array:
    """Solution of equations whose matrix is one triangle of `matrix`."""
    return or_nan(np.linalg.solve, np.tril(matrix) if lower else np.triu(matrix), right)


def cholesky(matrix: Array) -> Array:
    """Lower Cholesky factor, of the lower triangle alone."""
    return or_nan(np.linalg.cholesky, np.tril(matrix) + np.tril(matrix, -1).T)


EVALUATIONS: dict[str, Callable[[Sequence[Array], Attributes], Any]] = {
    "cholesky": lambda inputs, attributes: cholesky(inputs[0]),
    "inverse": lambda inputs, attributes: or_nan(np.linalg.inv, inputs[0]),
    "determinant": lambda inputs, attributes: np.linalg.det(inputs[0]),
    "log_determinant": lambda inputs, attributes: np.linalg.slogdet(inputs[0])[1],
    "solve": lambda inputs, attributes: or_nan(np.linalg.solve, *inputs),
    "solve_triangular": lambda inputs, attributes: solve_triangular(
        inputs[0], inputs[1], attributes["lower"]
    ),
}
"""Values in numpy; NaN where there are none."""

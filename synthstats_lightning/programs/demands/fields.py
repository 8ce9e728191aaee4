"""What validation demands of matrices, of totals, and of normal vectors on a graph of neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import Node
from synthstats_lightning.programs.shapes import Shape

_OF_COLUMNS = frozenset({"covariate", "index", "sum", "max", "min", "cast", "reshape", "transpose"})


def check_intrinsic(inputs: Sequence[int], nodes: Sequence[Node]) -> None:
    """An intrinsic conditional autoregression whose density is normalised and PyMC's.

    Args:
        inputs: The neighbours, the scale and the scale of the sum, as node indices.
        nodes: The nodes before it.

    Raises:
        ProgramFailure: `UNSUPPORTED` if the scales are not constants (PyMC leaves out the part of the
            normaliser that they enter), or the neighbours are not one connected, symmetric matrix of zeros
            and ones.
    """
    weights, *scales = (nodes[index] for index in inputs)
    if any(node.op != "constant" for node in scales):
        _unsupported(
            "an ICAR whose sigma or zero_sum_stdev is not constant: PyMC's density leaves out its normaliser,"
            " which they enter (multiply an ICAR of sigma 1 by the scale instead)"
        )
    if weights.op != "constant":
        _unsupported("an ICAR whose neighbours are not constants")
    matrix = constant_array(weights)
    if matrix.ndim != 2 or not np.isin(matrix, (0, 1)).all() or (matrix != matrix.T).any():
        _unsupported("an ICAR whose neighbours are not one symmetric matrix of zeros and ones")
    if not is_connected(matrix.astype(np.int64)):
        _unsupported("an ICAR of neighbours that are not connected, which is improper")


def check_total(total: int, nodes: Sequence[Node]) -> None:
    """The total of a multinomial vector is part of the data that a program is given.

    With the total every row of the response is known from the others, so that leave-one-out is perfect. A
    program may have it where a column says it, and not as a number that it has found out.

    Args:
        total: Index of the total's node.
        nodes: The nodes before the vector.

    Raises:
        ProgramFailure: `UNSUPPORTED` if the total is anything but an entry or the sum of a column.
    """
    pending = [total]
    while pending:
        node = nodes[pending.pop()]
        if node.op not in _OF_COLUMNS:
            _unsupported(
                "a Multinomial whose total is not read from a column: each row would follow from the others"
            )
        pending += node.inputs


def check_matrix(law: Mapping[str, Any], inputs: Sequence[int], shapes: Sequence[Shape]) -> None:
    """Correlation matrices and normal matrices have the shapes that they must have.

    Args:
        law: The node's attributes, its shape among them.
        inputs: The node's inputs.
        shapes: Shapes of the nodes before it.

    Raises:
        ValueError: If a shape is not that of a matrix, or not that of the parameters.
    """
    name, shape = law["distribution"], law["shape"]
    if name == "LKJCorr":
        rows = (math.isqrt(8 * shape[-1] + 1) + 1) // 2
        if rows * (rows - 1) // 2 != shape[-1]:
            raise ValueError(f"{shape[-1]} correlations, which fill no matrix")
    elif name == "LKJCorrCholesky":
        if shape[-1] != shape[-2] or shape[-1] < 2:
            raise ValueError("a factor of correlations that is not square, or of fewer than two rows")
    elif name == "Wishart":
        if len({*shape[-2:], *shapes[inputs[1]][-2:]}) > 1:
            raise ValueError("a Wishart whose scale is not of its shape, or not square")
    else:
        wanted = ((shape[-2], shape[-1]), (shape[-2],) * 2, (shape[-1],) * 2)
        if any(shapes[index][-2:] != each for index, each in zip(inputs, wanted, strict=True)):
            raise ValueError("a MatrixNormal whose mean and factors are not of its shape")


def is_connected(neighbours: NDArray[np.int64]) -> bool:
    """Whether every node can be reached from the first.

    Args:
        neighbours: Symmetric matrix, not zero where two nodes are neighbours.
    """
    reached = np.zeros(len(neighbours), dtype=bool)
    pending = [0]
    while pending:
        node = pending.pop()
        if not reached[node]:
            reached[node] = True
            pending += np.flatnonzero(neighbours[node]).tolist()
    return bool(reached.all())


def _unsupported(message: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, message)

"""The operations a model graph may name: arity, attributes, shape and dtype rule, numpy evaluation.

The table is the single source of truth for extraction (which names exist), validation (shapes before
allocation), constant folding (numpy) and the density (which must give the same numbers in torch). dtypes
are `"bool"`, `"int64"` and `"float64"` only; narrower PyTensor integers are `"int64"` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.special

from synthstats_lightning.programs import matrices, special
from synthstats_lightning.programs.shapes import (
    DTYPES,
    MAX_NDIM,
    Attributes,
    Shape,
    broadcast,
    broadcast_to,
    concatenated,
    index_entries,
    indexed,
    matmul,
    promote,
    reduced,
    reshaped,
    single_axis,
    stacked,
    taken,
    transposed,
)
from synthstats_lightning.programs.special import Array

ShapeRule = Callable[[Sequence[Shape], Attributes], Shape]
DtypeRule = Callable[[Sequence[str], Attributes], str]
Evaluation = Callable[[Sequence[Array], Attributes], Any]

MAX_INPUTS = 1000
"""Most inputs of an n-ary operation."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the graph language.

    Inputs of n-ary operations are promoted to the result's dtype before anything is computed.

    Attributes:
        name: Name in the graph.
        arity: Fewest and most inputs.
        attributes: Names of the attributes it needs, all of them.
        shape_rule: Inputs' shapes and attributes to the result's shape.
        dtype_rule: Inputs' dtypes and attributes to the result's dtype.
        evaluation: Inputs as numpy arrays and attributes to the result.
        commutative: Whether the order of inputs does not matter.
        elementwise: Whether inputs broadcast and the operation acts on each element.
        always_float: Whether inputs are read as float64 whatever their dtype.
    """

    name: str
    arity: tuple[int, int]
    attributes: tuple[str, ...]
    shape_rule: ShapeRule
    dtype_rule: DtypeRule
    evaluation: Evaluation
    commutative: bool = False
    elementwise: bool = False
    always_float: bool = False

    def infer(
        self, shapes: Sequence[Shape], dtypes: Sequence[str], attributes: Attributes
    ) -> tuple[Shape, str]:
        """Shape and dtype of the result.

        Args:
            shapes: Shape of each input.
            dtypes: dtype of each input.
            attributes: The node's attributes (hostile values are fine).

        Returns:
            The result's shape and dtype.

        Raises:
            ValueError: If arity, attributes, shapes or dtypes do not fit; one line.
        """
        fewest, most = self.arity
        if not fewest <= len(shapes) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise ValueError(f"{self.name} takes {wanted} inputs, not {len(shapes)}")
        if set(attributes) != set(self.attributes):
            raise ValueError(
                f"{self.name} takes the attributes {list(self.attributes)}, no fewer and no more"
            )
        shape = self.shape_rule(shapes, attributes)
        if len(shape) > MAX_NDIM:
            raise ValueError(f"{self.name} yields {len(shape)} axes, more than {MAX_NDIM}")
        return shape, self.dtype_rule(dtypes, attributes)

    def evaluate(self, inputs: Sequence[Array], attributes: Attributes) -> Array:
        """The result in numpy, in the dtype that the table promises.

        Args:
            inputs: One array per input, of dtype bool, int64 or float64.
            attributes: The node's attributes, already validated by `infer`.

        Returns:
            The result; non-finite values are possible and do not warn.

        Raises:
            ValueError, IndexError, OverflowError: Where numpy does (integer to a negative power, `take`
                outside the axis, a cast of a non-finite or huge float to an integer).
        """
        dtype = self.dtype_rule([str(array.dtype) for array in inputs], attributes)
        if self.always_float or self.arity[1] == MAX_INPUTS:
            # an n-ary result must not depend on the order of inputs: True + True + 1 is 3 in any order
            inputs = [array.astype(dtype) for array in inputs]
        with np.errstate(all="ignore"):
            return np.asarray(self.evaluation(inputs, attributes)).astype(dtype)


# --- dtype rules -------------------------------------------------------------------------------------


def _float(dtypes: Sequence[str], attributes: Attributes) -> str:
    return "float64"


def _bool(dtypes: Sequence[str], attributes: Attributes) -> str:
    return "bool"


def _promoted(dtypes: Sequence[str], attributes: Attributes) -> str:
    return promote(dtypes)


def _no_bool(dtypes: Sequence[str], attributes: Attributes) -> str:
    dtype = promote(dtypes)
    if dtype == "bool":
        raise ValueError("the operation is not defined between booleans")
    return dtype


def _at_least_int(dtypes: Sequence[str], attributes: Attributes) -> str:
    return promote([*dtypes, "int64"])


def _integral(dtypes: Sequence[str], attributes: Attributes) -> str:
    dtype = promote(dtypes)
    if dtype == "float64":
        raise ValueError("the operation is not defined for floating-point numbers")
    return dtype


def _switch_dtype(dtypes: Sequence[str], attributes: Attributes) -> str:
    return promote(dtypes[1:])


def _take_dtype(dtypes: Sequence[str], attributes: Attributes) -> str:
    if dtypes[1] != "int64":
        raise ValueError("take needs int64 positions")
    return dtypes[0]


def _cast_dtype(dtypes: Sequence[str], attributes: Attributes) -> str:
    dtype = attributes["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"dtype is not one of {list(DTYPES)}")
    return dtype


# --- table -------------------------------------------------------------------------------------------


def _elementwise(
    name: str,
    dtype_rule: DtypeRule,
    function: Callable[..., Any],
    arity: int = 1,
    *,
    most: int | None = None,
    commutative: bool = False,
) -> Operation:
    def evaluation(inputs: Sequence[Array], attributes: Attributes) -> Any:
        result = function(*inputs[:arity])
        for extra in inputs[arity:]:
            result = function(result, extra)
        return result

    return Operation(
        name,
        (arity, most or arity),
        (),
        lambda shapes, attributes: broadcast(shapes),
        dtype_rule,
        evaluation,
        commutative=commutative,
        elementwise=True,
        always_float=dtype_rule is _float,
    )


def _reduction(
    name: str, dtype_rule: DtypeRule, function: Callable[..., Any], *, needs_elements: bool = False
) -> Operation:
    return Operation(
        name,
        (1, 1),
        ("axis",),
        lambda shapes, attributes: reduced(shapes[0], attributes, needs_elements=needs_elements),
        dtype_rule,
        lambda inputs, attributes: function(inputs[0], axis=tuple(attributes["axis"])),
        always_float=dtype_rule is _float,
    )


def _cumulative(name: str, function: Callable[..., Any]) -> Operation:
    def shape_rule(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        single_axis(attributes, len(shapes[0]))
        return shapes[0]

    def evaluation(inputs: Sequence[Array], attributes: Attributes) -> Any:
        return function(inputs[0], axis=attributes["axis"])

    return Operation(name, (1, 1), ("axis",), shape_rule, _at_least_int, evaluation)


def _linear(name: str, rule: ShapeRule, arity: int, attributes: tuple[str, ...]) -> Operation:
    evaluation = matrices.EVALUATIONS[name]
    return Operation(name, (arity, arity), attributes, rule, _float, evaluation, always_float=True)


def _cast(inputs: Sequence[Array], attributes: Attributes) -> Any:
    array = inputs[0]
    if attributes["dtype"] == "int64" and array.dtype.kind == "f" and not (np.abs(array) < 2.0**63).all():
        raise OverflowError("a cast to int64 of a value that it cannot hold")
    return array.astype(attributes["dtype"])


_ENTRIES = (
    *(
        _elementwise(name, _float, function)
        for name, function in (
            ("exp", np.exp),
            ("log", np.log),
            ("sqrt", np.sqrt),
            ("sin", np.sin),
            ("cos", np.cos),
            ("tan", np.tan),
            ("arcsin", np.arcsin),
            ("arccos", np.arccos),
            ("arctan", np.arctan),
            ("sinh", np.sinh),
            ("cosh", np.cosh),
            ("tanh", np.tanh),
            ("log1p", np.log1p),
            ("expm1", np.expm1),
            ("reciprocal", np.reciprocal),
            ("floor", np.floor),
            ("ceil", np.ceil),
            ("round", np.round),  # half to even
            ("sigmoid", scipy.special.expit),
            ("softplus", special.softplus),
            ("log1mexp", special.log1mexp),
            ("erf", scipy.special.erf),
            ("erfc", scipy.special.erfc),
            ("erfcx", scipy.special.erfcx),
            ("ndtri", scipy.special.ndtri),
            ("gammaln", scipy.special.gammaln),
            ("digamma", scipy.special.digamma),
        )
    ),
    _elementwise("scaled_bessel", _float, special.scaled_bessel, 2),
    _elementwise("neg", _no_bool, np.negative),
    _elementwise("sign", _no_bool, np.sign),
    _elementwise("abs", _promoted, np.abs),
    _elementwise("square", _at_least_int, np.square),
    _elementwise("not", _integral, np.invert),
    _elementwise("identity", _promoted, lambda x: x),
    _elementwise("add", _promoted, np.add, 2, most=MAX_INPUTS, commutative=True),
    _elementwise("mul", _promoted, np.multiply, 2, most=MAX_INPUTS, commutative=True),
    _elementwise("minimum", _promoted, np.minimum, 2, most=MAX_INPUTS, commutative=True),
    _elementwise("maximum", _promoted, np.maximum, 2, most=MAX_INPUTS, commutative=True),
    _elementwise("sub", _no_bool, np.subtract, 2),
    _elementwise("div", _float, np.true_divide, 2),
    _elementwise("pow", _at_least_int, np.power, 2),
    _elementwise("mod", _no_bool, np.mod, 2),  # sign of the divisor; an integer modulo 0 is 0
    _elementwise("int_div", _no_bool, np.floor_divide, 2),  # an integer by 0 is 0
    _elementwise("eq", _bool, np.equal, 2, commutative=True),
    _elementwise("ne", _bool, np.not_equal, 2, commutative=True),
    _elementwise("lt", _bool, np.less, 2),
    _elementwise("le", _bool, np.less_equal, 2),
    _elementwise("gt", _bool, np.greater, 2),
    _elementwise("ge", _bool, np.greater_equal, 2),
    _elementwise("and", _integral, np.bitwise_and, 2, commutative=True),
    _elementwise("or", _integral, np.bitwise_or, 2, commutative=True),
    _elementwise("xor", _integral, np.bitwise_xor, 2, commutative=True),
    _elementwise("switch", _switch_dtype, lambda c, a, b: np.where(c != 0, a, b), 3),
    _elementwise("clip", _promoted, special.clip, 3),
    Operation(
        "cast",
        (1, 1),
        ("dtype",),
        lambda shapes, attributes: shapes[0],
        _cast_dtype,
        _cast,
        elementwise=True,
    ),
    _reduction("sum", _at_least_int, np.sum),
    _reduction("prod", _at_least_int, np.prod),
    _reduction("min", _promoted, np.min, needs_elements=True),
    _reduction("max", _promoted, np.max, needs_elements=True),
    _reduction("mean", _float, np.mean, needs_elements=True),
    _reduction("any", _bool, np.any),
    _reduction("all", _bool, np.all),
    _cumulative("cumsum", np.cumsum),
    _cumulative("cumprod", np.cumprod),
    Operation(
        "dot",
        (2, 2),
        (),
        lambda shapes, attributes: matmul(shapes[0], shapes[1]),
        _no_bool,
        lambda inputs, attributes: np.matmul(inputs[0], inputs[1]),
    ),
    *(
        _linear(name, rule, arity, attributes)
        for name, rule, arity, attributes in (
            ("cholesky", matrices.square, 1, ()),
            ("inverse", matrices.square, 1, ()),
            ("determinant", matrices.single_number, 1, ()),
            ("log_determinant", matrices.single_number, 1, ()),
            ("solve", matrices.solution, 2, ()),
            ("solve_triangular", matrices.triangular_solution, 2, ("lower",)),
        )
    ),
    Operation(
        "sort",
        (1, 1),
        ("axis",),
        matrices.along_axis,
        _promoted,
        lambda inputs, attributes: np.sort(inputs[0], axis=attributes["axis"]),
    ),
    Operation(
        "transpose",
        (1, 1),
        ("order",),
        lambda shapes, attributes: transposed(shapes[0], attributes),
        _promoted,
        lambda inputs, attributes: special.dimshuffle(inputs[0], attributes["order"]),
    ),
    Operation(
        "reshape",
        (1, 1),
        ("shape",),
        lambda shapes, attributes: reshaped(shapes[0], attributes),
        _promoted,
        lambda inputs, attributes: inputs[0].reshape(tuple(attributes["shape"])),
    ),
    Operation(
        "broadcast_to",
        (1, 1),
        ("shape",),
        lambda shapes, attributes: broadcast_to(shapes[0], attributes),
        _promoted,
        lambda inputs, attributes: np.broadcast_to(inputs[0], tuple(attributes["shape"])),
    ),
    Operation(
        "stack",
        (1, MAX_INPUTS),
        ("axis",),
        stacked,
        _promoted,
        lambda inputs, attributes: np.stack(inputs, axis=attributes["axis"]),
    ),
    Operation(
        "concatenate",
        (1, MAX_INPUTS),
        ("axis",),
        concatenated,
        _promoted,
        lambda inputs, attributes: np.concatenate(inputs, axis=attributes["axis"]),
    ),
    Operation(
        "index",
        (1, 1),
        ("index",),
        lambda shapes, attributes: indexed(shapes[0], attributes),
        _promoted,
        lambda inputs, attributes: inputs[0][index_entries(inputs[0].shape, attributes)],
    ),
    Operation(
        "take",
        (2, 2),
        ("axis",),
        lambda shapes, attributes: taken(shapes[0], shapes[1], attributes),
        _take_dtype,
        lambda inputs, attributes: np.take(inputs[0], inputs[1], axis=attributes["axis"]),
    ),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every operation of the graph language by name."""

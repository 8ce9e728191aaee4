from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.programs import OPERATIONS

PYTENSOR_NAMES = {
    "square": "sqr",
    "not": "invert",
    "identity": "tensor_copy",
    "div": "true_div",
    "and": "and_",
    "or": "or_",
    "xor": "xor",
    "ne": "neq",
}
# PyTensor has the normal quantile only as an inverse error function, Bessel functions of any order
OTHERWISE = ("cast", "ndtri", "scaled_bessel")
ELEMENTWISE = [name for name, op in OPERATIONS.items() if op.elementwise and name not in OTHERWISE]
SAMPLES = {
    "float64": np.array([[-1.75, -0.5, 0.0], [0.25, 0.75, 2.5]]),
    "int64": np.array([[1, 2, 3], [-2, 5, 7]]),
    "bool": np.array([[True, False, True], [False, False, True]]),
}


def inputs_for(name: str, dtype: str) -> list[np.ndarray]:
    first, second = SAMPLES[dtype], SAMPLES[dtype][::-1, ::-1]
    if name in ("mod", "int_div", "pow"):
        second = np.abs(second) + np.ones((), second.dtype)
    arity = OPERATIONS[name].arity[0]
    return [first, second, SAMPLES[dtype][:, :1]][:arity]


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_values_are_pytensors(name: str, dtype: str) -> None:
    operation = OPERATIONS[name]
    arrays = inputs_for(name, dtype)
    try:
        shape, result_dtype = operation.infer([a.shape for a in arrays], [dtype] * len(arrays), {})
    except ValueError:
        assert dtype == "float64"
        assert name in ("and", "or", "xor", "not")
        return
    if name == "round" and dtype == "int64":  # PyTensor has no rounding of integers
        return
    function = getattr(pt, PYTENSOR_NAMES.get(name, name))
    variables = [pt.as_tensor_variable(array) for array in arrays]
    if name == "switch":
        variables[0] = pt.neq(variables[0], 0)
    expected_variable = function(*variables)
    with np.errstate(all="ignore"):
        expected = expected_variable.eval(mode="FAST_COMPILE")
    value = operation.evaluate(arrays, {})
    assert value.shape == shape == expected.shape
    assert str(value.dtype) == result_dtype == expected_variable.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(
    "name", ["erf", "erfc", "erfcx", "gammaln", "digamma", "sigmoid", "softplus", "log1mexp"]
)
def test_special_functions_are_those_of_the_density(name: str) -> None:
    x = np.array([-np.inf, -800.0, -40.0, -2.5, -1e-9, 0.0, 1e-9, 0.3, 2.0, 40.0, 800.0, np.inf])
    reference = {
        "softplus": lambda value: torch.logaddexp(value, torch.zeros_like(value)),
        "log1mexp": lambda value: torch.log(-torch.expm1(value)),
    }.get(name) or getattr(torch.special, {"sigmoid": "expit"}.get(name, name))
    if name == "gammaln":
        x = x[1:]  # conventions differ at minus infinity
    if name == "log1mexp":
        x = x[(x > -30) & (x < 0)]
    expected = reference(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(OPERATIONS[name].evaluate([x], {}), expected, rtol=1e-12, atol=1e-300)


def test_normal_quantiles() -> None:
    p = np.array([-0.1, 0.0, 1e-300, 1e-9, 0.1, 0.5, 0.975, 1.0, 1.5, np.nan])
    expected = torch.special.ndtri(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(OPERATIONS["ndtri"].evaluate([p], {}), expected, rtol=1e-12)


def test_log1mexp_keeps_its_digits() -> None:
    np.testing.assert_allclose(OPERATIONS["log1mexp"].evaluate([np.array(-50.0)], {}), -np.exp(-50.0))


@pytest.mark.parametrize(
    ("name", "attributes", "reference"),
    [
        ("sum", {"axis": [0, 2]}, lambda x: x.sum(axis=(0, 2))),
        ("prod", {"axis": [1]}, lambda x: x.prod(axis=1)),
        ("min", {"axis": [0]}, lambda x: x.min(axis=0)),
        ("max", {"axis": [0, 1, 2]}, lambda x: x.max()),
        ("mean", {"axis": [2]}, lambda x: x.mean(axis=2)),
        ("any", {"axis": [0]}, lambda x: x.any(axis=0)),
        ("all", {"axis": []}, lambda x: x != 0),
        ("cumsum", {"axis": 1}, lambda x: x.cumsum(axis=1)),
        ("cumprod", {"axis": 2}, lambda x: x.cumprod(axis=2)),
        ("transpose", {"order": [2, "x", 0, 1]}, lambda x: x.transpose(2, 0, 1)[:, None]),
        ("reshape", {"shape": [4, 6]}, lambda x: x.reshape(4, 6)),
        ("broadcast_to", {"shape": [5, 2, 3, 4]}, lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
        ("index", {"index": [-1, {"slice": [None, None, -2]}]}, lambda x: x[-1, ::-2]),
        ("index", {"index": [{"slice": [5, 1, 1]}]}, lambda x: x[5:1]),
        ("cast", {"dtype": "int64"}, lambda x: x.astype(int)),
        ("cast", {"dtype": "bool"}, lambda x: x != 0),
    ],
)
def test_layout_and_reductions(name: str, attributes: dict[str, Any], reference: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)) * 3
    value = OPERATIONS[name].evaluate([x], attributes)
    np.testing.assert_array_equal(value, reference(x))
    assert OPERATIONS[name].infer([x.shape], ["float64"], attributes) == (value.shape, str(value.dtype))


def test_several_tensors() -> None:
    rng = np.random.default_rng(0)
    x, y, m = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=4)
    positions = np.array([[2, 0], [1, -1]])
    cases = [
        ("stack", [x, y], {"axis": 1}, np.stack([x, y], axis=1)),
        ("concatenate", [x, y], {"axis": 1}, np.concatenate([x, y], axis=1)),
        ("take", [x, positions], {"axis": 1}, x[:, positions]),
        ("dot", [x, m], {}, x @ m),
        ("dot", [m, m], {}, m @ m),
        ("dot", [x, y.T], {}, x @ y.T),
    ]
    for name, inputs, attributes, expected in cases:
        value = OPERATIONS[name].evaluate(inputs, attributes)
        np.testing.assert_array_equal(value, expected)
        dtypes = [str(array.dtype) for array in inputs]
        shapes = [array.shape for array in inputs]
        assert OPERATIONS[name].infer(shapes, dtypes, attributes) == (value.shape, "float64")


def test_n_ary_results_do_not_depend_on_order() -> None:
    true, one = np.array(True), np.array(1)
    for inputs in ([true, true, one], [one, true, true], [true, one, true]):
        assert OPERATIONS["add"].evaluate(inputs, {}) == 3


def test_integer_division_by_zero_is_zero() -> None:
    for name in ("mod", "int_div"):
        assert OPERATIONS[name].evaluate([np.array([3]), np.array([0])], {}).tolist() == [0]


@pytest.mark.parametrize(
    ("name", "shapes", "dtypes", "attributes"),
    [
        ("add", [(2,), (3,)], ["float64"] * 2, {}),
        ("add", [(2,)], ["float64"], {}),
        ("neg", [()], ["bool"], {}),
        ("sub", [(), ()], ["bool", "bool"], {}),
        ("and", [(), ()], ["float64", "bool"], {}),
        ("dot", [(2, 2, 2), (2,)], ["float64"] * 2, {}),
        ("dot", [(), (2,)], ["float64"] * 2, {}),
        ("dot", [(2, 3), (2, 3)], ["float64"] * 2, {}),
        ("take", [(3,), (2,)], ["float64", "float64"], {"axis": 0}),
        ("take", [(3,) * 5, (2,) * 5], ["float64", "int64"], {"axis": 0}),
        ("max", [(0,)], ["float64"], {"axis": [0]}),
        ("sum", [(2, 3)], ["float64"], {"axis": [1, 0]}),
        ("sum", [(2, 3)], ["float64"], {"axis": [0, 0]}),
        ("transpose", [(2, 3)], ["float64"], {"order": [0]}),
        ("transpose", [(2, 3)], ["float64"], {"order": [0, 0, 1]}),
        ("index", [(3,)], ["float64"], {"index": [3]}),
        ("index", [(3,)], ["float64"], {"index": [{"slice": [0, 1, 0]}]}),
        ("index", [(3,)], ["float64"], {"index": [{"slice": [0, 1]}]}),
        ("index", [(3,)], ["float64"], {"index": [0, 0]}),
        ("concatenate", [(3,), (3, 1)], ["float64"] * 2, {"axis": 0}),
        ("concatenate", [(), ()], ["float64"] * 2, {"axis": 0}),
        ("stack", [(3,), (2,)], ["float64"] * 2, {"axis": 0}),
        ("stack", [(1,) * 8] * 2, ["float64"] * 2, {"axis": 0}),
        ("broadcast_to", [(3,)], ["float64"], {"shape": [1]}),
    ],
)
def test_what_does_not_fit_is_refused(name: str, shapes: Any, dtypes: Any, attributes: Any) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        OPERATIONS[name].infer(shapes, dtypes, attributes)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_inferred_shape_and_dtype_are_those_of_the_value(seed: int) -> None:
    rng = random.Random(seed)
    operation = OPERATIONS[rng.choice(list(OPERATIONS))]
    fewest, most = operation.arity
    count = rng.randint(fewest, min(most, 3))
    arrays = [
        SAMPLES[rng.choice(["float64", "int64", "bool"])][
            rng.choice([(slice(None), slice(None)), (slice(None), slice(1)), (0,), (0, 0)])
        ]
        for _ in range(count)
    ]
    values = {
        "axis": rng.choice([0, 1, [0], [0, 1], []]),
        "order": rng.choice([["x"], [0], [1, 0], ["x", 0], [0, "x", 1]]),
        "shape": rng.choice([[2, 3], [3, 2], [6], [1, 3], []]),
        "index": rng.choice([[], [0], [{"slice": [1, None, None]}], [{"slice": [None, None, -1]}, -1]]),
        "dtype": rng.choice(["float64", "int64", "bool"]),
        "lower": rng.choice([True, False, 1]),
    }
    attributes = {name: values[name] for name in operation.attributes}
    arrays = [np.asarray(array) for array in arrays]
    try:
        inferred = operation.infer([a.shape for a in arrays], [str(a.dtype) for a in arrays], attributes)
    except ValueError:
        return
    try:
        value = operation.evaluate(arrays, attributes)
    except (ValueError, IndexError, OverflowError):
        assert operation.name in ("pow", "take", "cast")
        return
    assert (value.shape, str(value.dtype)) == inferred

"""Every operation of the graph language in torch against numpy's evaluation, particle by particle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.density.matrices import MATRICES
from synthstats_lightning.scoring.density.operations import ELEMENTWISE
from synthstats_lightning.scoring.density.structural import STRUCTURAL
from synthstats_lightning.scoring.marginals.density import Density, build_density

Spec = tuple[str, Any]
"""An input that depends on parameters, `("parameter" | "positive" | "integer" | "bool", shape)`, or else
`("constant", value)`."""

P, Q, S = ("parameter", (3, 2)), ("parameter", (2,)), ("parameter", ())
POS = ("positive", (3, 2))
INT, BOOL = ("integer", (3,)), ("bool", (3, 2))
M, D = ("positive", (3, 3)), ("constant", [[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 0.9]])
C = ("constant", [[0.3, -1.2], [2.0, 0.0], [1.5, -0.4]])
UNARY = [
    "exp",
    "sin",
    "cos",
    "tan",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "expm1",
    "reciprocal",
    "floor",
    "ceil",
    "round",
    "sigmoid",
    "softplus",
    "erf",
    "erfc",
    "erfcx",
    "ndtri",
    "neg",
    "sign",
    "abs",
    "square",
    "identity",
    "gammaln",
]

CASES: list[tuple[str, tuple[Spec, ...], dict[str, Any]]] = [
    *((name, (P,), {}) for name in UNARY),
    *((name, (POS,), {}) for name in ("log", "sqrt", "log1p", "gammaln", "digamma")),
    *((name, (P,), {}) for name in ("log", "sqrt", "log1p", "log1mexp", "arcsin", "arccos")),
    *(
        (name, (INT,), {})
        for name in ("exp", "reciprocal", "neg", "sign", "abs", "square", "identity", "not")
    ),
    *((name, (BOOL,), {}) for name in ("not", "abs", "square", "identity", "exp")),
    *(
        (name, pair, {})
        for name in ["add", "mul", "minimum", "maximum"]
        for pair in [(P, Q), (Q, P, S), (S, C, Q, C)]
    ),
    *(
        (name, pair, {})
        for name in ("sub", "div", "mod", "int_div")
        for pair in [(P, Q), (C, S), (Q, C), (INT, S)]
    ),
    *((name, (INT, ("constant", 2)), {}) for name in ("add", "sub", "div", "mod", "int_div", "pow")),
    *((name, (("constant", 7), INT), {}) for name in ("mod", "int_div", "div")),
    *((name, (BOOL, BOOL), {}) for name in ("and", "or", "xor", "add", "mul", "maximum", "eq")),
    *((name, (INT, INT), {}) for name in ("and", "or", "xor", "mul", "lt")),
    *(
        (name, pair, {})
        for name in ["eq", "ne", "lt", "le", "gt", "ge"]
        for pair in [(P, Q), (S, C), (INT, P)][:2]
    ),
    ("pow", (POS, ("constant", 1.7)), {}),
    ("pow", (P, ("constant", 2.0)), {}),
    ("pow", (P, ("constant", 3)), {}),
    ("pow", (P, ("constant", -2.0)), {}),
    ("pow", (P, ("constant", 0.5)), {}),
    ("pow", (P, ("constant", [2.0, 3.0])), {}),
    ("pow", (P, ("constant", [2.0, -1.0])), {}),
    ("pow", (("constant", [1.3, 0.2]), P), {}),
    ("pow", (("constant", [1.3, 0.0]), P), {}),
    ("pow", (("constant", [2.0, -1.5]), P), {}),
    ("pow", (POS, Q), {}),
    ("pow", (P, Q), {}),
    ("switch", (BOOL, P, Q), {}),
    ("switch", (P, C, S), {}),
    ("clip", (P, ("constant", -0.5), ("constant", 0.5)), {}),
    ("clip", (P, Q, S), {}),
    *(("cast", (x,), {"dtype": d}) for x in (P, INT, BOOL) for d in ("int64", "float64", "bool")),
    *(
        (name, (P,), {"axis": a})
        for name in ["sum", "prod", "min", "max", "mean", "any", "all"]
        for a in ([0], [1], [0, 1], [])
    ),
    *((name, (INT,), {"axis": [0]}) for name in ["sum", "prod", "min", "max", "mean", "any"]),
    *((name, (BOOL,), {"axis": [1]}) for name in ("sum", "mean", "any", "all")),
    *((name, (P,), {"axis": a}) for name in ("cumsum", "cumprod") for a in (0, 1)),
    ("cumsum", (INT,), {"axis": 0}),
    ("dot", (Q, Q), {}),
    ("dot", (P, Q), {}),
    ("dot", (("parameter", (3,)), P), {}),
    ("dot", (P, ("parameter", (2, 4))), {}),
    ("dot", (C, Q), {}),
    ("dot", (P, ("constant", [0.5, -2.0])), {}),
    ("dot", (("constant", [1.0, 2.0, 3.0]), P), {}),
    ("dot", (("constant", [[1, 2], [3, 4]]), Q), {}),
    ("dot", (C, ("parameter", (2, 2))), {}),
    *((name, (M,), {}) for name in ("cholesky", "inverse", "determinant", "log_determinant")),
    *(("solve", pair, {}) for pair in [(M, ("parameter", (3,))), (M, P), (M, C), (D, P)]),
    *(
        ("solve_triangular", (M, x), {"lower": flag})
        for x in (P, ("parameter", (3,)))
        for flag in (True, False)
    ),
    ("solve_triangular", (D, P), {"lower": True}),
    *(("sort", (x,), {"axis": 0}) for x in (P, Q)),
    ("sort", (P,), {"axis": 1}),
    ("scaled_bessel", (("constant", [0.0, 1.0]), POS), {}),
    ("scaled_bessel", (("constant", [3, 7]), ("positive", (3, 1))), {}),
    ("transpose", (P,), {"order": [1, 0]}),
    ("transpose", (P,), {"order": ["x", 0, "x", 1]}),
    ("transpose", (("parameter", (1, 3)),), {"order": [1]}),
    ("transpose", (("parameter", (2, 1, 3)),), {"order": [2, "x", 0]}),
    ("transpose", (S,), {"order": ["x", "x"]}),
    ("reshape", (P,), {"shape": [2, 3]}),
    ("reshape", (P,), {"shape": [6]}),
    ("reshape", (S,), {"shape": [1, 1]}),
    ("broadcast_to", (Q,), {"shape": [4, 3, 2]}),
    ("broadcast_to", (S,), {"shape": [3]}),
    ("stack", (S, ("constant", 1.5), S), {"axis": 0}),
    ("stack", (P, C), {"axis": 0}),
    ("stack", (P, C), {"axis": 2}),
    ("stack", (Q, Q), {"axis": 1}),
    ("concatenate", (P, C, P), {"axis": 0}),
    ("concatenate", (C, ("parameter", (3, 1))), {"axis": 1}),
    ("concatenate", (Q, ("constant", [9.0])), {"axis": 0}),
    ("index", (("parameter", (5,)),), {"index": [-2]}),
    ("index", (("parameter", (5,)),), {"index": [{"slice": [None, None, -2]}]}),
    ("index", (("parameter", (5,)),), {"index": [{"slice": [4, 1, -1]}]}),
    ("index", (("parameter", (5,)),), {"index": [{"slice": [3, 1, None]}]}),
    ("index", (("parameter", (4, 3, 2)),), {"index": [{"slice": [None, None, -1]}, 1]}),
    ("index", (("parameter", (4, 3, 2)),), {"index": [2, {"slice": [1, None, None]}, -1]}),
    ("index", (P,), {"index": []}),
    ("take", (Q, ("constant", [1, 0, -1, 1])), {"axis": 0}),
    ("take", (P, ("constant", [[1, 0], [2, 2]])), {"axis": 0}),
    ("take", (("parameter", (4, 3, 2)), ("constant", 2)), {"axis": 1}),
    ("take", (("constant", list(range(100, 120))), INT), {"axis": 0}),
    ("take", (("parameter", (2, 20, 3)), ("integer", (2, 2))), {"axis": 1}),
]


def build(op: str, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> tuple[Density, list[str]]:
    """A density with the operation as the deterministic `result` and its inputs as `input0`, ..."""
    nodes = [Node("constant", (), {"value": v, "dtype": "float64"}) for v in (0.0, 1.0, 4.0)]
    indices = []
    for i, (kind, value) in enumerate(inputs):
        if kind == "constant":
            dtype = "int64" if np.asarray(value).dtype.kind == "i" else "float64"
            nodes.append(Node("constant", (), {"value": value, "dtype": dtype}))
        else:
            distribution = "HalfNormal" if kind == "positive" else "Normal"
            fields = {"distribution": distribution, "name": f"p{i}", "shape": list(value)}
            nodes.append(Node("random", (0, 2), fields))
            if kind == "integer":
                nodes.append(Node("cast", (len(nodes) - 1,), {"dtype": "int64"}))
            elif kind == "bool":
                nodes.append(Node("gt", (len(nodes) - 1, 0), {}))
        indices.append(len(nodes) - 1)
    nodes.append(Node(op, tuple(indices), attributes))
    named = {f"input{i}": index for i, index in enumerate(indices)} | {"result": len(nodes) - 1}
    nodes.append(Node("random", (0, 1), {"distribution": "Normal", "name": "y", "shape": [2]}))
    graph = ModelGraph(tuple(nodes), len(nodes) - 1, named)
    return build_density(graph, {}, np.zeros(2)), [f"input{i}" for i in range(len(indices))]


def evaluate(
    density: Density, names: list[str], theta: torch.Tensor
) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    values = density.deterministics(theta)
    return [values[name].numpy() for name in names], values["result"].numpy()


def test_every_operation_is_covered() -> None:
    assert set(ELEMENTWISE) | set(STRUCTURAL) | set(MATRICES) | {"pow", "cast"} == set(OPERATIONS)
    assert {op for op, _, _ in CASES} == set(OPERATIONS)


@pytest.mark.parametrize(("op", "inputs", "attributes"), CASES, ids=lambda x: str(x).replace(" ", ""))
def test_matches_numpy(op: str, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> None:
    density, names = build(op, inputs, attributes)
    theta = torch.from_numpy(np.random.default_rng(3).normal(0.0, 1.0, (5, density.dimension)))
    arguments, results = evaluate(density, names, theta)
    for i in range(len(theta)):
        expected = OPERATIONS[op].evaluate([np.asarray(a[i]) for a in arguments], attributes)
        assert results[i].shape == expected.shape
        assert results.dtype == expected.dtype
        np.testing.assert_allclose(results[i], expected, rtol=1e-13, atol=1e-14)


SMOOTH = [
    case
    for case in CASES
    if not {kind for kind, _ in case[1]} & {"integer", "bool"}
    and case[0] not in ("floor", "ceil", "round", "sign", "cast", "any", "all", "mod", "int_div")
    and case[0] not in ("eq", "ne", "lt", "le", "gt", "ge")
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), SMOOTH, ids=lambda x: str(x).replace(" ", ""))
def test_gradients(op: str, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> None:
    """Against central differences wherever the result is finite."""
    density, _ = build(op, inputs, attributes)
    theta = torch.from_numpy(np.random.default_rng(4).normal(0.0, 0.7, (3, density.dimension)))
    finite = torch.isfinite(density.deterministics(theta)["result"])
    weights = torch.where(
        finite, torch.linspace(0.5, 1.5, finite.numel()).reshape(finite.shape).double(), 0.0
    )

    def total(x: torch.Tensor) -> torch.Tensor:
        result = density.deterministics(x)["result"]
        return (torch.where(finite, result, 0.0) * weights).reshape(len(x), -1).sum(1)

    leaf = theta.clone().requires_grad_(True)
    value = total(leaf).sum()
    gradient = torch.autograd.grad(value, leaf)[0] if value.requires_grad else torch.zeros_like(theta)
    assert bool(torch.isfinite(gradient).all())
    step = 1e-6
    for column in range(density.dimension):
        shift = torch.zeros_like(theta)
        shift[:, column] = step
        difference = (total(theta + shift) - total(theta - shift)) / (2 * step)
        torch.testing.assert_close(gradient[:, column], difference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["log", "sqrt", "reciprocal", "pow", "div", "log1p"])
def test_unselected_branch_keeps_gradients_finite(op: str) -> None:
    """`switch(a * x > 0, f(a * x), a)` where a covariate is 0: f is singular there but not selected."""
    constant = {"dtype": "float64"}
    nodes = [
        Node("constant", (), {"value": 0.0, **constant}),
        Node("constant", (), {"value": 1.0, **constant}),
        Node("covariate", (), {"name": "x"}),
        Node("random", (0, 1), {"distribution": "HalfNormal", "name": "a", "shape": []}),
        Node("mul", (2, 3)),
        Node("gt", (4, 0)),
        Node("sub", (4, 1)) if op == "log1p" else Node("identity", (4,)),
        Node("constant", (), {"value": -0.5, **constant}),
        {"pow": Node("pow", (6, 7)), "div": Node("div", (3, 6))}.get(op) or Node(op, (6,)),
        Node("switch", (5, 8, 3)),
        Node("random", (9, 1), {"distribution": "Normal", "name": "y", "shape": [3]}),
    ]
    density = build_density(ModelGraph(tuple(nodes), 10), {"x": np.array([0.0, 1.0, 2.0])}, np.zeros(3))
    theta = torch.tensor([[0.3], [-1.0]], dtype=torch.float64, requires_grad=True)
    likelihood = density.log_likelihood(theta)
    assert bool(torch.isfinite(likelihood).all())
    (gradient,) = torch.autograd.grad(likelihood.sum(), theta)
    assert bool(torch.isfinite(gradient).all())
    assert torch.autograd.gradcheck(density.log_likelihood, (theta,))


def test_constants_that_are_not_finite_stay_out_of_gradients() -> None:
    """`switch(x > 0, a * log(x), a)`: log(0) is a constant that is never selected."""
    nodes = [
        Node("constant", (), {"value": 0.0, "dtype": "float64"}),
        Node("constant", (), {"value": 1.0, "dtype": "float64"}),
        Node("covariate", (), {"name": "x"}),
        Node("random", (0, 1), {"distribution": "Normal", "name": "a", "shape": []}),
        Node("log", (2,)),
        Node("mul", (3, 4)),
        Node("gt", (2, 0)),
        Node("switch", (6, 5, 3)),
        Node("random", (7, 1), {"distribution": "Normal", "name": "y", "shape": [3]}),
    ]
    density = build_density(ModelGraph(tuple(nodes), 8), {"x": np.array([0.0, 1.0, 2.0])}, np.zeros(3))
    theta = torch.tensor([[0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(density.log_likelihood, (theta,))


def test_take_outside_the_axis() -> None:
    """A constant position is a failure of the program; one that depends on parameters yields NaN."""
    with pytest.raises(ProgramFailure, match=r"index 7 is out of bounds for axis 0 with size 2") as failure:
        build("take", (Q, ("constant", [0, 7])), {"axis": 0})
    assert failure.value.category == FailureCategory.RAISED
    density, names = build("take", (Q, INT), {"axis": 0})
    theta = torch.tensor([[1.0, 2.0, 0.0, 1.0, 5.0]], dtype=torch.float64)
    _, result = evaluate(density, names, theta)
    assert result[0, :2].tolist() == [1.0, 2.0]
    assert np.isnan(result[0, 2])

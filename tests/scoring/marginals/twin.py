"""A model graph and the same model in PyMC, built side by side, node by node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import torch
from numpy.typing import NDArray

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.marginals.density import Density, build_density

PYMC: dict[str, Callable[..., Any]] = {
    "Normal": lambda name, p, **k: pm.Normal(name, mu=p[0], sigma=p[1], **k),
    "HalfNormal": lambda name, p, **k: pm.HalfNormal(name, sigma=p[1], **k),
    "LogNormal": lambda name, p, **k: pm.LogNormal(name, mu=p[0], sigma=p[1], **k),
    "Exponential": lambda name, p, **k: pm.Exponential(name, scale=p[0], **k),
    "Gamma": lambda name, p, **k: pm.Gamma(name, alpha=p[0], beta=1 / p[1], **k),
    "InverseGamma": lambda name, p, **k: pm.InverseGamma(name, alpha=p[0], beta=p[1], **k),
    "Beta": lambda name, p, **k: pm.Beta(name, alpha=p[0], beta=p[1], **k),
    "Uniform": lambda name, p, **k: pm.Uniform(name, lower=p[0], upper=p[1], **k),
    "StudentT": lambda name, p, **k: pm.StudentT(name, nu=p[0], mu=p[1], sigma=p[2], **k),
    "HalfStudentT": lambda name, p, **k: pm.HalfStudentT(name, nu=p[0], sigma=p[1], **k),
    "Cauchy": lambda name, p, **k: pm.Cauchy(name, alpha=p[0], beta=p[1], **k),
    "HalfCauchy": lambda name, p, **k: pm.HalfCauchy(name, beta=p[0], **k),
    "Laplace": lambda name, p, **k: pm.Laplace(name, mu=p[0], b=p[1], **k),
    "Logistic": lambda name, p, **k: pm.Logistic(name, mu=p[0], s=p[1], **k),
    "Poisson": lambda name, p, **k: pm.Poisson(name, mu=p[0], **k),
    "NegativeBinomial": lambda name, p, **k: pm.NegativeBinomial(name, n=p[0], p=p[1], **k),
    "Binomial": lambda name, p, **k: pm.Binomial(name, n=p[0], p=p[1], **k),
    "Bernoulli": lambda name, p, **k: pm.Bernoulli(name, p=p[0], **k),
}
"""Distribution name to its PyMC constructor, from native parameters."""


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(*xs: Any) -> Any:
        result = xs[0]
        for x in xs[1:]:
            result = function(result, x)
        return result

    return apply


PYTENSOR: dict[str, Callable[..., Any]] = {
    "add": _variadic(pt.add),
    "mul": _variadic(pt.mul),
    "div": pt.true_div,
    "minimum": _variadic(pt.minimum),
    "maximum": _variadic(pt.maximum),
    "not": pt.invert,
    "and": pt.and_,
    "or": pt.or_,
    "xor": pt.xor,
    "square": pt.sqr,
    "identity": lambda x: x,
    "cast": lambda x, dtype: pt.cast(x, dtype),
    "sum": lambda x, axis: pt.sum(x, axis=tuple(axis)),
    "prod": lambda x, axis: pt.prod(x, axis=tuple(axis)),
    "min": lambda x, axis: pt.min(x, axis=tuple(axis)),
    "max": lambda x, axis: pt.max(x, axis=tuple(axis)),
    "mean": lambda x, axis: pt.mean(x, axis=tuple(axis)),
    "any": lambda x, axis: pt.any(x, axis=tuple(axis)),
    "all": lambda x, axis: pt.all(x, axis=tuple(axis)),
    "cumsum": lambda x, axis: pt.cumsum(x, axis=axis),
    "cumprod": lambda x, axis: pt.cumprod(x, axis=axis),
    "transpose": lambda x, order: pt.as_tensor(x).dimshuffle(*order),
    "reshape": lambda x, shape: pt.reshape(x, tuple(shape)),
    "broadcast_to": lambda x, shape: pt.broadcast_to(x, tuple(shape)),
    "stack": lambda *xs, axis: pt.stack(list(xs), axis=axis),
    "concatenate": lambda *xs, axis: pt.concatenate(list(xs), axis=axis),
    "index": lambda x, index: x[tuple(e if isinstance(e, int) else slice(*e["slice"]) for e in index)],
    "take": lambda x, i, axis: pt.take(x, i, axis=axis),
}
"""Operations whose PyTensor spelling is not `pt.<name>(*inputs)`."""


class Ref:
    """A node on both sides.

    Args:
        index: Its index in the graph.
        variable: What PyMC has for it.
    """

    def __init__(self, index: int, variable: Any) -> None:
        self.index = index
        self.variable = variable


class Twin:
    """Builds both models.

    Args:
        covariates: Columns.
        response: Observed values.
    """

    def __init__(self, covariates: dict[str, NDArray[Any]], response: NDArray[Any]) -> None:
        self.covariates = covariates
        self.response = response
        self.model = pm.Model()
        self.nodes: list[dict[str, Any]] = []
        self.response_index = -1
        self.observed: Any = None

    def _add(self, node: dict[str, Any], variable: Any) -> Ref:
        self.nodes.append(node)
        return Ref(len(self.nodes) - 1, variable)

    def constant(self, value: Any, dtype: str = "float64") -> Ref:
        array = np.asarray(value, dtype=dtype)
        return self._add({"op": "constant", "value": array.tolist(), "dtype": dtype}, array)

    def covariate(self, name: str) -> Ref:
        return self._add({"op": "covariate", "name": name}, self.covariates[name])

    def _lift(self, x: Any) -> Ref:
        return x if isinstance(x, Ref) else self.constant(x)

    def op(self, name: str, *inputs: Any, **attributes: Any) -> Ref:
        refs = [self._lift(x) for x in inputs]
        function = PYTENSOR.get(name) or getattr(pt, name)
        variables = [pt.as_tensor(ref.variable) for ref in refs]
        node = {"op": name, "inputs": [ref.index for ref in refs], **attributes}
        return self._add(node, function(*variables, **attributes))

    def random(self, distribution: str, name: str, *parameters: Any, shape: tuple[int, ...] = ()) -> Ref:
        refs = [self._lift(x) for x in parameters]
        with self.model:
            variable = PYMC[distribution](name, [ref.variable for ref in refs], shape=shape)
        return self._add(self._random_node(distribution, name, refs, shape), variable)

    def respond(self, distribution: str, *parameters: Any) -> None:
        refs = [self._lift(x) for x in parameters]
        with self.model:
            self.observed = PYMC[distribution]("response", [r.variable for r in refs], observed=self.response)
        self._add(self._random_node(distribution, "response", refs, self.response.shape), self.observed)
        self.response_index = len(self.nodes) - 1

    @staticmethod
    def _random_node(distribution: str, name: str, refs: list[Ref], shape: tuple[int, ...]) -> dict[str, Any]:
        inputs = [ref.index for ref in refs]
        return {
            "op": "random",
            "distribution": distribution,
            "inputs": inputs,
            "name": name,
            "shape": list(shape),
        }

    def document(self) -> str:
        return json.dumps(
            {"format": 1, "nodes": self.nodes, "response": self.response_index, "deterministics": []}
        )

    def graph(self) -> ModelGraph:
        nodes = []
        for entry in self.nodes:
            fields = dict(entry)
            op, inputs = fields.pop("op"), tuple(fields.pop("inputs", ()))
            nodes.append(Node(op, inputs, fields))
        return ModelGraph(tuple(nodes), self.response_index)

    def density(self) -> Density:
        return build_density(self.graph(), self.covariates, self.response)

    def point(self, density: Density, theta: torch.Tensor) -> dict[str, NDArray[Any]]:
        """One particle as PyMC's value variables."""
        names = {rv.name: self.model.rvs_to_values[rv].name for rv in self.model.free_RVs}
        return {names[p.name]: theta[p.start : p.stop].reshape(p.shape).numpy() for p in density.parameters}

    def reference(self, density: Density) -> Callable[[dict[str, NDArray[Any]]], list[NDArray[Any]]]:
        """PyMC's log prior with Jacobians, pointwise log-likelihood and the gradient of their sum."""
        values = {rv.name: self.model.rvs_to_values[rv] for rv in self.model.free_RVs}
        wrt = [values[p.name] for p in density.parameters]
        prior = self.model.logp(vars=self.model.free_RVs, jacobian=True)
        (rows,) = self.model.logp(vars=[self.observed], sum=False)
        gradients = [g.ravel() for g in pt.grad(prior + rows.sum(), wrt, disconnected_inputs="ignore")]
        function = pytensor.function(wrt, [prior, rows, pt.concatenate(gradients)], mode="FAST_COMPILE")
        return lambda point: function(**point)

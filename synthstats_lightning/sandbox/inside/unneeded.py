"""Work that PyMC and PyTensor do for every random variable and that no model graph needs."""

from __future__ import annotations

import functools
import sys
from typing import Any, no_type_check

IGNORE_PRECISION = (
    "Normal",
    "HalfNormal",
    "LogNormal",
    "StudentT",
    "HalfStudentT",
    "SkewStudentT",
    "TruncatedNormal",
)
"""Distributions whose `dist` makes a precision from the standard deviation and then ignores it."""


def install() -> None:
    """Leaves that work out, in this process."""
    _skip_precisions()
    _share_generators()
    _fold_shapes()
    _difference_probits()


def _skip_precisions() -> None:
    from pymc.distributions import continuous
    from pytensor import tensor

    derive = continuous.get_tau_sigma
    callers = {getattr(continuous, name).dist.__func__.__code__ for name in IGNORE_PRECISION}

    @no_type_check  # a check would stand between it and its caller
    @functools.wraps(derive)
    def get_tau_sigma(tau: Any = None, sigma: Any = None) -> tuple[Any, Any]:
        if tau is None and sigma is not None and sys._getframe(1).f_code in callers:
            return None, tensor.as_tensor_variable(sigma)
        pair: tuple[Any, Any] = derive(tau=tau, sigma=sigma)
        return pair

    continuous.get_tau_sigma = get_tau_sigma


def _share_generators() -> None:
    """Random generators are not copied when they are shared: nothing is drawn from them."""
    import numpy as np
    from pytensor.compile.sharedvalue import shared_constructor

    copying = shared_constructor.dispatch(np.random.Generator)

    @functools.wraps(copying)
    def borrowing(value: Any, *args: Any, **kwargs: Any) -> Any:
        return copying(value, *args, **{**kwargs, "borrow": True})

    shared_constructor.register(np.random.Generator)(borrowing)


def _fold_shapes() -> None:
    """Lengths that are an entry of a constant are read, not found by rewriting a graph."""
    from pytensor.tensor.random import op

    infer = op.infer_static_shape

    @functools.wraps(infer)
    def infer_static_shape(shape: Any) -> Any:
        return infer([_length(entry) for entry in shape] if isinstance(shape, tuple | list) else shape)

    op.infer_static_shape = infer_static_shape


def _difference_probits() -> None:
    """Ordered probit probabilities as differences of the distribution function, as PyMC has the logistic's.

    PyMC's take logarithms of tails by cases, eighty nodes; the scorer knows the differences and evaluates
    the logarithm of the one that was observed.
    """
    import numpy as np
    from pymc import OrderedProbit
    from pytensor import tensor

    def compute_p(cls: Any, eta: Any, cutpoints: Any, sigma: Any) -> Any:
        shift, scale = (tensor.shape_padright(tensor.as_tensor_variable(each)) for each in (eta, sigma))
        scores = (tensor.as_tensor_variable(cutpoints) - shift) / scale
        below = 0.5 * tensor.erfc(-scores / np.sqrt(2.0))
        end = tensor.shape_padright(below[..., 0])
        joined = tensor.concatenate([tensor.zeros_like(end), below, tensor.ones_like(end)], axis=-1)
        return joined[..., 1:] - joined[..., :-1]

    OrderedProbit.compute_p = classmethod(compute_p)


def _length(entry: Any) -> Any:
    """The number that a variable stands for, if it is an entry of a constant; else the variable."""
    from pytensor.graph.basic import Constant
    from pytensor.tensor.subtensor import Subtensor

    node = getattr(entry, "owner", None)
    if node is None or not isinstance(node.op, Subtensor):
        return entry
    if any(isinstance(part, slice) for part in node.op.idx_list):
        return entry
    if not all(isinstance(part, Constant) for part in node.inputs):
        return entry
    found = node.inputs[0].data[tuple(int(index.data) for index in node.inputs[1:])]
    return int(found) if found.ndim == 0 and found.dtype.kind in "iu" else entry

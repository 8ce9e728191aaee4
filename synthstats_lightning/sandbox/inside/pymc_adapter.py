"""What extraction reads of PyMC's and PyTensor's inside; what differs between releases is here alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pymc
from numpy.typing import NDArray
from pymc.distributions import transforms
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor import scalar
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar.basic import ScalarConstant, ScalarType
from pytensor.tensor import constant
from pytensor.tensor.basic import _as_tensor_variable
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT, SliceConstant, SliceType

from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import REFUSED
from synthstats_lightning.sandbox.inside.columns import Column, is_element

VERSION: str = pymc.__version__

Array = NDArray[Any]


@_as_tensor_variable.register(Column)
def _column_as_variable(values: Column, name: str | None, ndim: int | None, **settings: Any) -> Any:
    """A column as PyTensor has it; single elements keep how they were made, which values do not tell."""
    found = _as_tensor_variable(np.asarray(values), name, ndim, **settings)
    if is_element(values) and isinstance(found, Constant):
        found.tag.expression = values.expression
    return found


RANDOM_OPS: dict[type, str] = {
    kind: name
    for name in DISTRIBUTIONS
    if (kind := getattr(getattr(pymc, name, None), "rv_type", None)) is not None
}
"""Op classes of the distributions that the graph language has, and their names in it."""


_MIXTURES = {"MixtureRV": "Mixture", "_HurdleRV": "Hurdle"}
_MATRICES = {
    "CARRV": "CAR",
    "ICARRV": "ICAR",
    "KroneckerNormalRV": "KroneckerNormal",
    "MatrixNormalRV": "MatrixNormal",
}
"""Ops that PyMC's constructors keep no class of, or that the graph language has under another name."""


class Composite(NamedTuple):
    """A random variable that is made of others.

    Attributes:
        kind: `"Mixture"`, `"Hurdle"`, `"Truncated"`, `"Censored"`, `"RandomWalk"`, `"AR"` or
            `"LKJCholeskyCov"`.
        own: The weights of a mixture or hurdle; lower and upper bound; steps of a random walk; coefficients,
            scale and steps of an autoregression; rows and eta of a Cholesky factor.
        components: The random variables it is made of.
        constant: Whether the first coefficient of an autoregression is its constant term.
    """

    kind: str
    own: tuple[Any, ...]
    components: tuple[Any, ...]
    constant: bool = False


def composite(variable: Any) -> Composite | None:
    """What a random variable is made of, `None` if it is not composite."""
    node = variable.owner
    kind = type(node.op).__name__
    if not type(node.op).__module__.startswith("pymc."):
        return None
    if kind in _MIXTURES:
        _, weights, *components = node.inputs
        return Composite(_MIXTURES[kind], (weights,), tuple(components))
    if kind == "CensoredRV":
        component, lower, upper = node.inputs
        return Composite("Censored", (lower, upper), (component,))
    if kind == "TruncatedRV":
        *inputs, lower, upper = node.inputs
        component = node.op.base_rv_op.make_node(*inputs).default_output()
        return Composite("Truncated", (lower, upper), (component,))
    if kind == "RandomWalkRV":
        start, step, steps = node.inputs
        return Composite("RandomWalk", (steps,), (start, step))
    if kind == "AutoRegressiveRV":
        rho, sigma, start, steps, _ = node.inputs
        return Composite("AR", (rho, sigma, steps), (start,), node.op.constant_term)
    if kind == "_LKJCholeskyCovRV":
        _, rows, eta, deviation = node.inputs
        return Composite("LKJCholeskyCov", (rows, eta), (deviation,))
    if kind == "TruncatedNormalRV":
        size, (mu, sigma, lower, upper) = random_inputs(variable)
        normal = pymc.Normal.rv_op.make_node(node.inputs[0], size, mu, sigma).default_output()
        return Composite("Truncated", (lower, upper), (normal,))
    return None


def ingredients(variable: Any) -> list[Any]:
    """Every variable that shape, bounds, weights and parameters of a random variable are read from."""
    inside = drawn_inside(variable)
    if inside is not None:
        return [outer for _, outer in inside[0]]
    made_of = composite(variable)
    if made_of is not None:
        parts = [part for component in made_of.components for part in ingredients(component)]
        return [*made_of.own, *parts]
    if is_diffusion(variable):
        start, *others, _ = variable.owner.inputs
        return [*others, variable.owner.op.dt, *ingredients(start)]
    if type(variable.owner.op).__name__ == "GARCH11RV":
        *parameters, start, steps, _ = variable.owner.inputs
        return [*parameters, steps, *ingredients(start)]
    if not is_dirac_delta(variable.owner.op) and distribution_name(variable.owner.op) is None:
        return []
    size, parameters = random_inputs(variable)
    return parameters if size is None else [size, *parameters]


def drawn_inside(variable: Any) -> tuple[list[tuple[Any, Any]], Any] | None:
    """What a `CustomDist(dist=...)` draws if that is another random variable as it is.

    Returns:
        Pairs of an inner input and what it stands for, and the inner random variable; `None` for others.
    """
    op = variable.owner.op
    kinds = [kind.__name__ for kind in type(op).__mro__[:2]]
    if kinds[1] != "CustomSymbolicDistRV" or kinds[0] == "LogitNormal":
        return None
    inner = op.inner_outputs[variable.owner.outputs.index(variable)]
    if inner.owner is None or not is_random(inner.owner.op):
        return None
    pairs = zip(op.inner_inputs, variable.owner.inputs, strict=True)
    return [pair for pair in pairs if hasattr(pair[0].type, "dtype")], inner


def log_tail(variable: Any, limits: Array, side: str) -> Any:
    """The log-probability that a random variable lies above limits (`"upper"`), or not above (`"lower"`)."""
    below = pymc.logcdf(variable, constant(limits), warn_rvs=False)
    return below if side == "lower" else pymc.math.log1mexp(below)


def is_diffusion(variable: Any) -> bool:
    """Whether a random variable is the path of a discretised stochastic differential equation."""
    return type(variable.owner.op).__name__ == "EulerMaruyamaRV"


def as_variable(value: Any) -> Any:
    """A variable, or a number as one."""
    return value if isinstance(value, Variable) else constant(np.asarray(value, dtype=np.float64))


def as_constant(values: Any) -> Any:
    """Numbers as a constant of their own dtype."""
    return constant(np.asarray(values))


def is_dirac_delta(op: Any) -> bool:
    """Whether an op puts all mass on one value."""
    return isinstance(op, pymc.DiracDelta.rv_type)


def is_random(op: Any) -> bool:
    """Whether an op draws random variables."""
    return isinstance(op, RandomVariable | SymbolicRandomVariable)


def distribution_name(op: Any) -> str | None:
    """Name in the graph language of a random op, or `None` if it is not in it."""
    if type(op).__name__ == "LogitNormal" and type(op).__mro__[1].__name__ == "CustomSymbolicDistRV":
        return "LogitNormal"  # PyMC makes its op's class anew at every use
    if not type(op).__module__.startswith("pymc."):
        return RANDOM_OPS.get(type(op))
    if type(op).__name__ == "LKJCorrRV":
        # correlations up to PyMC 5, their matrix's Cholesky factor from PyMC 6 on
        return "LKJCorr" if op.ndim_supp == 1 else "LKJCorrCholesky"
    return _MATRICES.get(type(op).__name__) or RANDOM_OPS.get(type(op))


def display_name(op: Any) -> str:
    """What to call a random op that the graph language lacks."""
    kind = type(op)
    if kind.__name__.startswith("CustomDist"):
        return "CustomDist"
    printed = getattr(op, "_print_name", None)
    return str(printed[0]) if isinstance(printed, tuple) and printed else kind.__name__.removesuffix("RV")


_INSTEAD = {
    "Flat": "Write how large it may be, as in pm.Normal(0, 100)",
    "HalfFlat": "Write how large it may be, as in pm.HalfNormal(100)",
    "CustomDist": "Write what it is made of: pm.Mixture or labels (pm.Categorical), pm.Censored,"
    " pm.Truncated, or CustomDist(dist=...) that draws a distribution of pm",
}
"""What a program writes in place of distributions that the graph language lacks for good."""


def lacking(op: Any) -> str:
    """One line on a random op that the graph language lacks, with the reason where it lacks it for good."""
    name = display_name(op)
    reason = REFUSED.get(name)
    if reason is None:
        return f"distribution {name}"
    return f"distribution {name}: {reason}" + (f". {_INSTEAD[name]}" if name in _INSTEAD else "")


def random_inputs(variable: Any) -> tuple[Any, list[Any]]:
    """Size (a variable, or `None` for that of the parameters) and parameters of a random variable."""
    node = variable.owner
    size = node.op.size_param(node)
    if isinstance(size, Constant) and size.data is None:
        size = None
    parameters = list(node.op.dist_params(node))
    if type(node.op).__name__ == "CARRV":
        parameters.pop()  # whether the neighbours are symmetric
    if distribution_name(node.op) == "NegativeBinomial":
        parameters[1] = _as_ratio(parameters[1])
    return size, parameters


def _as_ratio(probability: Any) -> Any:
    """The a / (b + a) that PyMC 5 makes of a negative binomial's mean; 6 has the sigmoid of log a - log b."""
    if not hasattr(probability.tag, "ratio"):
        found = _below_dims(probability, _of_logs)
        # kept, as whoever walks the graph knows variables by who they are
        probability.tag.ratio = probability if found is None else found
    return probability.tag.ratio


def _of_logs(probability: Any) -> Any:
    difference = _arguments(probability, scalar.Sigmoid)
    logs = _arguments(difference[0], scalar.Sub) if difference else []
    above, beside = [_below_dims(each, _of_log) for each in logs] if logs else (None, None)
    return None if above is None or beside is None else above / (beside + above)


def _of_log(variable: Any) -> Any:
    return next(iter(_arguments(variable, scalar.Log)), None)


def _below_dims(variable: Any, read: Callable[[Any], Any]) -> Any:
    """What is read of a variable below added dimensions, with these; `None` where nothing is."""
    node = variable.owner
    if node is None or not isinstance(node.op, DimShuffle):
        return read(variable)
    found = _below_dims(node.inputs[0], read)
    return None if found is None else node.op(found)


def _arguments(variable: Any, kind: type) -> list[Any]:
    """What a scalar operation is of, elementwise; nothing where the variable is another's."""
    node = variable.owner
    if node is None or not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, kind):
        return []
    return list(node.inputs)


def takes_factor(op: Any) -> bool:
    """Whether a Wishart op's scale is a Cholesky factor, as from PyMC 6 on."""
    return isinstance(op, SymbolicRandomVariable)


def variables_below(variables: Iterable[Any]) -> set[Any]:
    """All variables that some are made of, through the inputs of every node.

    Args:
        variables: Those to start from, which are among the result.
    """
    pending, found = list(variables), set()
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending += [] if current.owner is None else current.owner.inputs
    return found


def is_none(variable: Any) -> bool:
    """Whether a variable stands for Python's None."""
    return isinstance(variable.type, NoneTypeT)


def is_slice(variable: Any) -> bool:
    """Whether a variable stands for a slice."""
    return isinstance(variable.type, SliceType)


def is_scalar(variable: Any) -> bool:
    """Whether a variable is one of PyTensor's scalars rather than a tensor."""
    return isinstance(variable.type, ScalarType)


def slice_parts(variable: Any) -> tuple[Any, Any, Any]:
    """Start, stop and step of a slice: numbers, `None` or variables."""
    if isinstance(variable, SliceConstant) or (
        isinstance(variable, Constant) and isinstance(variable.data, slice)
    ):
        return variable.data.start, variable.data.stop, variable.data.step
    start, stop, step = variable.owner.inputs
    return start, stop, step


def is_sparse(variable: Any) -> bool:
    """Whether a variable is a sparse matrix."""
    return type(variable.type).__name__ == "SparseTensorType"


def leaf_value(variable: Any) -> Array | None:
    """The value of a constant or of shared data; `None` for anything else."""
    if isinstance(variable, Constant | ScalarConstant):
        return np.asarray(variable.data.toarray() if is_sparse(variable) else variable.data)
    if variable.owner is None and hasattr(variable, "get_value"):
        return np.asarray(variable.get_value(borrow=True))
    return None


def subtensor_entries(node: Any) -> list[Any]:
    """Index of a `Subtensor` node, one entry per leading axis: a variable, or a slice of them and `None`."""
    from pytensor.tensor.subtensor import indices_from_subtensor

    return list(indices_from_subtensor(node.inputs[1:], node.op.idx_list))


def advanced_entries(node: Any) -> list[Any]:
    """Index of an `AdvancedSubtensor` node, in the form of `subtensor_entries`."""
    return _entries(getattr(node.op, "idx_list", None), list(node.inputs[1:]))


def _entries(pattern: Any, indices: list[Any]) -> list[Any]:
    """Entries of an advanced index: `indices` up to PyTensor 2, later in a pattern of their positions."""
    if pattern is None:
        return indices

    def entry(part: Any) -> Any:
        if isinstance(part, slice):
            return slice(entry(part.start), entry(part.stop), entry(part.step))
        return indices[part] if isinstance(part, int) else part

    return [entry(part) for part in pattern]


def assigned_entries(node: Any) -> list[Any]:
    """Index of an `IncSubtensor` or `AdvancedIncSubtensor` node, in the form of `subtensor_entries`."""
    if type(node.op).__name__ == "IncSubtensor":
        from pytensor.tensor.subtensor import indices_from_subtensor

        return list(indices_from_subtensor(node.inputs[2:], node.op.idx_list))
    return _entries(getattr(node.op, "idx_list", None), list(node.inputs[2:]))


def evaluate(node: Any, values: list[Array]) -> list[Array]:
    """Runs one node on numbers, without compiling anything.

    Raises:
        Exception: Whatever the op raises.
    """
    storage_map: dict[Variable[Any, Any], list[Any]] = {
        variable: [value.astype(variable.type.dtype) if hasattr(variable.type, "dtype") else value]
        for variable, value in zip(node.inputs, values, strict=True)
    }
    storage_map |= {variable: [None] for variable in node.outputs}
    computed = {variable: [variable in node.inputs] for variable in storage_map}
    node.op.make_thunk(node, storage_map, computed, no_recycling=[], impl="py")()
    return [np.asarray(storage_map[variable][0]) for variable in node.outputs]


def foreign_transform(model: Any, variable: Any) -> str | None:
    """Name of a transform that changes a free variable's prior (`ordered` and the like), or `None`.

    PyMC's own choice for the distribution only changes coordinates; so does having none.
    """
    transform = model.rvs_to_transforms.get(variable)
    if transform is None:
        return None
    default = transforms._default_transform(variable.owner.op, variable)
    if is_ordered(model, variable) or bounds(model, variable) is not None:
        return None
    same = {type(default).__name__}
    if same & {"LogTransform", "LogExpM1"}:
        same |= {"LogTransform", "LogExpM1"}
    return None if type(transform).__name__ in same else type(transform).__name__


def is_ordered(model: Any, variable: Any) -> bool:
    """Whether a free variable's entries along its last axis are put in increasing order."""
    transform = model.rvs_to_transforms.get(variable)
    default = transforms._default_transform(variable.owner.op, variable)
    if type(transform).__name__ == "ChainedTransform" and len(transform.transform_list) == 2:
        # PyMC puts the logs or logits in order
        first, transform = transform.transform_list
        if type(first).__name__ != type(default).__name__:
            return False
    elif default is not None:
        return False
    if type(transform).__name__ != "Ordered":
        return False
    return bool(variable.ndim) and transform.ascending and not transform.positive


def bounds(model: Any, variable: Any) -> tuple[float | None, float | None] | None:
    """The ends between which a transform keeps a free variable that has none of its own; `None` for others.

    PyMC's prior is then that of the whole line, which integrates to less than one.
    """
    transform = model.rvs_to_transforms.get(variable)
    if transform is None or transforms._default_transform(variable.owner.op, variable) is not None:
        return None
    match type(transform).__name__:
        case "LogTransform":
            return 0.0, None
        case "LogOddsTransform":
            return 0.0, 1.0
        case "Interval":
            return _known_ends(transform.args_fn(*variable.owner.inputs))
    return None


def _known_ends(ends: Any) -> tuple[float | None, float | None] | None:
    found: list[float | None] = []
    for end in ends:
        value = leaf_value(end) if isinstance(end, Variable) else None if end is None else np.asarray(end)
        if end is not None and (value is None or value.size != 1):
            return None
        found.append(None if value is None or np.isinf(value).any() else float(value.reshape(())))
    lower, upper = found
    return lower, upper

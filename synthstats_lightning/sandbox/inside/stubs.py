"""Inference and its criticism belong to the scorer: in programs they do nothing."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

SAMPLERS = (  # noqa: SIM905
    "sample sample_blackjax_nuts sample_numpyro_nuts sample_smc sample_prior_predictive"
    " sample_posterior_predictive fit find_MAP draw compute_log_likelihood"
    " compute_log_prior compute_deterministics loo waic compare summary ess rhat hdi plot_trace"
    " plot_posterior plot_forest plot_ppc plot_energy plot_compare plot_pair plot_autocorr plot_rank"
    " traceplot model_to_graphviz model_to_networkx to_inference_data predictions_to_inference_data"
).split()
"""What programs call on `pymc` that a scorer does instead."""

POSTERIOR = frozenset(SAMPLERS[:4]) | {"sample_posterior_predictive", "fit", "find_MAP"}
"""Of these, what needs the model's own data: whatever data a program puts in afterwards are others."""

STEPS = (  # noqa: SIM905
    "BinaryGibbsMetropolis BinaryMetropolis CategoricalGibbsMetropolis DEMetropolis DEMetropolisZ"
    " HamiltonianMC Metropolis NUTS Slice CompoundStep PGBART"
    " ElemwiseCategorical ElemwiseCategoricalStep EllipticalSlice SMC"
).split()
"""Step methods and, in the last line, those that older releases had."""
VARIATIONAL = "ADVI ASVGD SVGD FullRankADVI ImplicitGradient KLqp Empirical MeanField FullRank".split()  # noqa: SIM905
"""What programs make to approximate a posterior."""

RENAMED = {"MutableData": "Data", "ConstantData": "Data"}
"""Names that older PyMC releases have."""
ORDERED = ("univariate_ordered", "multivariate_ordered")
"""What older releases call the transform `ordered`."""
PYTENSORS = ("aesara", "theano")
"""What older releases call PyTensor."""


NO_VALUE = "there is no value here: programs do not sample, the scorer does"
NO_ARGUMENT = "nothing"
"""A name that no distribution has an argument of."""


class Nothing:
    """What a stubbed call returns: any attribute, item or call of it is itself; it has no value."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Itself."""
        return self

    def keys(self) -> Iterator[str]:
        """One, so that a distribution of `**` of this is refused and not made without arguments."""
        return iter((NO_ARGUMENT,))

    __getitem__ = __call__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __call__
    __pow__ = __rpow__ = __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = __matmul__ = __rmatmul__ = (
        __call__
    )

    def __setitem__(self, key: Any, value: Any) -> None:
        """Forgets it."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Forgets it."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        """Lets an error through."""

    def __repr__(self) -> str:
        return "<nothing: programs do not sample>"

    def __format__(self, specification: str) -> str:
        return "nothing"

    def _no_value(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(NO_VALUE)

    __float__ = __int__ = __index__ = __array__ = _no_value


NOTHING = Nothing()


def nothing(*args: Any, **kwargs: Any) -> Nothing:
    """Takes anything and does nothing."""
    return NOTHING


class _Run:
    """What the program that runs in this process has done so far."""

    sampled = False


def sampled(*args: Any, **kwargs: Any) -> Nothing:
    """Does nothing, and remembers that what follows is what a program does with its draws."""
    _Run.sampled = True
    return NOTHING


def begin() -> None:
    """Forgets what the program before has done."""
    _Run.sampled = False


class Refused:
    """What has no place in a model graph: using it says what to write instead.

    Args:
        name: What a program called.
        instead: What it should write.
    """

    def __init__(self, name: str, instead: str) -> None:
        self._message = f"{name} is not in the language of model graphs: {instead}"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses with what to write instead."""
        raise TypeError(self._message)


NUMBERS = "write the parameters that it finds as numbers"
FORMULAS = "write the columns and coefficients of the linear predictor out, for example a + b * x + c[group]"
COLUMNS = "write what it computes with NumPy, for example (x - x.mean()) / x.std()"
INSTEAD = {
    **dict.fromkeys(("bambi", "patsy", "formulaic", "formulae"), FORMULAS),
    **dict.fromkeys(("sklearn", "statsmodels"), COLUMNS),
    "preliz": NUMBERS,
    "jax": "a model is made of pm, np and pt, and samplers belong to the scorer",
    "pymc_bart": "sums of trees have no density. Write a spline or a Gaussian process, such as pm.gp.HSGP",
    "pymc3": "write a program of PyMC 5, which is imported as pymc",
    **dict.fromkeys(("pymc_extras", "pymc_experimental"), "write the model with distributions of pymc alone"),
}
"""Packages that programs import in vain, and what to write instead."""


def whole_data(*arrays: Any, batch_size: int = 0, **kwargs: Any) -> Any:
    """What `pm.Minibatch` returns here: scores count all rows."""
    return arrays[0] if len(arrays) == 1 else list(arrays)


def install() -> None:
    """Replaces sampling in PyMC and every function of ArviZ, in this process."""
    import arviz
    import pymc
    import pymc.ode

    pymc.Minibatch = whole_data
    pymc.ode.DifferentialEquation = Refused(
        "pm.ode.DifferentialEquation", "write its solution, or steps of Euler or Runge-Kutta in a loop"
    )
    pymc.get_data = str  # a file, by its name
    pymc.find_constrained_prior = Refused("pm.find_constrained_prior", NUMBERS)
    register = pymc.Model.register_rv

    def register_all_rows(self: Any, *args: Any, total_size: Any = None, **kwargs: Any) -> Any:
        return register(self, *args, **kwargs)

    pymc.Model.register_rv = register_all_rows

    for name in SAMPLERS:
        if hasattr(pymc, name):
            setattr(pymc, name, sampled if name in POSTERIOR else nothing)
    for name in (*STEPS, *VARIATIONAL):
        setattr(pymc, name, nothing)
    for name, now in RENAMED.items():
        if not hasattr(pymc, name):
            setattr(pymc, name, _renamed(getattr(pymc, now)))
    _restore_older()
    _keep_data()
    _take_numpy_numbers()
    _refuse_unknown_arguments()
    for module in [arviz, *_parts(arviz)]:
        for name, value in list(vars(module).items()):
            if not name.startswith("_") and inspect.isfunction(value):
                setattr(module, name, nothing)


def _keep_data() -> None:
    """Data that a program puts in after sampling are new rows to predict: the model's stay as they were."""
    import pymc
    from pytensor.compile.sharedvalue import SharedVariable

    put = pymc.Model.set_data

    @functools.wraps(put)
    def set_data(self: Any, *args: Any, **kwargs: Any) -> None:
        if not _Run.sampled:
            put(self, *args, **kwargs)

    pymc.Model.set_data = set_data
    assign = SharedVariable.set_value

    @functools.wraps(assign)
    def set_value(self: Any, *args: Any, **kwargs: Any) -> None:
        if not _Run.sampled:
            assign(self, *args, **kwargs)

    SharedVariable.set_value = set_value


def _take_numpy_numbers() -> None:
    """Lets a shape be a number of NumPy's, such as `group.max() + 1`, as older releases do."""
    from pymc.distributions import distribution

    def taking(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def convert(given: Any) -> Any:
            whole = isinstance(given, np.ndarray | np.generic) and np.ndim(given) == 0
            return plain(int(given) if whole and given.dtype.kind in "iu" else given)

        return convert

    distribution.convert_shape = taking(distribution.convert_shape)
    distribution.convert_size = taking(distribution.convert_size)


def _refuse_unknown_arguments() -> None:
    """Makes an argument that a distribution does not have an error, which PyTensor 3 takes without a word."""
    from pytensor.tensor.random.op import RandomVariable

    make = RandomVariable.__call__
    known = {
        name for name, each in inspect.signature(make).parameters.items() if each.kind != each.VAR_KEYWORD
    }

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> Any:
        unknown = next((name for name in kwargs if name not in known), None)
        if unknown is not None:
            raise TypeError(f"{self.name}() got an unexpected keyword argument {unknown!r}")
        return make(self, *args, **kwargs)

    RandomVariable.__call__ = made


def _restore_older() -> None:
    """Gives PyMC and PyTensor the spellings of older releases that mean what they mean today."""
    import pymc
    import pytensor
    from pymc.distributions import transforms

    for name in ORDERED:
        if not hasattr(transforms, name):
            setattr(transforms, name, transforms.ordered)
    for name in PYTENSORS:
        sys.modules.setdefault(name, pytensor)
        sys.modules.setdefault(f"{name}.tensor", pytensor.tensor)
    make, add = pymc.Model.__init__, pymc.Model.add_coord

    @functools.wraps(make)
    def model(self: Any, *args: Any, coords_mutable: Any = None, **kwargs: Any) -> None:
        if coords_mutable:
            kwargs["coords"] = {**(kwargs.get("coords") or {}), **coords_mutable}
        make(self, *args, **kwargs)

    @functools.wraps(add)
    def add_coord(self: Any, *args: Any, mutable: bool = False, **kwargs: Any) -> None:
        add(self, *args, **kwargs)

    pymc.Model.__init__ = model
    pymc.Model.add_coord = add_coord


def _parts(package: types.ModuleType) -> list[types.ModuleType]:
    return [
        value
        for name, value in vars(package).items()
        if inspect.ismodule(value)
        and value.__name__ in {f"{package.__name__}.{part}" for part in ("stats", "plots")}
    ]


def _renamed(function: Callable[..., Any]) -> Callable[..., Any]:
    def data(name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("mutable", None)
        return function(name, value, *args, **kwargs)

    return data

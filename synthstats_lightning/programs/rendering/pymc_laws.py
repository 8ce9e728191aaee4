"""Distributions of a model graph as PyMC's constructors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.programs.rendering.pymc_text import (
    NEGATIVE,
    PRODUCT,
    Code,
    number,
    shape_text,
)

_HURDLES = frozenset({"Poisson", "NegativeBinomial", "Gamma", "LogNormal"})
_ALIKE = frozenset({"LKJCorr", "LKJCorrCholesky", "Wishart"})
"""Distributions whose meaning differs between releases of PyMC."""


@dataclass(frozen=True, slots=True)
class Constructor:
    """A call of one of PyMC's distributions.

    Attributes:
        name: Name of the class in `pymc`.
        arguments: As they are written, with their names.
        takes_shape: Whether the shape of a variable is an argument of its own.
    """

    name: str
    arguments: tuple[str, ...]
    takes_shape: bool = True

    def dist(self) -> str:
        """The distribution without a variable."""
        return f"pm.{self.name}.dist({', '.join(self.arguments)})"

    def of_shape(self, shape: Sequence[int]) -> tuple[str, ...]:
        """The arguments of a variable of some shape."""
        given = bool(shape) and self.takes_shape
        return (*self.arguments, f"shape={shape_text(tuple(shape))}") if given else self.arguments


def constructor(law: Law, inputs: Sequence[Code], shape: Sequence[int]) -> Constructor:
    """How PyMC spells a distribution.

    Args:
        law: What a random node follows.
        inputs: Its parameters, in the order of the law's entry.
        shape: The node's shape.

    Raises:
        ValueError: If PyMC's releases do not agree on a constructor for it, or have none.
    """
    if law.components:
        return _composite(law, list(inputs), shape)
    return _plain(law.name, dict(zip(entry_of(law).parameters, inputs, strict=True)), shape)


def _plain(name: str, given: dict[str, Code], shape: Sequence[int]) -> Constructor:
    if name in _ALIKE:
        raise ValueError(f"{name} is not the same distribution in all releases of PyMC")
    match name:
        case "HalfNormal":
            given.pop("loc")
        case "Exponential" | "Gamma":
            given = _with_rate(given, {"Exponential": "lam", "Gamma": "beta"}[name])
        case "Interpolated":
            given.pop("cdf_points")
        case "HyperGeometric":
            good, bad, drawn = given["good"], given["bad"], given["n"]
            whole = Code(f"{good.text} + {bad.within(PRODUCT)}")
            given = {"N": whole, "k": good, "n": drawn}
        case "ZeroSumNormal" | "ZeroSumMatrix":
            axes = 1 if name == "ZeroSumNormal" else 2
            given = {**given, "n_zerosum_axes": number(axes)}
            if given["sigma"].text.count("[") and len(shape) > axes:
                raise ValueError("a ZeroSumNormal whose scale varies has no plain spelling")
            return Constructor("ZeroSumNormal", _named(given))
        case "StickBreakingWeights":
            return Constructor(name, (*_named(given), f"K={shape[-1] - 1}"), takes_shape=False)
        case "DiracDelta":
            return Constructor(name, _named(given))
    return Constructor(name, _named(given))


def _with_rate(given: dict[str, Code], rate: str) -> dict[str, Code]:
    """A scale as the rate that PyMC takes in its place."""
    scale = given.pop("scale")
    if scale.text.startswith("1 / ") and scale.binding == PRODUCT:
        return {**given, rate: Code(scale.text.removeprefix("1 / "))}
    if scale.is_number:
        exact = float(scale.text)
        found = next((r for r in _rates(exact) if 1.0 / r == exact), 1.0 / exact)
        return {**given, rate: number(found)}
    return {**given, rate: Code(f"1 / {scale.within(NEGATIVE)}")}


def _rates(scale: float) -> list[float]:
    """Numbers whose inverse may be a scale, those of few digits first."""
    return [float(f"{1.0 / scale:.{digits}g}") for digits in (3, 6, 9, 12, 15, 16, 17)]


def _named(given: dict[str, Code]) -> tuple[str, ...]:
    return tuple(f"{name}={value.text}" for name, value in given.items())


def _composite(law: Law, inputs: list[Code], shape: Sequence[int]) -> Constructor:
    own = [name for name in entry_of(law).parameters if "." not in name]
    values = dict(zip(own, inputs, strict=False))
    rest = inputs[len(own) :]
    parts = []
    for component in law.components:
        count = len(entry_of(component).parameters)
        parts.append(constructor(component, rest[:count], ()))
        rest = rest[count:]
    first = parts[0]
    match law.name:
        case "Truncated" | "Censored":
            bounds = [
                f"{name}={values[name].text if name in values else None}" for name in ("lower", "upper")
            ]
            return Constructor(law.name, (first.dist(), *bounds))
        case "Mixture":
            several = f"[{', '.join(part.dist() for part in parts)}]"
            which = first.dist() if len(parts) == 1 else several
            return Constructor("Mixture", (f"w={values['w'].text}", f"comp_dists={which}"))
        case "Hurdle" if law.components[0].name in _HURDLES:
            return Constructor(f"Hurdle{first.name}", (f"psi={values['psi'].text}", *first.arguments))
        case "Ordered":
            transform = "transform=pm.distributions.transforms.ordered"
            return Constructor(first.name, (*first.arguments, transform))
        case "LKJCholeskyCov":
            rows = int((8 * shape[-1] + 1) ** 0.5) // 2
            arguments = (f"n={rows}", f"eta={values['eta'].text}", f"sd_dist={first.dist()}")
            return Constructor(law.name, (*arguments, "compute_corr=False"), takes_shape=False)
        case "RandomWalk" if len(shape) == 1:
            dists = (f"init_dist={first.dist()}", f"innovation_dist={parts[1].dist()}")
            return Constructor(law.name, (*dists, f"steps={shape[0] - 1}"), takes_shape=False)
        case "AR" if len(shape) == 1:
            coefficients = f"pt.concatenate([[{values['constant'].text}], {values['rho'].text}])"
            sigma = f"sigma={values['sigma'].text}"
            start = f"init_dist={first.dist()}"
            return Constructor(law.name, (f"rho={coefficients}", sigma, start, "constant=True"))
    raise ValueError(f"{law.text()} has no plain spelling in PyMC")

"""Operations on each element, as what they do to expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from synthstats_lightning.programs.forms import algebra
from synthstats_lightning.programs.forms.algebra import Expression

PLAIN = (
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "floor",
    "ceil",
    "round",
    "sigmoid",
    "softplus",
    "log1mexp",
    "erf",
    "erfc",
    "erfcx",
    "ndtri",
    "gammaln",
    "digamma",
    "scaled_bessel",
    "sign",
    "abs",
    "not",
    "mod",
    "int_div",
    "clip",
)
"""Functions that are not taken apart."""


def _named(name: str) -> Callable[..., Expression]:
    return lambda *parts: algebra.function(name, *parts)


def _sorted(name: str) -> Callable[..., Expression]:
    return lambda *parts: algebra.function(name, *sorted(parts, key=repr))


def _power(base: Expression, exponent: Expression) -> Expression:
    if not exponent or (len(exponent) == 1 and not exponent[0].factors):
        return algebra.power(base, exponent[0].number if exponent else 0.0)
    return algebra.exponential(algebra.multiply(exponent, algebra.logarithm(base)))


def _largest(*parts: Expression) -> Expression:
    rest = [part for part in parts if part]
    if len(rest) == 1 and len(parts) == 2:
        return algebra.positive_part(rest[0])
    return _sorted("max")(*parts)


def _smallest(*parts: Expression) -> Expression:
    rest = [part for part in parts if part]
    if len(rest) == 1 and len(parts) == 2:
        return algebra.scaled(-1.0, algebra.positive_part(algebra.scaled(-1.0, rest[0])))
    return _sorted("min")(*parts)


def _switch(condition: Expression, first: Expression, second: Expression) -> Expression:
    other = algebra.add(algebra.number(1.0), algebra.scaled(-1.0, condition))
    return algebra.add(algebra.multiply(condition, first), algebra.multiply(other, second))


def _below(first: Expression, second: Expression) -> Expression:
    return algebra.step(algebra.add(second, algebra.scaled(-1.0, first)))


ELEMENTWISE: Mapping[str, Callable[..., Expression]] = {
    "exp": algebra.exponential,
    "log": algebra.logarithm,
    "sqrt": lambda x: algebra.power(x, 0.5),
    "square": lambda x: algebra.power(x, 2.0),
    "reciprocal": lambda x: algebra.power(x, -1.0),
    "neg": lambda x: algebra.scaled(-1.0, x),
    "add": algebra.add,
    "sub": lambda x, y: algebra.add(x, algebra.scaled(-1.0, y)),
    "mul": algebra.multiply,
    "div": lambda x, y: algebra.multiply(x, algebra.power(y, -1.0)),
    "pow": _power,
    "log1p": lambda x: algebra.logarithm(algebra.add(algebra.number(1.0), x)),
    "expm1": lambda x: algebra.add(algebra.exponential(x), algebra.number(-1.0)),
    "switch": _switch,
    "lt": _below,
    "le": _below,
    "gt": lambda x, y: _below(y, x),
    "ge": lambda x, y: _below(y, x),
    "maximum": _largest,
    "minimum": _smallest,
    **{name: _named(name) for name in PLAIN},
    **{name: _sorted(name) for name in ("eq", "ne", "and", "or", "xor")},
}
"""What each operation does to expressions."""

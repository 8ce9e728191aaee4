"""A distribution with expressions for its parameters, by mean where that is what programs mean."""

from __future__ import annotations

from typing import NamedTuple

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.forms import algebra
from synthstats_lightning.programs.forms.algebra import Expression
from synthstats_lightning.programs.laws import Law


class Stack(NamedTuple):
    """Several expressions along an axis.

    Attributes:
        items: The expressions, in order.
    """

    items: tuple[Expression, ...]


Value = Expression | Stack


class Described(NamedTuple):
    """A distribution with its parameters, or one made of others.

    Attributes:
        name: Its name, with bounds and marks.
        parameters: Name and expressions of each parameter, one but for lists.
        components: What it is made of.
    """

    name: str
    parameters: tuple[tuple[str, tuple[Expression, ...]], ...]
    components: tuple[Described, ...] = ()


def described(law: Law, values: list[Value]) -> Described:
    """A law with its parameters.

    Args:
        law: What the response follows.
        values: Its parameters in order, taken from the front.
    """
    if not law.components:
        entry = entry_of(law)
        pairs = [(name, values.pop(0)) for name in entry.parameters]
        return _by_mean(law.name, {name: _items(value) for name, value in pairs if name not in entry.fixed})
    own = law.bounds or tuple(name for name in entry_of(law).parameters if "." not in name)
    parameters = tuple((name, _items(values.pop(0))) for name in own)
    parts = tuple(described(component, values) for component in law.components)
    return Described(law.name, parameters, parts)


def _items(value: Value) -> tuple[Expression, ...]:
    return value.items if isinstance(value, Stack) else (value,)


def _by_mean(name: str, parameters: dict[str, tuple[Expression, ...]]) -> Described:
    """The distribution by its mean where the parameters are written for that."""
    plain = {key: items[0] for key, items in parameters.items() if len(items) == 1}
    if len(plain) == len(parameters):
        if name == "NegativeBinomial":
            mean = algebra.add(
                algebra.multiply(plain["n"], algebra.power(plain["p"], -1.0)),
                algebra.scaled(-1.0, plain["n"]),
            )
            if not _shares(mean, plain["n"]):
                parameters = {"mu": (mean,), "alpha": (plain["n"],)}
        elif name == "Gamma":
            mean = algebra.multiply(plain["alpha"], plain["scale"])
            if not algebra.differs_by_row(plain["alpha"]):
                parameters = {"mu": (mean,), "alpha": (plain["alpha"],)}
            else:
                spread = algebra.multiply(algebra.power(plain["alpha"], 0.5), plain["scale"])
                if not algebra.differs_by_row(spread):
                    parameters = {"mu": (mean,), "sigma": (spread,)}
        elif name in ("Beta", "BetaBinomial"):
            total = algebra.add(plain["alpha"], plain["beta"])
            if not algebra.differs_by_row(total) and algebra.differs_by_row(plain["alpha"]):
                mean = algebra.multiply(plain["alpha"], algebra.power(total, -1.0))
                kept = {"n": parameters["n"]} if "n" in parameters else {}
                parameters = {**kept, "mu": (mean,), "nu": (total,)}
    return Described(name, tuple(parameters.items()))


def _shares(first: Expression, second: Expression) -> bool:
    names = [
        {each.name for each in algebra.atoms(one) if each.kind == "parameter"} for one in (first, second)
    ]
    return bool(names[0] & names[1])

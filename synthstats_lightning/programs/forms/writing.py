"""A form in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthstats_lightning.programs.forms import algebra
from synthstats_lightning.programs.forms.algebra import Atom, Expression
from synthstats_lightning.programs.forms.described import Described
from synthstats_lightning.programs.forms.slots import (
    MARK,
    POOLED,
    Factor,
    Part,
    Sum,
    free_slots,
    parameters,
    sum_of,
)

CONSTANT = "·"
"""What stands for a constant."""
LETTERS = "abcdfghkmpqrst"
"""Names of coefficients, in the order in which they are read."""
EFFECTS = "uvwz"
"""Names of vectors whose elements are pooled."""
_INFIX = {"eq": " == ", "ne": " != ", "and": " & ", "or": " | "}


def form_text(form: Described) -> str:
    """One line, which is the same for programs of one form.

    Args:
        form: The response's distribution with its parameters.
    """
    return _Writer(form).text()


class _Writer:
    def __init__(self, form: Described) -> None:
        self.form = form
        self.sums = {expression: sum_of(expression) for expression in expressions(form)}
        self.free = free_slots(self.sums.values())
        columns = {
            each.name for one in self.sums for each in algebra.atoms(one) if each.kind in ("column", "data")
        }
        self.taken = columns
        self.coefficients = _names(LETTERS, columns)
        self.effects = _names(EFFECTS, columns)
        self.symbols: dict[object, str] = {}

    def text(self) -> str:
        """The whole line."""
        return self._distribution(self._ordered(self.form))

    def _ordered(self, form: Described) -> Described:
        """Components of a mixture in an order that does not depend on names."""
        parts = tuple(self._ordered(part) for part in form.components)
        if form.name == "Mixture" and not any(
            map(algebra.differs_by_row, (item for _, items in form.parameters for item in items))
        ):
            parts = tuple(sorted(parts, key=self._blank))
        return form._replace(components=parts)

    def _blank(self, form: Described) -> str:
        shown = [[self._blank_sum(item) for item in items] for _, items in form.parameters]
        return f"{form.name}{shown}{[self._blank(part) for part in form.components]}"

    def _blank_sum(self, expression: Expression) -> str:
        return str([algebra.blank(rows) for rows in algebra.by_rows(expression)])

    def _distribution(self, form: Described) -> str:
        shown = []
        mixed = form.name == "Mixture"
        for name, items in form.parameters:
            if mixed and not any(map(algebra.differs_by_row, items)):
                continue  # weights that are the same for all rows
            texts = [self._parameter(name, item, alone=len(items) == 1) for item in items]
            shown.append(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        parts = [self._distribution(part) for part in form.components]
        return f"{form.name}({', '.join([*shown, *parts])})"

    def _parameter(self, name: str, expression: Expression, *, alone: bool) -> str:
        found = self.sums[expression]
        if not algebra.differs_by_row(expression):
            if not parameters(expression):
                return CONSTANT
            (part,) = found
            if alone and part.slot in self.free and part.slot not in self.symbols and name not in self.taken:
                name = "scale" if name in LETTERS else name
                names = [name, *(f"{name}{i}" for i in range(2, 99))]
                self.symbols[part.slot] = next(n for n in names if n not in self.symbols.values())
                return self.symbols[part.slot]
        return self._sum(found)

    def _sum(self, found: Sum) -> str:
        if len(found) == 1 and (text := self._log_linear(found[0])) is not None:
            return text
        terms = [self._part(part) for part in found]
        text = terms[0] if terms else "0"
        for term in terms[1:]:
            text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
        return text

    def _log_linear(self, part: Part) -> str | None:
        """A free number times an exponential, as the exponential of a sum with a free number."""
        links = [
            factor
            for factor, exponent in part.factors
            if factor.atom.kind == "exp" and exponent == 1.0 and not _is_power(factor)
        ]
        if part.slot not in self.free or len(links) != 1:
            return None
        coefficient = self._coefficient(part.slot)
        rest = Part(algebra.number(1.0), tuple(pair for pair in part.factors if pair[0] is not links[0]))
        text = f"exp({coefficient} + {self._sum(links[0].arguments[0])})"
        return f"{self._part(rest)}*{text}" if rest.factors else text

    def _part(self, part: Part) -> str:
        above: list[str] = []
        below: list[str] = []
        coefficient = self._coefficient(part.slot)
        for factor, exponent in part.factors:
            text = self._factor(factor)
            size = abs(exponent)
            if size != 1.0:
                text = f"{text}^{_digits(size)}"
            (above if exponent > 0 else below).append(text)
        if not above or coefficient not in ("1", "-1"):
            above = [coefficient, *above]
        elif coefficient == "-1":
            above[0] = f"-{above[0]}"
        text = "*".join(above)
        return text + "".join(f"/{each}" for each in below)

    def _coefficient(self, slot: Expression) -> str:
        if slot in self.free:
            return self._symbol(slot, self.coefficients)
        names = parameters(slot)
        if not names:
            constants = any(term.factors for term in slot)
            return CONSTANT if constants else _digits(sum(term.number for term in slot))
        terms = []
        for term in slot:
            shown = [self._fixed(each, exponent) for each, exponent in term.factors]
            if kept := [each for each in shown if each]:
                terms.append("*".join(kept))
        unique = list(dict.fromkeys(terms))
        return unique[0] if len(unique) == 1 else f"({' + '.join(unique)})"

    def _fixed(self, found: Atom, exponent: float) -> str:
        """A factor of a coefficient that is not free."""
        if found.kind == "constant":
            return ""
        if found.kind == "parameter":
            text = self._symbol(found, self.coefficients)
        elif found.kind == "vector":
            text = self._factor(Factor(found, ()))
        else:
            text = f"{found.kind}({', '.join(self._coefficient(part) for part in found.arguments)})"
        return text if exponent == 1.0 else f"{text}^{_digits(exponent)}"

    def _power(self, factor: Factor) -> str:
        """`exp(b*log(x))` as `x^b`."""
        (part,) = factor.arguments[0]
        ((inner, _),) = part.factors
        base = self._sum(inner.arguments[0])
        plain = base if base.isidentifier() else f"({base})"
        return f"{plain}^{self._coefficient(part.slot)}"

    def _factor(self, factor: Factor) -> str:
        found = factor.atom
        match found.kind:
            case "column" | "data":
                name = found.name.replace(MARK, "")
                return name if name.isprintable() else ascii(name)
            case "vector":
                name, _, where = found.name.partition("[")
                if name.endswith(POOLED):
                    base = self._symbol(name, self.effects)
                else:
                    base = self._symbol(name, self.coefficients)
                series = next((each for each in ("RandomWalk", "ICAR", "CAR", "AR") if each in name), "")
                return f"{series or base}[{where.replace(MARK, '') or 'component'}]"
            case "label":
                return "label"
            case "exp" if _is_power(factor):
                return self._power(factor)
            case "sum":
                return f"({self._sum(factor.arguments[0])})"
            case "positive":
                return f"max({self._sum(factor.arguments[0])}, 0)"
            case "step":
                return f"[{self._sum(factor.arguments[0])} > 0]"
            case "select":
                position, *items = factor.arguments
                return f"[{', '.join(map(self._sum, items))}][{self._sum(position)}]"
            case kind if kind in _INFIX:
                return f"[{_INFIX[kind].join(map(self._sum, factor.arguments))}]"
        shown = [self._sum(each) for each in factor.arguments]
        return f"{found.kind}({', '.join([*shown, *([found.name] if found.name else [])])})"

    def _symbol(self, key: object, names: Iterator[str]) -> str:
        if key not in self.symbols:
            self.symbols[key] = next(names)
        return self.symbols[key]


def expressions(form: Described) -> list[Expression]:
    """Every parameter of a distribution and of its components.

    Args:
        form: The distribution with its parameters.
    """
    own = [item for _, items in form.parameters for item in items]
    return own + [item for part in form.components for item in expressions(part)]


def _is_power(factor: Factor) -> bool:
    (argument,) = factor.arguments
    if len(argument) != 1 or len(argument[0].factors) != 1:
        return False
    ((inner, exponent),) = argument[0].factors
    return inner.atom.kind == "log" and exponent == 1.0


def _names(letters: Sequence[str], taken: set[str]) -> Iterator[str]:
    number = 1
    while True:
        for letter in letters:
            name = letter if number == 1 else f"{letter}{number}"
            if name not in taken:
                yield name
        number += 1


def _digits(value: float) -> str:
    return f"{value:.4g}"

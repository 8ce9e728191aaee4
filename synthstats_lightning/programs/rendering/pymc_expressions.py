"""Operations of a model graph as Python: NumPy where only data go in, else PyTensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthstats_lightning.programs.rendering.pymc_text import (
    ATOM,
    BITWISE,
    NEGATIVE,
    POWER,
    PRODUCT,
    SUM,
    Code,
)

_UNARY = ("exp", "log", "sqrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")
_IN_BOTH = frozenset({*_UNARY, "log1p", "expm1", "floor", "ceil", "sign", "abs", "clip"})
"""Names that NumPy and PyTensor share."""
_IN_PYTENSOR = frozenset(["sigmoid", "softplus", "log1mexp", "erf", "erfc", "erfcx", "gammaln"])
"""Functions of PyTensor under the graph language's name that NumPy lacks."""
_NAMED = {
    "digamma": "pt.psi",
    "scaled_bessel": "pt.ive",
    "cholesky": "pt.linalg.cholesky",
    "inverse": "pt.linalg.inv",
    "determinant": "pt.linalg.det",
    "solve": "pt.linalg.solve",
}
_INFIX = {
    "sub": (" - ", SUM),
    "div": (" / ", PRODUCT),
    "int_div": (" // ", PRODUCT),
    "mod": (" % ", PRODUCT),
    "and": (" & ", BITWISE),
    "or": (" | ", BITWISE),
    "xor": (" ^ ", BITWISE),
}
_RELATIONS = {
    "eq": ("np.equal", "pt.eq"),
    "ne": ("np.not_equal", "pt.neq"),
    "lt": ("np.less", "pt.lt"),
    "le": ("np.less_equal", "pt.le"),
    "gt": ("np.greater", "pt.gt"),
    "ge": ("np.greater_equal", "pt.ge"),
}
_REDUCTIONS = frozenset({"sum", "prod", "min", "max", "mean", "any", "all"})


def expression(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Code], shapes: Sequence[tuple[int, ...]]
) -> Code:
    """One operation as Python.

    Args:
        op: A name of `programs.operations`.
        attributes: The node's attributes.
        inputs: What goes into it, as code.
        shapes: The shape of each input.

    Returns:
        An expression that gives the operation's value.
    """
    is_data = all(value.is_data for value in inputs)
    written = _Written(op, attributes, list(inputs), shapes, "np" if is_data else "pt")
    text, binding = written.arithmetic() or written.layout() or written.call()
    return Code(text, binding, is_data=is_data and not text.startswith("pt."))


class _Written:
    """An operation being written; each method tries some operations, and yields a text and how it binds."""

    def __init__(
        self,
        op: str,
        attributes: Mapping[str, Any],
        inputs: list[Code],
        shapes: Sequence[tuple[int, ...]],
        library: str,
    ) -> None:
        self.op, self.attributes, self.inputs, self.shapes = op, attributes, inputs, shapes
        self.library = library

    def arithmetic(self) -> tuple[str, int] | None:
        """What Python has a sign for."""
        first = self.inputs[0]
        if self.op in _INFIX:
            symbol, binding = _INFIX[self.op]
            return f"{first.within(binding)}{symbol}{self.inputs[1].within(binding + 1)}", binding
        match self.op:
            case "add":
                terms = [term.within(SUM) for term in self.inputs]
                rest = [f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in terms[1:]]
                return terms[0] + "".join(rest), SUM
            case "mul":
                return " * ".join(factor.within(NEGATIVE) for factor in self.inputs), PRODUCT
            case "neg":
                return f"-{first.within(POWER)}", NEGATIVE
            case "reciprocal":
                return f"1 / {first.within(NEGATIVE)}", PRODUCT
            case "square":
                return f"{first.within(ATOM)} ** 2", POWER
            case "pow":
                return f"{first.within(ATOM)} ** {self.inputs[1].within(POWER)}", POWER
            case "not":
                return f"~{first.within(ATOM)}", NEGATIVE
            case "identity":
                return first.text, first.binding
        return None

    def layout(self) -> tuple[str, int] | None:
        """What only arranges values."""
        first = self.inputs[0]
        match self.op:
            case "cast":
                return f'{self._array(first)}.astype("{self.attributes["dtype"]}")', ATOM
            case "reshape":
                return f"{self._array(first)}.reshape({tuple(self.attributes['shape'])})", ATOM
            case "index":
                return f"{self._array(first)}[{', '.join(map(_index, self.attributes['index']))}]", ATOM
            case "take":
                whole = ":, " * self.attributes["axis"]
                return f"{self._array(first)}[{whole}{self.inputs[1].text}]", ATOM
            case "transpose":
                return self._transposed(list(self.attributes["order"])), ATOM
        return None

    def call(self) -> tuple[str, int]:
        """What is a function."""
        texts = [value.text for value in self.inputs]
        name = f"{self.library}.{self.op}"
        match self.op:
            case op if op in _REDUCTIONS:
                return self._reduced(), ATOM
            case op if op in _RELATIONS:
                name = _RELATIONS[op][self.library == "pt"]
            case "minimum" | "maximum":
                return _nested(name, texts), ATOM
            case "stack" | "concatenate":
                return f"{name}([{', '.join(texts)}], axis={self.attributes['axis']})", ATOM
            case "broadcast_to":
                texts.append(str(tuple(self.attributes["shape"])))
            case "cumsum" | "cumprod" | "sort":
                texts.append(f"axis={self.attributes['axis']}")
            case "switch":
                name = f"{self.library}.where"
            case "round" if self.library == "pt":
                texts.append('mode="half_to_even"')
            case "dot":
                plain = self.library == "pt" and max(map(len, self.shapes)) <= 2
                name = "pt.dot" if plain else f"{self.library}.matmul"
            case "ndtri":
                # PyTensor has no such function of its own
                return f"pt.erfinv(2.0 * {self.inputs[0].within(NEGATIVE)} - 1.0) * np.sqrt(2.0)", PRODUCT
            case "log_determinant":
                return f"pt.linalg.slogdet({texts[0]})[1]", ATOM
            case "solve_triangular":
                name = "pt.linalg.solve_triangular"
                texts.append(f"lower={bool(self.attributes['lower'])}")
            case op if op in _IN_PYTENSOR:
                name = f"pt.{op}"
            case op if op in _NAMED:
                name = _NAMED[op]
            case op if op not in _IN_BOTH | {"round"}:
                raise ValueError(f"the operation {op} has no spelling in PyTensor")
        return f"{name}({', '.join(texts)})", ATOM

    def _array(self, value: Code) -> str:
        """Something with methods, which PyTensor's where another operand is random."""
        if self.library == "pt" and value.is_data:
            return f"pt.as_tensor({value.text})"
        return value.array()

    def _reduced(self) -> str:
        axes = list(self.attributes["axis"])
        first = self.inputs[0]
        if len(axes) == len(self.shapes[0]):
            if self.library == "np" and self.shapes[0]:
                return f"{first.array()}.{self.op}()"
            return f"{self.library}.{self.op}({first.text})"
        axis = str(axes[0]) if len(axes) == 1 else str(tuple(axes))
        return f"{self.library}.{self.op}({first.text}, axis={axis})"

    def _transposed(self, order: list[int | str]) -> str:
        first = self.inputs[0]
        kept = [axis for axis in order if isinstance(axis, int)]
        axes = list(range(len(self.shapes[0])))
        if order == axes[::-1] and len(axes) == 2:
            return f"{self._array(first)}.T"
        if kept == axes and not first.is_number:
            return f"{self._array(first)}[{', '.join('None' if axis == 'x' else ':' for axis in order)}]"
        entries = ", ".join(repr(axis) for axis in order)
        array = f"pt.as_tensor({first.text})" if first.is_data else first.within(ATOM)
        return f"{array}.dimshuffle({entries})"


def _nested(name: str, texts: Sequence[str]) -> str:
    text = texts[0]
    for other in texts[1:]:
        text = f"{name}({text}, {other})"
    return text


def _index(entry: int | Mapping[str, Sequence[int | None]]) -> str:
    if isinstance(entry, int):
        return str(entry)
    start, stop, step = ("" if part is None else str(part) for part in entry["slice"])
    return f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else "")

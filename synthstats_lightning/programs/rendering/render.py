"""A model as one line of readable mathematics, for logs and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synthstats_lightning.programs.canonical import RESPONSE_NAME, canonicalise
from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.laws import Law, read_law

MAX_LENGTH = 400
"""Most characters of a summary; longer ones end in an ellipsis."""
PLACEHOLDER = "·"
"""What stands for a constant in a structure."""
_SHOWN = 4

# How tightly an expression binds: an operand that binds less than its place asks for gets parentheses.
_LOGIC, _COMPARISON, _SUM, _NEGATIVE, _PRODUCT, _POWER, _ATOM = range(7)

_INFIX = {
    "and": (" & ", _LOGIC),
    "or": (" | ", _LOGIC),
    "xor": (" xor ", _LOGIC),
    "eq": (" == ", _COMPARISON),
    "ne": (" != ", _COMPARISON),
    "lt": (" < ", _COMPARISON),
    "le": (" <= ", _COMPARISON),
    "gt": (" > ", _COMPARISON),
    "ge": (" >= ", _COMPARISON),
    "sub": (" - ", _SUM),
    "div": ("/", _PRODUCT),
    "int_div": ("//", _PRODUCT),
    "mod": (" mod ", _PRODUCT),
    "dot": (" @ ", _PRODUCT),
    "pow": ("^", _POWER),
}
_NAMES = {"switch": "where", "minimum": "min", "maximum": "max", "concatenate": "concat"}
# Layout that the reader does not need to see.
_TRANSPARENT = frozenset({"identity", "broadcast_to", "reshape"})
_REDUCTIONS = frozenset({"sum", "prod", "min", "max", "mean", "any", "all"})
# What standardised columns come to in a graph.
_DEVIATION = re.compile(r"mean\(\((.+) - mean\(\1\)\)\^2\)")


@dataclass(frozen=True, slots=True)
class _Text:
    text: str
    binding: int = _ATOM
    is_constant: bool = False

    def within(self, binding: int) -> str:
        """The text as an operand where at least `binding` is asked for."""
        return self.text if self.binding >= binding else f"({self.text})"


def summarise(graph: ModelGraph, response_name: str = RESPONSE_NAME) -> str:
    """One line of mathematics: the response's distribution, then the priors.

    Parameters are the graph's; those that PyMC's constructor would read otherwise are named, as in
    `Exponential(scale=0.5)`. The line describes the canonical form, so equal models read the same.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned, canonical or not.
        response_name: What to call the response.

    Returns:
        For example `length ~ Normal(v0 + v1*log(age), v2); v0 ~ Normal(2.5, 1); v1 ~ Normal(0, 0.5);
        v2 ~ HalfNormal(0.3)`: printable, at most `MAX_LENGTH` characters, numbers to four digits.
    """
    return _summarise(graph, response_name, _number)


def summarise_structure(graph: ModelGraph, response_name: str = RESPONSE_NAME) -> str:
    """`summarise` with every constant shown as `·`: equal for models of equal `structure_hash`."""
    return _summarise(graph, response_name, lambda node: _Text(PLACEHOLDER, is_constant=True))


def statements(graph: ModelGraph, response_name: str = RESPONSE_NAME) -> list[str]:
    """The parts of `summarise`, each whole: the response's distribution, then the priors.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned, canonical or not.
        response_name: What to call the response.
    """
    return _statements(graph, response_name, _number)


def _summarise(graph: ModelGraph, response_name: str, constant: Callable[[Node], _Text]) -> str:
    line = "; ".join(_statements(graph, response_name, constant))
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…"


def _statements(graph: ModelGraph, response_name: str, constant: Callable[[Node], _Text]) -> list[str]:
    canonical = canonicalise(graph)
    texts: list[_Text] = []
    found: list[tuple[int, str]] = []
    for index, node in enumerate(canonical.nodes):
        inputs = [texts[i] for i in node.inputs]
        if node.op == "random":
            is_response = index == canonical.response
            name = _printable(response_name) if is_response else node.attributes["name"]
            text = f"{name} ~ {_distribution(node, inputs, show_shape=not is_response)}"
            # the number, not the text: v10 comes after v2
            found.append((-1 if is_response else int(name[1:]), text))
            texts.append(_Text(name))
        elif node.op == "constant":
            texts.append(constant(node))
        elif node.op == "covariate":
            texts.append(_Text(_printable(node.attributes["name"])))
        else:
            if node.op in _REDUCTIONS and not canonical.shapes[index]:
                node = Node(node.op)  # over everything: the axes need not be named
            texts.append(_clipped(_expression(node, inputs)))
    return [text for _, text in sorted(found)]


def _distribution(node: Node, inputs: Sequence[_Text], *, show_shape: bool) -> str:
    shown = _law(read_law(node.attributes), list(inputs))
    shape = node.attributes["shape"]
    if not (show_shape and shape):
        return shown
    return f"{shown[:-1]}, shape={shape[0] if len(shape) == 1 else tuple(shape)})"


def _law(law: Law, inputs: list[_Text]) -> str:
    """A distribution with its parameters, which are taken from the front of `inputs`."""
    if not law.components:
        entry = entry_of(law)
        values = [inputs.pop(0).text for _ in entry.parameters]
        shown = [
            f"{name}={value}" if name in entry.named else value
            for name, value in zip(entry.parameters, values, strict=True)
            if name not in entry.fixed
        ]
    elif law.bounds:
        bounds = [f"{name}={inputs.pop(0).text}" for name in law.bounds]
        shown = [_law(law.components[0], inputs), *bounds]
    else:
        own = [name for name in entry_of(law).parameters if "." not in name]
        shown = [inputs.pop(0).text for _ in own]
        shown += [_law(component, inputs) for component in law.components]
    return f"{law.name}({', '.join(shown)})"


def _expression(node: Node, inputs: Sequence[_Text]) -> _Text:
    first = inputs[0]
    match node.op:
        case "add":
            return _Text(_signed_sum([term.within(_SUM) for term in inputs]), _SUM)
        case "mul":
            ordered = _constants_first(inputs)
            factors = [ordered[0].within(_NEGATIVE), *(factor.within(_POWER) for factor in ordered[1:])]
            return _Text("*".join(factors), _PRODUCT)
        case "neg":
            return _Text(f"-{_unsigned(first, _PRODUCT)}", _NEGATIVE)
        case "sqrt" if deviation := _DEVIATION.fullmatch(first.text):
            return _Text(f"std({deviation[1]})")
        case "square":
            return _Text(f"{first.within(_ATOM)}^2", _POWER)
        case "reciprocal":
            return _Text(f"1/{first.within(_POWER)}", _PRODUCT)
        case "sub" | "div" | "int_div" | "mod" | "dot" | "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "pow":
            return _infix(node.op, inputs)
        case "and" | "or" | "xor":
            symbol, binding = _INFIX[node.op]
            return _Text(symbol.join(value.within(_COMPARISON) for value in inputs), binding)
        case "index":
            return _Text(f"{first.within(_ATOM)}[{_indices(node)}]")
        case "take" if node.attributes["axis"] == 0:
            return _Text(f"{first.within(_ATOM)}[{inputs[1].text}]")
        case "cast":
            return _call(
                {"float64": "float", "int64": "int", "bool": "bool"}[node.attributes["dtype"]], inputs
            )
        case "stack" if node.attributes["axis"] == 0:
            return _Text(f"[{', '.join(value.text for value in inputs)}]")
        case "transpose" if _keeps_order(node):
            return first
        case op if op in _TRANSPARENT:
            return first
        case op:
            return _call(_NAMES.get(op, op), inputs, node.attributes)


def _infix(op: str, inputs: Sequence[_Text]) -> _Text:
    symbol, binding = _INFIX[op]
    # left-associative, but a power or a comparison takes no operand of its own kind bare
    left = _NEGATIVE if op == "div" else binding if binding in (_SUM, _PRODUCT) else binding + 1
    return _Text(f"{inputs[0].within(left)}{symbol}{_unsigned(inputs[1], binding + 1)}", binding)


def _unsigned(operand: _Text, binding: int) -> str:
    text = operand.within(binding)
    return f"({text})" if text.startswith("-") else text


def _call(name: str, inputs: Sequence[_Text], attributes: Any = None) -> _Text:
    shown = [value.text for value in inputs]
    shown += [f"{key}={_attribute(value)}" for key, value in (attributes or {}).items() if key != "shape"]
    return _Text(f"{name}({', '.join(shown)})")


def _attribute(value: Any) -> str:
    if isinstance(value, list | tuple):
        return str(value[0]) if len(value) == 1 else f"({', '.join(map(str, value))})"
    return str(value)


def _signed_sum(terms: Sequence[str]) -> str:
    return terms[0] + "".join(
        f" - {term[1:]}" if term.startswith("-") else f" + {term}" for term in terms[1:]
    )


def _constants_first(factors: Sequence[_Text]) -> list[_Text]:
    """Numbers, then what has a sign, then the rest; the canonical order puts numbers last."""
    return sorted(factors, key=lambda factor: (not factor.is_constant, factor.binding != _NEGATIVE))


def _indices(node: Node) -> str:
    shown = []
    for entry in node.attributes["index"]:
        if isinstance(entry, int):
            shown.append(str(entry))
            continue
        start, stop, step = ("" if part is None else str(part) for part in entry["slice"])
        shown.append(f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else ""))
    return ", ".join(shown)


def _keeps_order(node: Node) -> bool:
    kept = [axis for axis in node.attributes["order"] if axis != "x"]
    return bool(kept == sorted(kept))


def _number(node: Node) -> _Text:
    array = constant_array(node)
    if array.ndim == 0:
        text = _digits(array.item())
        return _Text(text, _NEGATIVE if text.startswith("-") else _ATOM, is_constant=True)
    values = [_digits(value) for value in array.ravel()[:_SHOWN].tolist()]
    more = [f"… {array.size} values"] if array.size > _SHOWN else []
    return _Text(f"[{', '.join(values + more)}]", is_constant=True)


def _digits(value: float | int | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}"


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _clipped(text: _Text) -> _Text:
    # an expression shared by many readers must not grow the line exponentially
    if len(text.text) <= MAX_LENGTH:
        return text
    return _Text(text.text[:MAX_LENGTH] + "…")

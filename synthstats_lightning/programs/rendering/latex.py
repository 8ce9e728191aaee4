"""A model as LaTeX, one statement a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from synthstats_lightning.programs.canonical import RESPONSE_NAME, canonicalise
from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.laws import Law, read_law

MAX_LENGTH = 2_000
"""Most characters of an expression; what is longer is shown as dots."""
_SHOWN = 3

# How tightly an expression binds: an operand that binds less than its place asks for gets parentheses.
_RELATION, _SUM, _PRODUCT, _POWER, _ATOM = range(5)

_RELATIONS = {
    "eq": "=",
    "ne": r"\neq",
    "lt": "<",
    "le": r"\leq",
    "gt": ">",
    "ge": r"\geq",
    "and": r"\wedge",
    "or": r"\vee",
    "xor": r"\oplus",
}
_FUNCTIONS = {
    "log": r"\log",
    "sin": r"\sin",
    "cos": r"\cos",
    "tanh": r"\tanh",
    "max": r"\max",
    "min": r"\min",
}
_FUNCTIONS |= {"maximum": r"\max", "minimum": r"\min", "sum": r"\sum", "prod": r"\prod"}
_TRANSPARENT = frozenset({"identity", "broadcast_to", "reshape", "transpose", "cast"})


class _Tex(NamedTuple):
    text: str
    binding: int = _ATOM
    is_number: bool = False

    def within(self, binding: int) -> str:
        """The text as an operand where at least `binding` is asked for."""
        return self.text if self.binding >= binding else rf"\left({self.text}\right)"


def latex_statements(graph: ModelGraph, response_name: str = RESPONSE_NAME) -> list[str]:
    """The response's distribution and the priors, each as LaTeX mathematics.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned, canonical or not.
        response_name: What to call the response.
    """
    canonical = canonicalise(graph)
    texts: list[_Tex] = []
    statements: list[tuple[int, str]] = []
    for index, node in enumerate(canonical.nodes):
        inputs = [texts[i] for i in node.inputs]
        if node.op == "random":
            is_response = index == canonical.response
            number = -1 if is_response else int(node.attributes["name"][1:])
            name = _name(response_name) if is_response else f"v_{{{number}}}"
            shape = "" if is_response else _shape(node.attributes["shape"])
            law = _law(read_law(node.attributes), list(inputs))
            statements.append((number, rf"{name} \sim {law}{shape}"))
            texts.append(_Tex(name))
        elif node.op == "constant":
            texts.append(_constant(node))
        elif node.op == "covariate":
            texts.append(_Tex(_name(node.attributes["name"])))
        else:
            texts.append(_clipped(_expression(node, inputs)))
    return [text for _, text in sorted(statements)]


def to_latex(graph: ModelGraph, response_name: str = RESPONSE_NAME) -> str:
    """A model as an `align*` environment of amsmath.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned, canonical or not.
        response_name: What to call the response.
    """
    lines = [text.replace(r" \sim ", r" &\sim ", 1) for text in latex_statements(graph, response_name)]
    body = " \\\\\n".join(f"  {line}" for line in lines)
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


def _law(law: Law, inputs: list[_Tex]) -> str:
    """A distribution with its parameters, which are taken from the front of `inputs`."""
    if not law.components:
        entry = entry_of(law)
        values = [(name, inputs.pop(0).text) for name in entry.parameters]
        shown = [
            rf"{_name(name)}={value}" if name in entry.named else value
            for name, value in values
            if name not in entry.fixed
        ]
    elif law.bounds:
        bounds = [rf"{_name(name)}={inputs.pop(0).text}" for name in law.bounds]
        shown = [_law(law.components[0], inputs), *bounds]
    else:
        own = [name for name in entry_of(law).parameters if "." not in name]
        shown = [inputs.pop(0).text for _ in own]
        shown += [_law(component, inputs) for component in law.components]
    return _call(_name(law.name), shown)


def _expression(node: Node, inputs: Sequence[_Tex]) -> _Tex:
    first = inputs[0]
    match node.op:
        case "add":
            terms = [term.within(_SUM) for term in inputs]
            rest = [f" - {t[1:]}" if t.startswith("-") else f" + {t}" for t in terms[1:]]
            return _Tex(terms[0] + "".join(rest), _SUM)
        case "sub":
            return _Tex(f"{first.within(_SUM)} - {_unsigned(inputs[1], _PRODUCT)}", _SUM)
        case "neg":
            return _Tex(f"-{_unsigned(first, _PRODUCT)}", _SUM)
        case "mul":
            factors = sorted(inputs, key=lambda factor: not factor.is_number)
            leading = factors[0].text if factors[0].is_number else factors[0].within(_PRODUCT)
            shown = [leading, *(_unsigned(factor, _PRODUCT) for factor in factors[1:])]
            return _Tex(r" \cdot ".join(shown), _SUM if shown[0].startswith("-") else _PRODUCT)
        case "dot":
            return _Tex(r" \, ".join(_unsigned(factor, _PRODUCT) for factor in inputs), _PRODUCT)
        case "div":
            return _Tex(rf"\frac{{{first.text}}}{{{inputs[1].text}}}")
        case "reciprocal":
            return _Tex(rf"\frac{{1}}{{{first.text}}}")
        case "pow":
            return _Tex(f"{{{_unsigned(first, _ATOM)}}}^{{{inputs[1].text}}}", _POWER)
        case "square":
            return _Tex(f"{{{_unsigned(first, _ATOM)}}}^{{2}}", _POWER)
        case "sqrt":
            return _Tex(rf"\sqrt{{{first.text}}}")
        case "exp":
            return _Tex(f"e^{{{first.text}}}", _POWER)
        case "abs":
            return _Tex(rf"\left|{first.text}\right|")
        case "take" if node.attributes["axis"] == 0:
            return _Tex(f"{{{first.within(_ATOM)}}}_{{[{inputs[1].text}]}}")
        case "index":
            return _Tex(f"{{{first.within(_ATOM)}}}_{{[{_indices(node)}]}}")
        case op if op in _RELATIONS:
            symbol = f" {_RELATIONS[op]} "
            return _Tex(symbol.join(value.within(_SUM) for value in inputs), _RELATION)
        case op if op in _TRANSPARENT:
            return first
        case op:
            return _Tex(_call(_FUNCTIONS.get(op, _name(op)), [value.text for value in inputs]))


def _unsigned(operand: _Tex, binding: int) -> str:
    text = operand.within(binding)
    return rf"\left({text}\right)" if text.startswith("-") else text


def _call(function: str, arguments: Sequence[str]) -> str:
    return rf"{function}\left({', '.join(arguments)}\right)"


def _name(name: str) -> str:
    """A name in upright letters, with what LaTeX reads as commands escaped and only ASCII kept."""
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in name)
    escapes: dict[str, str] = {"\\": "/", "{": "(", "}": ")", "$": "", "~": "-", "^": "", "`": "'", '"': "'"}
    escapes |= {"_": r"\_", "%": r"\%", "#": "", "&": "+"}
    return rf"\mathrm{{{''.join(escapes.get(c, c) for c in plain) or '?'}}}"


def _shape(shape: Sequence[int]) -> str:
    return (
        "" if not shape else rf", \; {_name('shape')} = {' x '.join(map(str, shape))}".replace("x", r"\times")
    )


def _indices(node: Node) -> str:
    shown = []
    for entry in node.attributes["index"]:
        if isinstance(entry, int):
            shown.append(str(entry))
        else:
            start, stop, step = ("" if part is None else str(part) for part in entry["slice"])
            shown.append(f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else ""))
    return ", ".join(shown)


def _constant(node: Node) -> _Tex:
    array = constant_array(node)
    if array.ndim == 0:
        text = _number(array.item())
        scientific = _PRODUCT if r"\times" in text else _ATOM
        return _Tex(text, _SUM if text.startswith("-") else scientific, is_number=True)
    shown = [_number(value) for value in array.ravel()[:_SHOWN].tolist()]
    return _Tex(rf"\left[{', '.join(shown)}{', ...' if array.size > _SHOWN else ''}\right]")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return _name(str(value).lower())
    text = f"{value:.4g}"
    if "e" not in text:
        return text
    digits, exponent = text.split("e")
    return rf"{digits} \times 10^{{{int(exponent)}}}"


def _clipped(expression: _Tex) -> _Tex:
    # an expression shared by many readers must not grow the line exponentially
    return expression if len(expression.text) <= MAX_LENGTH else _Tex(r"\ldots")

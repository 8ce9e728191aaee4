"""A model graph as a PyMC model that a person reads, changes and runs."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections import Counter
from collections.abc import Sequence

from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.laws import read_law
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.programs.rendering.pymc_expressions import expression
from synthstats_lightning.programs.rendering.pymc_idioms import (
    ALONG,
    find_idioms,
    takes_numbers,
    unpadded_inputs,
)
from synthstats_lightning.programs.rendering.pymc_laws import Constructor, constructor
from synthstats_lightning.programs.rendering.pymc_text import ATOM, Code, constant, number
from synthstats_lightning.programs.shapes import size

WIDTH = 100
"""Longest line that is not broken, where it can be."""
LONGEST = 72
"""Longest expression that stands within another one."""
_TAKEN = frozenset({"pm", "np", "pt", "pandas", "arviz", "find_spec", "sys", "model", "sample"})


def pymc_lines(graph: ModelGraph, response: str) -> list[str]:
    """The lines of a `with pm.Model() as model:` block, the columns being NumPy arrays under their names.

    Names are the graph's own; an expression that is used twice, or is long, has a line of its own. What the
    response does not depend on is left out.

    Args:
        graph: A model graph that `programs.validation.parse_graph` returned.
        response: Name of the response's column.

    Raises:
        ValueError: If something in it has no spelling that all releases of PyMC share.
    """
    return _Writer(graph, response).lines()


class _Writer:
    """One pass over a graph's nodes, inputs first."""

    def __init__(self, graph: ModelGraph, response: str) -> None:
        self.graph = graph
        self.response = response
        columns = {node.attributes["name"] for node in graph.nodes if node.op == "covariate"}
        self.taken = {response, *columns, *_TAKEN}
        self.idioms = find_idioms(graph)
        self.inputs = [
            self.idioms[index].inputs if index in self.idioms else unpadded_inputs(graph, index)
            for index in range(len(graph.nodes))
        ]
        self.wanted, self.quantities = self._reached()
        self.uses = Counter(i for index in self.wanted for i in self.inputs[index])
        self.codes: dict[int, Code] = {}
        self.written = ["with pm.Model() as model:"]

    def lines(self) -> list[str]:
        """The block."""
        for index in sorted(self.wanted):
            node = self.graph.nodes[index]
            if node.op == "random":
                self._random(index, node)
                continue
            code = self._code(index, node)
            if index in self.quantities and not code.is_data:
                for name in self.quantities[index]:
                    variable = self._name(name)
                    self.written.append(
                        f"    {variable} = pm.Deterministic({_quoted(name)}, {_wrapped(code.text)})"
                    )
                    code = Code(variable)
            elif self._stands_alone(index, node, code):
                variable = self._name(self._described(index, node))
                self.written.append(f"    {variable} = {_wrapped(code.text)}")
                code = Code(variable, is_data=code.is_data)
            self.codes[index] = code
        return self.written

    def _reached(self) -> tuple[set[int], dict[int, list[str]]]:
        """What the response depends on, and derived quantities of nothing else, by node."""
        wanted = self._below([self.graph.response])
        known = {i for i in wanted if self.graph.nodes[i].op == "random"}
        quantities: dict[int, list[str]] = {}
        for name, index in sorted(self.graph.deterministics.items()):
            below = self._below([index])
            if all(i in known for i in below if self.graph.nodes[i].op == "random"):
                quantities.setdefault(index, []).append(name)
                wanted |= below
        return wanted, quantities

    def _below(self, roots: Sequence[int]) -> set[int]:
        pending, found = list(roots), set(roots)
        while pending:
            new = [i for i in self.inputs[pending.pop()] if i not in found]
            found.update(new)
            pending += new
        return found

    def _random(self, index: int, node: Node) -> None:
        inputs = [self._parameter(i, node.attributes["distribution"]) for i in self.inputs[index]]
        shape = node.attributes["shape"]
        if index in self.idioms:
            found = Constructor("NegativeBinomial", (f"mu={inputs[0].text}", f"alpha={inputs[1].text}"))
        else:
            found = constructor(read_law(node.attributes), inputs, shape)
        if index == self.graph.response:
            observed = (*found.arguments, f"observed={self.response}")
            call = _call(f"pm.{found.name}", (_quoted(self.response), *observed))
            self.written.append(f"    {call}")
            return
        variable = self._name(node.attributes["name"])
        call = _call(f"pm.{found.name}", (_quoted(node.attributes["name"]), *found.of_shape(shape)))
        self.written.append(f"    {variable} = {call}")
        self.codes[index] = Code(variable)
        for name in self.quantities.get(index, ()):
            self.written.append(f"    {self._name(name)} = pm.Deterministic({_quoted(name)}, {variable})")

    def _code(self, index: int, node: Node) -> Code:
        if node.op == "constant":
            return constant(node)
        if node.op == "covariate":
            return Code(node.attributes["name"], is_data=True)
        inputs = self._operands(index, node)
        if index in self.idioms:
            return Code(f"{inputs[0].array()}.std({self.idioms[index].arguments})", is_data=True)
        shapes = [self.graph.shapes[i] for i in self.inputs[index]]
        return expression(node.op, node.attributes, inputs, shapes)

    def _operands(self, index: int, node: Node) -> list[Code]:
        """What goes into an operation: a vector of one number is that number beside vectors."""
        inputs = self.inputs[index]
        alone = [i for i in inputs if self.graph.shapes[i] == (1,) and self.graph.nodes[i].op == "constant"]
        beside = any(i not in alone and self.graph.shapes[i] for i in inputs)
        if not beside or node.op not in OPERATIONS or not OPERATIONS[node.op].elementwise:
            return [self.codes[i] for i in inputs]
        values = {i: number(constant_array(self.graph.nodes[i]).item()) for i in alone}
        return [values.get(i, self.codes[i]) for i in inputs]

    def _parameter(self, index: int, distribution: str) -> Code:
        """A parameter of a random node: a vector of one number is that number where numbers do."""
        plain = distribution in ALONG or takes_numbers(distribution)
        if not plain or not self.graph.shapes[index] or size(self.graph.shapes[index]) != 1:
            return self.codes[index]
        if self.graph.nodes[index].op == "constant":
            return number(constant_array(self.graph.nodes[index]).item())
        if distribution in ALONG and len(self.graph.shapes[index]) == 1:
            return Code(f"{self.codes[index].within(ATOM)}[0]", is_data=self.codes[index].is_data)
        return self.codes[index]

    def _stands_alone(self, index: int, node: Node, code: Code) -> bool:
        """Whether an expression has a line of its own: it is long, or used again and no mere name."""
        if code.is_number or node.op == "covariate":
            return False
        short = code.binding == ATOM and len(code.text) <= 20 and "pt." not in code.text
        return len(code.text) > LONGEST or (self.uses[index] > 1 and not short)

    def _described(self, index: int, node: Node) -> str:
        """A name that says what an expression is, where that is one column's or one parameter's."""
        nodes, inputs = self.graph.nodes, self.inputs[index]
        if node.op == "constant":
            return "values"
        if len(inputs) == 1 and self.codes[inputs[0]].text.isidentifier():
            return f"{node.op}_{self.codes[inputs[0]].text}"
        columns = {nodes[i].attributes["name"] for i in self._below([index]) if nodes[i].op == "covariate"}
        if len(columns) != 1 or not all(self.codes[i].is_data for i in inputs):
            return "part"
        scaled = node.op == "div" and inputs[1] in self.idioms
        centred = node.op == "sub" and nodes[inputs[1]].op == "mean"
        return f"{columns.pop()}_{'standardised' if scaled else 'centred' if centred else 'part'}"

    def _name(self, wanted: str) -> str:
        """A Python name that nothing else has."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "value"
        base = f"v_{base}" if base[0].isdigit() or keyword.iskeyword(base) else base
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name


def _quoted(name: str) -> str:
    return json.dumps(name)


def _call(function: str, arguments: Sequence[str]) -> str:
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= WIDTH - 20:
        return line
    inner = "".join(f"\n{_filled(argument, 8)}," for argument in arguments)
    return f"{function}({inner}\n    )"


def _wrapped(text: str) -> str:
    """An expression in parentheses over several lines, if it is too long for one."""
    return text if len(text) <= WIDTH - 20 else f"(\n{_filled(text, 8)}\n    )"


def _filled(text: str, indent: int) -> str:
    if len(text) <= WIDTH - indent or '" ' in text:
        return " " * indent + text
    first, later = " " * indent, " " * (indent + 4)
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )

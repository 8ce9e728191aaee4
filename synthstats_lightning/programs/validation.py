"""A hostile document into a model graph, or a failure: the one gate between the sandbox and the scorer.

What passes is generative by construction: every distribution is in the table and normalised by the scorer,
the response appears once, nothing depends on it, and its distribution gives its values a probability (whole
numbers may follow a continuous one, by intervals) or a density.
Shapes are inferred from declared shapes alone, so nothing large is allocated before its size is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from synthstats_lightning.programs.composites import UnsupportedLaw, distribution_of, entry_of
from synthstats_lightning.programs.constants import constant_array, constant_node, read_constant
from synthstats_lightning.programs.demands.random_nodes import check_parameter_shapes, check_parameters
from synthstats_lightning.programs.distribution import SUMMED_SUPPORTS, Distribution, Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.documents import bad_graph, quoted, read_document
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import GRAPH_FORMAT, DataSchema, ModelGraph, Node
from synthstats_lightning.programs.laws import read_law
from synthstats_lightning.programs.matrices import MATRIX_OPERATIONS
from synthstats_lightning.programs.operations import MAX_INPUTS, OPERATIONS
from synthstats_lightning.programs.shapes import Shape, check_shape, is_int, size
from synthstats_lightning.programs.simplify import reachable

MAX_NODES = 8_000
"""Most nodes of a graph: some hundred steps of a loop over single numbers."""
MAX_FOLLOWED = 4_000_000
"""Most random nodes times nodes: each of the former is followed through the graph."""
MAX_CHAIN = 4_000
"""Longest chain of nodes that depend on each other."""
MAX_ELEMENTS = 1_000_000
"""Most elements of one node."""
MAX_WORK = 10_000_000
"""Most elements read and written by all nodes together, for one evaluation; a dot counts its products, and so
does a function of a matrix."""
MAX_NAME = 200
"""Longest name, in characters."""
MAX_DETERMINISTICS = 1_000
"""Most named derived quantities."""
MAX_LATENT_DIMENSION = 5_000
"""Most unconstrained dimensions of the latents that the response depends on. More is `UNSUPPORTED`, and so
are for the scorer fewer that it cannot integrate out."""

# Operations that only change the type or layout of a constant.
_TRANSPARENT = frozenset({"identity", "cast", "broadcast_to", "transpose", "reshape"})


def parse_graph(document: str | bytes, schema: DataSchema) -> ModelGraph:
    """Validate a model graph from the sandbox.

    Args:
        document: Graph JSON, format 1, as `ModelGraph.to_json` writes it. Hostile input.
        schema: Columns, response and number of rows that the graph may refer to.

    Returns:
        The graph with shapes and dtypes of every node filled in. It may still hold nodes that the response
        does not depend on (discrete ones too): `programs.canonical.canonicalise` drops them.

    Raises:
        ProgramFailure: `BAD_GRAPH` if the document breaks the schema or a size limit; `UNSUPPORTED` if it
            is well-formed but outside the language: an unknown distribution or operation, a discrete
            distribution for a response of real numbers, a discrete latent of one value or
            of vectors, or more than `MAX_LATENT_DIMENSION` latent dimensions.
    """
    content = read_document(document)
    if not isinstance(content, dict) or set(content) != {"format", "nodes", "response", "deterministics"}:
        bad_graph("the document is not an object with format, nodes, response and deterministics")
    if not is_int(content["format"]) or content["format"] != GRAPH_FORMAT:
        bad_graph(f"format is not {GRAPH_FORMAT}")
    builder = _Builder(schema)
    if not isinstance(content["nodes"], list) or not content["nodes"]:
        bad_graph(f"nodes is not a list of 1 to {MAX_NODES} nodes")
    if len(content["nodes"]) > MAX_NODES:
        bad_graph(
            f"{len(content['nodes'])} nodes, more than {MAX_NODES}: every step of a loop over single numbers"
            " is several. Let a step be of whole vectors (a state of all species at once, say), or"
            " take fewer, longer steps"
        )
    random = sum(isinstance(entry, dict) and entry.get("op") == "random" for entry in content["nodes"])
    if random * len(content["nodes"]) > MAX_FOLLOWED:
        bad_graph(
            f"{random} random variables in a graph of {len(content['nodes'])} nodes, too many to follow each:"
            " several of one distribution are one vector (shape=)"
        )
    for entry in content["nodes"]:
        try:
            builder.add(entry)
        except ValueError as error:
            bad_graph(f"node {len(builder.nodes)}: {error}")
    response = builder.reference(content["response"], "response")
    graph = ModelGraph(
        nodes=tuple(builder.nodes),
        response=response,
        deterministics=builder.deterministics(content["deterministics"]),
        shapes=tuple(builder.shapes),
        dtypes=tuple(builder.dtypes),
    )
    _check_response(graph, schema)
    _check_latents(graph)
    return graph


class _Builder:
    """Nodes read so far, with what later nodes need to know about them."""

    def __init__(self, schema: DataSchema) -> None:
        self.schema = schema
        self.nodes: list[Node] = []
        self.shapes: list[Shape] = []
        self.dtypes: list[str] = []
        self.depths: list[int] = []
        self.names: set[str] = set()
        self.work = 0

    def add(self, entry: Any) -> None:
        """Read one node; ValueError or ProgramFailure if it does not fit."""
        if not isinstance(entry, dict) or not isinstance(entry.get("op"), str):
            bad_graph(f"node {len(self.nodes)} is not an object with an op")
        match entry["op"]:
            case "constant":
                node, shape, dtype = self._constant(entry)
            case "covariate":
                node, shape, dtype = self._covariate(entry)
            case "random":
                node, shape, dtype = self._random(entry)
            case _:
                node, shape, dtype = self._operation(entry)
        depth = 1 + max((self.depths[i] for i in node.inputs), default=0)
        if depth > MAX_CHAIN:
            raise ValueError(f"a chain of more than {MAX_CHAIN} nodes")
        self._charge(node, shape)
        self.nodes.append(node)
        self.shapes.append(shape)
        self.dtypes.append(dtype)
        self.depths.append(depth)

    def reference(self, value: Any, what: str) -> int:
        """An index of a node read so far."""
        if not is_int(value) or not 0 <= value < len(self.nodes):
            bad_graph(f"{what} refers to no earlier node")
        return int(value)

    def deterministics(self, value: Any) -> dict[str, int]:
        """The list of [name, index] pairs."""
        if not isinstance(value, list) or len(value) > MAX_DETERMINISTICS:
            bad_graph(f"deterministics is not a list of at most {MAX_DETERMINISTICS} pairs")
        result = {}
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2:
                bad_graph("a deterministic is not [name, index]")
            result[self._name(pair[0])] = self.reference(pair[1], "a deterministic")
        return result

    def _constant(self, entry: Mapping[str, Any]) -> tuple[Node, Shape, str]:
        _check_keys(entry, {"op", "value", "dtype"})
        array = read_constant(entry["value"], entry["dtype"])
        return constant_node(array), array.shape, str(array.dtype)

    def _covariate(self, entry: Mapping[str, Any]) -> tuple[Node, Shape, str]:
        _check_keys(entry, {"op", "name"})
        name = entry["name"]
        if not isinstance(name, str) or name == self.schema.response or name not in self.schema.columns:
            raise ValueError(f"{quoted(name)} is not a covariate of the task")
        return Node("covariate", (), {"name": name}), (self.schema.num_rows,), self.schema.columns[name]

    def _random(self, entry: Mapping[str, Any]) -> tuple[Node, Shape, str]:
        law = {key: entry[key] for key in ("distribution", "components", "bounds") if key in entry}
        _check_keys(entry, {"op", "distribution", "inputs", "name", "shape", *law})
        distribution = _distribution(law)
        name = distribution.name
        inputs = self._inputs(entry)
        if len(inputs) != len(distribution.parameters):
            raise ValueError(f"{name} takes {len(distribution.parameters)} parameters, not {len(inputs)}")
        shape = check_shape(entry["shape"], "shape")
        if 0 in shape:
            raise ValueError("a random variable without elements")
        check_parameter_shapes(distribution, shape, [self.shapes[i] for i in inputs])
        self._check_parameters(distribution, inputs)
        check_parameters({**law, "shape": shape}, distribution, inputs, self)
        attributes = {**law, "name": self._name(entry["name"]), "shape": list(shape)}
        return Node("random", inputs, attributes), shape, distribution.dtype

    def _check_parameters(self, distribution: Distribution, inputs: tuple[int, ...]) -> None:
        for parameter, index in zip(distribution.parameters, inputs, strict=True):
            if parameter in distribution.integer_parameters and self.dtypes[index] != "int64":
                raise ValueError(f"{parameter} of {distribution.name} is not of dtype int64")
            if parameter in distribution.fixed:
                while self.nodes[index].op in _TRANSPARENT:
                    index = self.nodes[index].inputs[0]
                value = distribution.fixed[parameter]
                node = self.nodes[index]
                if node.op != "constant" or (constant_array(node) != value).any():
                    _unsupported(f"{distribution.name} with {parameter} other than the constant {value:g}")

    def _operation(self, entry: Mapping[str, Any]) -> tuple[Node, Shape, str]:
        op = entry["op"]
        if op not in OPERATIONS:
            _unsupported(f"operation {quoted(op)}")
        inputs = self._inputs(entry)
        attributes = {key: value for key, value in entry.items() if key not in ("op", "inputs")}
        shape, dtype = OPERATIONS[op].infer(
            [self.shapes[i] for i in inputs], [self.dtypes[i] for i in inputs], attributes
        )
        if op == "take":
            self._check_positions(inputs, attributes["axis"])
        return Node(op, inputs, attributes), shape, dtype

    def _check_positions(self, inputs: tuple[int, ...], axis: int) -> None:
        # Positions that are not constant (a covariate) are known only to the density, which checks them.
        node = self.nodes[inputs[1]]
        length = self.shapes[inputs[0]][axis]
        if node.op == "constant":
            positions = constant_array(node)
            if ((positions < -length) | (positions >= length)).any():
                raise ValueError("take outside the axis")

    def _inputs(self, entry: Mapping[str, Any]) -> tuple[int, ...]:
        value = entry.get("inputs")
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_INPUTS:
            raise ValueError(f"inputs is not a list of 1 to {MAX_INPUTS} references")
        return tuple(self.reference(item, f"node {len(self.nodes)}") for item in value)

    def _name(self, value: Any) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not value.isprintable():
            bad_graph(f"a name is not a printable string of 1 to {MAX_NAME} characters")
        if value in self.names:
            bad_graph(f"the name {quoted(value)} is used twice")
        self.names.add(value)
        return value

    def _charge(self, node: Node, shape: Shape) -> None:
        elements = size(shape)
        if elements > MAX_ELEMENTS:
            raise ValueError(f"{node.op} yields more than {MAX_ELEMENTS} elements")
        if node.op == "dot":
            elements *= self.shapes[node.inputs[0]][-1]
        elif node.op in MATRIX_OPERATIONS:
            elements = self.shapes[node.inputs[0]][-1] ** 3
        elif node.op == "random" or (node.op in OPERATIONS and OPERATIONS[node.op].elementwise):
            elements *= len(node.inputs)
        self.work += elements + sum(size(self.shapes[i]) for i in node.inputs)
        if self.work > MAX_WORK:
            raise ValueError(f"the graph reads and writes more than {MAX_WORK} elements")


def _distribution(law: Mapping[str, Any]) -> Distribution:
    if not isinstance(law.get("distribution"), str):
        _unsupported(f"distribution {quoted(law.get('distribution'))}")
    try:
        found = read_law(law)
        return entry_of(found) if found.components else DISTRIBUTIONS[found.name]
    except KeyError as error:
        _unsupported(f"distribution {quoted(error.args[0])}")
    except UnsupportedLaw as error:
        _unsupported(str(error))


def _check_keys(entry: Mapping[str, Any], keys: set[str]) -> None:
    if set(entry) != keys:
        raise ValueError(f"its keys are not {sorted(keys)}")


def _check_response(graph: ModelGraph, schema: DataSchema) -> None:
    node = graph.nodes[graph.response]
    if node.op != "random":
        bad_graph("the response is not a random node")
    if graph.shapes[graph.response] != (schema.num_rows,):
        bad_graph(f"the response has shape {graph.shapes[graph.response]}, not ({schema.num_rows},)")
    if any(graph.response in other.inputs for other in graph.nodes):
        bad_graph("a node depends on the response")
    distribution = distribution_of(node.attributes)
    if distribution.discrete and schema.response_dtype != "int64" and not schema.response_whole:
        _unsupported(
            f"{distribution.name} for a response of real numbers, none of which has a probability: write a"
            " continuous distribution (if the response counts something, the task must say response_kind:"
            " count, and as `missing` what stands for a missing cell, such as -1)"
        )


def _check_latents(graph: ModelGraph) -> None:
    dimension = 0
    for index in reachable(graph):
        node = graph.nodes[index]
        if node.op != "random" or index == graph.response:
            continue
        distribution = distribution_of(node.attributes)
        if distribution.discrete:
            if distribution.support not in SUMMED_SUPPORTS:
                name = quoted(str(node.attributes["name"]))
                _unsupported(
                    f"{name}: a discrete latent ({distribution.name}) that cannot be summed out:"
                    " it has one value, or values that are vectors"
                )
            continue
        if distribution.support is Support.MIXED:
            _unsupported(f"a latent that follows {distribution.name}: only the response may")
        dimension += size(graph.shapes[index])
    if dimension > MAX_LATENT_DIMENSION:
        _unsupported(f"{dimension} latent dimensions, more than {MAX_LATENT_DIMENSION}")


def _unsupported(message: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, message)

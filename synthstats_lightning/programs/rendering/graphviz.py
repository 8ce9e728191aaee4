"""A model as a picture in graphviz's DOT language, by the conventions of `pm.model_to_graphviz`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.laws import read_law
from synthstats_lightning.programs.simplify import reachable

_FREE = "shape=ellipse"
_OBSERVED = "shape=ellipse style=filled"
_DETERMINISTIC = "shape=box"
_DATA = 'shape=box style="rounded, filled"'


def to_dot(graph: ModelGraph, response_name: str | None = None) -> str:
    """Parameters and response as ellipses (the response filled), derived quantities and columns as boxes.

    An arrow leads from every quantity to those whose distribution or definition reads it; vectors stand in a
    plate with their length. Writing it needs no graphviz; `dot -Tsvg` draws it.

    Args:
        graph: From `programs.validation.parse_graph` for the author's names and derived quantities, or
            canonical. What the response does not depend on is left out, but for derived quantities.
        response_name: What to call the response; by default its name in the graph.

    Returns:
        DOT text that ends in a line break.
    """
    boxes = {index: name for name, index in sorted(graph.deterministics.items(), reverse=True)}
    kept = _kept(graph, list(boxes))
    shown = [i for i in kept if graph.nodes[i].op in ("random", "covariate") or i in boxes]
    plates: dict[tuple[int, ...], list[str]] = defaultdict(list)
    identity = {index: f"n{number}" for number, index in enumerate(shown)}
    edges: list[str] = []
    for index in shown:
        node = graph.nodes[index]
        if node.op == "random":
            is_response = index == graph.response
            name = response_name if is_response and response_name is not None else node.attributes["name"]
            style, kind = (_OBSERVED if is_response else _FREE), read_law(node.attributes).text()
        elif node.op == "covariate":
            name, style, kind = node.attributes["name"], _DATA, "Data"
        else:
            name, style, kind = boxes[index], _DETERMINISTIC, "Deterministic"
        label = "\\n~\\n".join((_escaped(name), _escaped(kind)))
        plates[graph.shapes[index]].append(f'{identity[index]} [label="{label}" {style}]')
        edges += [f"{identity[parent]} -> {identity[index]}" for parent in _parents(graph, index, identity)]
    lines = ["digraph {"]
    for shape, members in sorted(plates.items()):
        lines += _plate(shape, members)
    return "\n".join([*lines, *(f"  {edge}" for edge in edges), "}"]) + "\n"


def _plate(shape: tuple[int, ...], members: Sequence[str]) -> list[str]:
    if not shape:
        return [f"  {member}" for member in members]
    label = " x ".join(map(str, shape))
    return [
        f'  subgraph "cluster{label}" {{',
        *(f"    {member}" for member in members),
        f'    label="{label}" labeljust=r labelloc=b style=rounded',
        "  }",
    ]


def _kept(graph: ModelGraph, derived: Sequence[int]) -> list[int]:
    """What the response or a derived quantity depends on, in order."""
    found = set(reachable(graph)) | set(derived)
    for index in range(len(graph.nodes) - 1, -1, -1):
        if index in found:
            found.update(graph.nodes[index].inputs)
    return sorted(found)


def _parents(graph: ModelGraph, index: int, shown: Container[int]) -> list[int]:
    """The shown quantities that one reads, through expressions that are not shown."""
    found: list[int] = []
    seen: set[int] = set()
    pending = list(reversed(graph.nodes[index].inputs))
    while pending:
        source = pending.pop()
        if source in seen:
            continue
        seen.add(source)
        if source in shown:
            found.append(source)
        else:
            pending += reversed(graph.nodes[source].inputs)
    return sorted(found)


def _escaped(text: str) -> str:
    shown = text if text.isprintable() else ascii(text)
    return shown.replace("\\", "\\\\").replace('"', '\\"')

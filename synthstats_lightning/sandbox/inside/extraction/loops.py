"""PyTensor's `Scan` nodes, read into what a loop is: its state, what it reads, and one step of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.tensor.random.op import RandomVariable


class Loop(NamedTuple):
    """A loop of fixed length. Variables inside it are those of the op's inner graph.

    Attributes:
        steps: Number of steps, a variable outside.
        sequences: Pairs of a variable inside and the one outside whose row t it is at step t.
        initial: The variables outside that begin with the initial values, one for each recurrent output.
        history: How many initial values each has.
        taps: The variables inside that stand for earlier values, with their (negative) offsets, by output.
        recurrent: The variables inside that are the next values, one for each recurrent output.
        collected: Variables inside whose values are kept but not read by later steps.
        carried: Pairs of a variable inside and its initial value outside, where only the last value is kept.
        passed_on: The next values of these.
        constants: Pairs of a variable inside and the one outside that it is at every step.
        invariant: Variables inside that are the same at every step, constants among them.
        outputs: Variables outside, in the order recurrent, collected, carried.
        size: Operations of one step.
        draws: Whether the inner graph has random variables.
    """

    steps: Any
    sequences: list[tuple[Any, Any]]
    initial: list[Any]
    history: list[int]
    taps: list[list[tuple[Any, int]]]
    recurrent: list[Any]
    collected: list[Any]
    carried: list[tuple[Any, Any]]
    passed_on: list[Any]
    constants: list[tuple[Any, Any]]
    invariant: list[Any]
    outputs: list[Any]
    size: int
    draws: bool


def loop_of(node: Any) -> Loop | None:
    """The loop of a `Scan` node; `None` if a condition ends it, or some state has several values a step."""
    op, info = node.op, node.op.info
    if info.as_while or info.mit_mot_in_slices:
        return None
    inner, outer = list(op.inner_inputs), list(node.inputs)
    results, outputs = list(op.inner_outputs), list(node.outputs)
    slices = [*info.mit_sot_in_slices, *info.sit_sot_in_slices]
    recurrent = len(slices)
    collected = recurrent + info.n_nit_sot
    flat = iter(inner[info.n_seqs :])
    taps = [[(next(flat), tap) for tap in part] for part in slices]
    carried = [next(flat) for _ in range(info.n_untraced_sit_sot)]
    fixed = list(flat)
    first = 1 + info.n_seqs
    begun = outer[first + recurrent : first + recurrent + info.n_untraced_sit_sot]
    numeric = [i for i, part in enumerate(carried) if hasattr(part.type, "dtype")]
    constants = [
        pair
        for pair in zip(fixed, outer[len(outer) - len(fixed) :], strict=True)
        if hasattr(pair[0].type, "dtype")
    ]
    invariant, size = _invariant(op.fgraph, [pair[0] for pair in constants])
    return Loop(
        steps=outer[0],
        sequences=list(zip(inner[: info.n_seqs], outer[1:first], strict=True)),
        initial=outer[first : first + recurrent],
        history=[-min(part) for part in slices],
        taps=taps,
        recurrent=results[:recurrent],
        collected=results[recurrent:collected],
        carried=[(carried[i], begun[i]) for i in numeric],
        passed_on=[results[collected + i] for i in numeric],
        constants=constants,
        invariant=invariant,
        outputs=[*outputs[:collected], *(outputs[collected + i] for i in numeric)],
        size=size,
        draws=any(isinstance(part.op, RandomVariable) for part in op.fgraph.apply_nodes),
    )


def inner_graph(node: Any) -> tuple[list[tuple[Any, Any]], list[Any]] | None:
    """Of an op that is a graph itself: pairs of an inner input and what it stands for, and inner outputs."""
    if not isinstance(node.op, OpFromGraph):
        return None
    pairs = zip(node.op.inner_inputs, node.inputs, strict=True)
    return [pair for pair in pairs if hasattr(pair[0].type, "dtype")], list(node.op.inner_outputs)


def start_of_buffer(buffer: Any) -> Any:
    """What the first rows of an otherwise empty buffer were set to; `None` for anything else."""
    node = buffer.owner
    if node is None or type(node.op).__name__ != "IncSubtensor" or not node.op.set_instead_of_inc:
        return None
    empty = node.inputs[0].owner
    return node.inputs[1] if empty is not None and type(empty.op).__name__ == "AllocEmpty" else None


def _invariant(graph: Any, fixed: list[Any]) -> tuple[list[Any], int]:
    """What does not change from step to step, and the number of operations that do."""
    same = set(fixed)
    found = []
    size = 0
    for node in graph.toposort():
        constants = [part for part in node.inputs if isinstance(part, Constant) and part not in same]
        same.update(constants)
        found += [part for part in constants if hasattr(part.type, "dtype")]
        if all(part in same for part in node.inputs):
            same.update(node.outputs)
            found += [part for part in node.outputs if hasattr(part.type, "dtype")]
        else:
            size += 1
    return found, size

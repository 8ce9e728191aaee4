"""Paths of stochastic differential equations by the Euler-Maruyama method, written out step by step."""

from __future__ import annotations

from typing import Any, NoReturn

from pytensor.tensor import dscalar

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk
from synthstats_lightning.sandbox.inside.extraction.composites import random_part, without_padding
from synthstats_lightning.sandbox.inside.extraction.scan import check_size


def diffusion_path(walk: Walk, variable: Any) -> Entry:
    """The path of a latent diffusion, from its start and standard normal increments.

    A step's mean and scale depend on the path before it, which no random node's parameters can: so the graph
    has the start and the increments as latents, and the path as a quantity derived from them. That is the
    same model in other coordinates.

    Args:
        walk: The walk through the model.
        variable: A free `pm.EulerMaruyama`.

    Raises:
        ProgramFailure: `UNSUPPORTED` for several paths in one variable, or one that makes too large a graph.
    """
    start, steps, *parameters, _ = variable.owner.inputs
    op, builder, name = variable.owner.op, walk.builder, str(variable.name)
    if variable.ndim != 1:
        _unsupported("several EulerMaruyama paths in one variable: give each a variable of its own")
    count = int(walk.known(steps))
    part = random_part(walk, start)
    if part.shape:
        _unsupported("an EulerMaruyama path that starts at a vector")
    entries = without_padding(walk, part.law, part.entries, ())
    state = builder.random(part.law.attributes(), entries, f"{name}[start]", ())
    standard = [builder.constant(0.0), builder.constant(1.0)]
    noise = builder.random("Normal", standard, f"{name}[increments]", (count,))
    before, *symbols = [dscalar(), *(part.type() for part in parameters)]
    drift, spread = (adapter.as_variable(part) for part in op.sde_fn(before, *symbols))
    known = {inner: walk.entry(outer) for inner, outer in zip(symbols, parameters, strict=True)}
    length = walk.entry(op.dt)
    root = builder.apply("sqrt", length)
    path = [state]
    for step in range(count):
        inside = walk.within({**known, before: path[-1]})
        moved = builder.apply("add", path[-1], builder.apply("mul", length, inside.entry(drift)))
        scale = builder.apply("mul", root, inside.entry(spread))
        pushed = builder.apply("mul", scale, builder.apply("index", noise, index=[step]))
        path.append(builder.apply("add", moved, pushed))
    result = builder.apply("stack", *path, axis=0)
    check_size(f"an EulerMaruyama path of {count} steps", [result], known.values())
    return result


def _unsupported(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)

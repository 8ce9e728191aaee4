"""Structural operations of the graph language in torch, in the padded batch layout.

A node of shape `s` with `r` axes that depends on parameters is held as `[S, 1, ..., 1, *s]` with `S`
particles and `1 + rank` axes in all, `rank` being the same for the whole graph. So elementwise operations
broadcast by numpy's rules without any reshaping, and axis `k` of the node is axis `k - r` of the tensor.
Constants keep their own shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from synthstats_lightning.scoring.numerics.picks import pick_last

Shape = tuple[int, ...]
Function = Callable[..., Tensor]


class Layout(NamedTuple):
    """Shapes that a structural operation works between.

    Attributes:
        inputs: Shape of each input.
        output: Shape of the result.
        rank: Axes of every padded tensor after the particle axis.
        attributes: The node's attributes.
    """

    inputs: tuple[Shape, ...]
    output: Shape
    rank: int
    attributes: Mapping[str, Any]

    @property
    def padded(self) -> Shape:
        """The result's shape with leading axes of length 1, without the particle axis."""
        return pad(self.output, self.rank)

    def dims(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Axes of the first input as (negative) axes of its padded tensor."""
        return tuple(axis - len(self.inputs[0]) for axis in axes)


def pad(shape: Shape, rank: int) -> Shape:
    """A shape with leading axes of length 1, `rank` axes in all."""
    return (1,) * (rank - len(shape)) + shape


def core_view(shape: Shape, core: int, rank: int) -> Shape:
    """A shape whose last `core` axes belong to one draw, its batch axes padded to `rank`."""
    split = len(shape) - core
    return pad(shape[:split], rank) + shape[split:]


def unpadded(x: Tensor, shape: Shape) -> Tensor:
    """A padded tensor without its padding, `[S, *shape]`."""
    return x if x.ndim == len(shape) + 1 else x.reshape(x.shape[0], *shape)


def _to(x: Tensor, padded: Shape) -> Tensor:
    return x if x.shape[1:] == padded else x.reshape(x.shape[0], *padded)


def _reduction(
    function: Callable[[Tensor, int], Tensor], empty: Callable[[Tensor], Tensor] = lambda x: x
) -> Callable[[Layout], Function]:
    """A reduction axis by axis; `empty` is what a reduction over no axes does."""

    def build(layout: Layout) -> Function:
        dims, padded = layout.dims(layout.attributes["axis"]), layout.padded
        if not dims:
            return empty

        def apply(x: Tensor) -> Tensor:
            for dim in dims:
                x = function(x, dim)
            return _to(x, padded)

        return apply

    return build


def _cumulative(function: Callable[[Tensor, int], Tensor]) -> Callable[[Layout], Function]:
    def build(layout: Layout) -> Function:
        (dim,) = layout.dims([layout.attributes["axis"]])
        return lambda x: function(x, dim)

    return build


def _expanded(tensors: Sequence[Tensor], shapes: Sequence[Shape]) -> list[Tensor]:
    """Every tensor with the same number of particles."""
    particles = max(tensor.shape[0] for tensor in tensors)
    return [tensor.expand(particles, *shape) for tensor, shape in zip(tensors, shapes, strict=True)]


def _dot(layout: Layout) -> Function:
    left_shape, right_shape = layout.inputs
    padded = layout.padded

    def apply(left: Tensor, right: Tensor) -> Tensor:
        left, right = unpadded(left, left_shape), unpadded(right, right_shape)
        if len(left_shape) == 1 and len(right_shape) == 1:
            result = (left * right).sum(-1)
        elif len(left_shape) == 1:
            result = (left.unsqueeze(-2) @ right).squeeze(-2)
        elif len(right_shape) == 1 and left.shape[0] == 1:
            result = right @ left[0].T
        elif len(right_shape) == 1:
            result = (left @ right.unsqueeze(-1)).squeeze(-1)
        else:
            result = left @ right
        return _to(result, padded)

    return apply


def _transpose(layout: Layout) -> Function:
    (shape,) = layout.inputs
    kept = [entry for entry in layout.attributes["order"] if entry != "x"]
    padded = layout.padded
    if kept == sorted(kept):
        return lambda x: _to(x, padded)
    dropped = [axis for axis in range(len(shape)) if axis not in kept]
    permutation = (0, *(1 + axis for axis in (*dropped, *kept)))
    return lambda x: _to(unpadded(x, shape).permute(permutation), padded)


def _reshape(layout: Layout) -> Function:
    padded = layout.padded
    return lambda x: _to(x, padded)


def _broadcast_to(layout: Layout) -> Function:
    padded = layout.padded
    return lambda x: x.expand(x.shape[0], *padded)


def _stack(layout: Layout) -> Function:
    shapes, padded, axis = layout.inputs, layout.padded, layout.attributes["axis"]
    if shapes[0] == ():
        ones = [(1,) * layout.rank] * len(shapes)
        return lambda *inputs: torch.cat(_expanded(inputs, ones), -1)

    def apply(*inputs: Tensor) -> Tensor:
        tensors = [unpadded(x, shape) for x, shape in zip(inputs, shapes, strict=True)]
        return _to(torch.stack(_expanded(tensors, shapes), 1 + axis), padded)

    return apply


def _concatenate(layout: Layout) -> Function:
    shapes = [pad(shape, layout.rank) for shape in layout.inputs]
    (dim,) = layout.dims([layout.attributes["axis"]])
    return lambda *inputs: torch.cat(_expanded(inputs, shapes), dim)


def _index(layout: Layout) -> Function:
    (shape,) = layout.inputs
    padded = layout.padded
    entries: list[slice | int] = [slice(None)]
    reversed_axes: list[tuple[int, Tensor]] = []
    for axis, entry in enumerate(layout.attributes["index"]):
        if isinstance(entry, int):
            entries.append(entry)
            continue
        positions = range(*slice(*entry["slice"]).indices(shape[axis]))
        if positions.step > 0:
            entries.append(slice(positions.start, positions.stop, positions.step))
        else:
            entries.append(slice(None))
            reversed_axes.append((1 + axis, torch.tensor(list(positions), dtype=torch.int64)))
    index = tuple(entries)

    def apply(x: Tensor) -> Tensor:
        x = unpadded(x, shape)
        for dim, positions in reversed_axes:
            x = x.index_select(dim, positions)
        return _to(x[index], padded)

    if layout.rank == 1 and len(shape) == 1 and len(entries) == 2 and isinstance(entries[1], int):
        position = entries[1] % shape[0]
        return lambda x: x.narrow(1, position, 1)
    return apply


def constant_take(layout: Layout, positions: Tensor) -> Function:
    """`take` with constant positions, already checked and not negative."""
    (dim,) = layout.dims([layout.attributes["axis"]])
    flat, padded = positions.flatten(), layout.padded
    if dim == -1:
        return lambda x: _to(pick_last(x, flat), padded)
    return lambda x: _to(x.index_select(dim, flat), padded)


def _take(layout: Layout) -> Function:
    """`take` with positions that depend on parameters: NaN where they leave the axis."""
    shape, position_shape = layout.inputs
    axis, padded = layout.attributes["axis"], layout.padded
    length = shape[axis]
    kept = shape[:axis] + shape[axis + 1 :]
    outer = len(shape[:axis])

    def apply(x: Tensor, positions: Tensor) -> Tensor:
        particles = positions.shape[0]
        source = unpadded(x, shape).movedim(1 + axis, 1).reshape(x.shape[0], length, -1)
        flat = unpadded(positions, position_shape).reshape(particles, -1)
        valid = (flat >= -length) & (flat < length)
        wrapped = torch.where(valid, flat % max(length, 1), 0)
        source = source.expand(particles, *source.shape[1:])
        taken = source.gather(1, wrapped.unsqueeze(-1).expand(-1, -1, source.shape[-1]))
        if taken.is_floating_point():
            taken = torch.where(valid.unsqueeze(-1), taken, torch.nan)
        result = taken.reshape(particles, *position_shape, *kept)
        inserted = range(1, 1 + len(position_shape))
        return _to(result.movedim(tuple(inserted), tuple(i + outer for i in inserted)), padded)

    return apply


def _all(x: Tensor, dim: int) -> Tensor:
    return (x != 0).all(dim, keepdim=True)


def _any(x: Tensor, dim: int) -> Tensor:
    return (x != 0).any(dim, keepdim=True)


STRUCTURAL: Mapping[str, Callable[[Layout], Function]] = MappingProxyType(
    {
        "sum": _reduction(lambda x, dim: x.sum(dim, keepdim=True)),
        "prod": _reduction(lambda x, dim: x.prod(dim, keepdim=True)),
        "mean": _reduction(lambda x, dim: x.mean(dim, keepdim=True)),
        "min": _reduction(lambda x, dim: x.amin(dim, keepdim=True)),
        "max": _reduction(lambda x, dim: x.amax(dim, keepdim=True)),
        "any": _reduction(_any, lambda x: x != 0),
        "all": _reduction(_all, lambda x: x != 0),
        "cumsum": _cumulative(torch.cumsum),
        "cumprod": _cumulative(torch.cumprod),
        "dot": _dot,
        "transpose": _transpose,
        "reshape": _reshape,
        "broadcast_to": _broadcast_to,
        "stack": _stack,
        "concatenate": _concatenate,
        "index": _index,
        "take": _take,
    }
)
"""Operation name to what makes its function from the shapes it works between."""

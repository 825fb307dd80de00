"""The loops of kernels: which loop of a kernel each axis of a result is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Sequence

from ..lowering.tree import Buf, Gather, Leaf, Value, reshaped
from ..sizes import Unsupported, contiguous, magnitude, product, same, tidy


@dataclass(eq=False)
class Index:
    """A loop of a kernel: an index of its formula."""

    size: Any


@dataclass(eq=False)
class Group:
    """A kernel: the result `root`, others that it stores, and those that it only computes on the way. `axes` has the loop
    of each axis of their trees; None: the axis has size 1. What is `named` has a name in the formula in any case."""

    root: Buf
    axes: dict[Buf, list[Index | None]]
    inline: list[Buf] = field(default_factory=list)
    also: list[Buf] = field(default_factory=list)  # stored too; before the root in the order of the graph
    named: set[Buf] = field(default_factory=set)

    @property
    def members(self) -> list[Buf]:
        return [self.root, *self.also, *self.inline]


def full_shape(buf: Buf) -> list[Any]:
    """The shape of a buf's tree: reductions have their reduced axes at the end."""
    return [*buf.shape, *buf.reduced]


def access(stride: Any, axes: list[Index | None]) -> dict[Index, Any]:
    """The stride of a tensor along each loop."""
    out: dict[Index, Any] = {}
    for s, index in zip(stride, axes):
        if index is not None and not same(s, 0):
            out[index] = tidy(out.get(index, 0) + s)
    return out


def result_axes(buf: Buf, leaf: Leaf, axes: list[Index | None]) -> list[Index | None] | None:
    """The loops for the axes of `buf` where a tree with these loops reads it; None if it is read in another way."""
    if not same(leaf.offset, 0):
        return None
    by = access(leaf.stride, axes)
    loops = sorted(by, key=lambda i: -magnitude(by[i]))
    sizes = [i.size for i in loops]
    if not all(map(same, contiguous(sizes), [by[i] for i in loops])) or not same(product(sizes), product(buf.shape)):
        return None
    real = [n for n in buf.shape if not same(n, 1)]
    if (len(real) != len(sizes) or not all(map(same, real, sizes))) and not reshape(buf, sizes):
        return None
    left = iter(loops)
    return [None if same(n, 1) else next(left) for n in buf.shape]


def common_axes(buf: Buf, found: Sequence[tuple[Buf, Leaf | Gather]], group: Group) -> list[Index | None] | None:
    """The loops for the axes of `buf` if all readers, given with their leaves, walk along it in one way; else None."""
    axes: list[list[Index | None] | None] = []
    for _ in range(2):  # the first look may give `buf` another shape, which the second one uses
        axes = [result_axes(buf, t, group.axes[reader]) if isinstance(t, Leaf) else None for reader, t in found]
    return axes[0] if axes and all(a is not None and a == axes[0] for a in axes) else None


def reshape(buf: Buf, shape: list[Any]) -> bool:
    """Gives a result another shape: its memory, and so all that reads it, stays the same."""
    if buf.tree is None:
        return False
    try:
        v = reshaped(Value(full_shape(buf), buf.dtype, buf.tree), [*shape, *buf.reduced])
    except Unsupported:
        return False
    if v is None:
        return False
    buf.shape, buf.tree, buf.stride = shape, v.tree, contiguous(shape)
    return True

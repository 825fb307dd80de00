"""The table, continued: elements read at places that are computed: pads, flips, repeats."""

from __future__ import annotations

from typing import Any

from ..sizes import Unsupported, expression, same
from . import tree as T
from .table import entry, kind
from .tree import Apply, Const, Gather, Iota, Value


def _axis(rank: int, axis: int, sign: int = 1) -> tuple[int, ...]:
    return tuple(sign * (a == axis) for a in range(rank))


def read_at(g: Any, v: Value, places: dict[int, T.Tree]) -> T.Tree:
    """The value's elements, along some axes at the places that trees over the result say."""
    leaf = g.leaf(v)
    stride = tuple(0 if a in places else s for a, s in enumerate(leaf.stride))
    return Gather(leaf.buf, stride, leaf.offset, tuple((leaf.stride[a], v.shape[a], t) for a, t in places.items()))


@entry("constant_pad_nd")
def _pad(g: Any, a: Any, pad: list[Any], value: Any = 0) -> Value:
    v, rank = g.value(a), len(g.shape)
    borders = {rank - 1 - i: (expression(pad[2 * i]), expression(pad[2 * i + 1])) for i in range(len(pad) // 2)}
    number = bool(value) if g.dtype == "bool" else float(value) if kind(g.dtype) == "real" else int(value)
    return padded(g, v, borders, g.shape, Const(number))


def padded(g: Any, v: Value, borders: dict[int, tuple[Any, Any]], shape: list[Any], number: T.Tree) -> Value:
    """The value with more elements, a number, before and behind some axes."""
    rank = len(shape)
    places: dict[int, T.Tree] = {}
    inside: T.Tree | None = None
    for axis, (low, high) in borders.items():
        if same(low, 0) and same(high, 0):
            continue
        position, size = Iota(_axis(rank, axis)), v.shape[axis]
        place: T.Tree = Iota(_axis(rank, axis), -low)
        if same(low, 0):  # not the plain index: its axis would have the result's size
            place = Apply("min({0}, {1})", (place, Const(size - 1)), 1)
        elif not isinstance(size, int) or not isinstance(low, int):
            place = Apply("i64({0})", (place,), 0)  # computed, since no size may stand in a plain index
        places[axis] = place
        for bound, text in ((low, "({0} >= {1})"), (low + size, "({0} < {1})")):
            test = Apply(text, (position, Const(bound)), 0)
            inside = test if inside is None else Apply("({0} and {1})", (inside, test), 0)
    if inside is None:
        return v
    return Value(list(shape), v.dtype, Apply("where({0}, {1}, {2})", (inside, read_at(g, v, places), number)))


@entry("flip")
def _flip(g: Any, a: Any, dims: list[int]) -> Value:
    v = g.value(a)
    rank = len(v.shape)
    places = {d % rank: Apply("i64({0})", (Iota(_axis(rank, d % rank, -1), v.shape[d % rank] - 1),), 0)
              for d in dims if not same(v.shape[d % rank], 1)}
    return Value(list(v.shape), v.dtype, read_at(g, v, places)) if places else v


@entry("repeat")
def _repeat(g: Any, a: Any, repeats: list[Any]) -> Value:
    v = g.value(a)
    times = [expression(r) for r in repeats]
    for _ in range(len(times) - len(v.shape)):
        v = T.unsqueezed(v, 0)
    wide: list[Any] = []
    for axis in reversed(range(len(times))):
        v = T.unsqueezed(v, axis)
        wide[:0] = [times[axis], v.shape[axis + 1]]
    v = T.expanded(v, wide)
    out = T.reshaped(v, g.shape) or T.reshaped(g.stored(v), g.shape)
    if out is None:
        raise Unsupported("a repeat that is no view")
    return out

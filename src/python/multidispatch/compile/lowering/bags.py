"""The table, continued: bags of embeddings, of equal lengths or as offsets say."""

from __future__ import annotations

from typing import Any

from ..sizes import Unsupported, same, tidy
from . import tree as T
from .reductions import reduce
from .table import apply, cast, entry
from .tree import Apply, Const, Gather, Iota, Leaf, Value


@entry("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(g: Any, table: Any, ids: Any, offsets: Any, scale_by_frequency: bool = False, mode: int = 0,
                   sparse: bool = False, weights: Any = None, include_last: bool = False, padding: int = -1) -> list[Any]:
    """The backward reads the further results: there bags are PyTorch's."""
    if any(g.is_used(k) for k in (1, 2, 3)):
        raise Unsupported("bags of embeddings whose gradient is asked for")
    w, i, starts = g.value(table), g.value(ids), g.value(offsets)
    t = starts.tree
    is_matrix = isinstance(t, Iota) and same(t.offset, 0) and same(tidy(starts.shape[0] * t.stride[0]), i.shape[0])
    how = _equal_bags if is_matrix and not include_last and padding < 0 else _ragged_bags
    name = ("sum", "mean", "max")[mode]
    scale = None if weights is None else Value(i.shape, w.dtype, g.leaf(g.value(weights)))
    return [how(g, name, w, Value(i.shape, i.dtype, g.leaf(i)), scale, starts, include_last, padding), None, None, None]


def _rows(g: Any, w: Value, ids: Value, shape: list[Any]) -> Value:
    """The rows of the table that ids name, ids being broadcast to the shape; its last axis is the table's."""
    leaf = g.leaf(w)
    at = T.expanded(ids, shape).tree
    stride = (0,) * (len(shape) - 1) + (leaf.stride[1],)
    return Value(list(shape), w.dtype, Gather(leaf.buf, stride, leaf.offset, ((leaf.stride[0], w.shape[0], at),)))


def _equal_bags(g: Any, name: str, w: Value, ids: Value, scale: "Value | None", starts: Value, *_: Any) -> Value:
    """Bags of equal length: the rows of a matrix of ids."""
    n, length, width = starts.shape[0], starts.tree.stride[0], w.shape[1]
    bags = T.reshaped(ids, [n, length])
    assert bags is not None
    v = _rows(g, w, T.unsqueezed(bags, 2), [n, length, width])
    if scale is not None:
        wide = T.reshaped(scale, [n, length])
        assert wide is not None
        v = apply(g, "({0} * {1})", [v, T.unsqueezed(wide, 2)], w.dtype)
    return reduce(g, name, v, [1], False, g.dtypes[0])


def _limits(g: Any, starts: Value, n: Any, include_last: bool) -> tuple[Value, Value]:
    """Where each bag begins and ends. The last ends with the ids. Offsets that do not begin with 0, fall, or lie behind
    the ids are an error in PyTorch: here, too, as an index that is out of range."""
    leaf = g.leaf(cast(starts, "i64"))
    last = tidy(starts.shape[0] - 1)
    shape, place = [last if include_last else starts.shape[0]], Iota((1,))

    def read(index: T.Tree) -> T.Tree:
        return Gather(leaf.buf, (0,), leaf.offset, ((leaf.stride[0], starts.shape[0], index),))

    first, behind = Leaf(leaf.buf, leaf.stride, leaf.offset), read(Apply("min({0} + 1, {1})", (place, Const(last)), 1))
    text = "{2}" if include_last else "where({0} < {1}, {2}, {3})"
    end = Apply(text, (place, Const(last), behind, Const(n)), 2)
    right = Apply("({0} <= {1} and {1} <= {2} and ({3} > 0 or {0} == 0))", (first, end, Const(n), place), 4)
    return Value(shape, "i64", read(Apply("where({0}, {1}, -1)", (right, place), 1))), Value(shape, "i64", end)


_NEUTRAL = {"sum": 0.0, "mean": 0.0, "max": float("-inf")}


def _ragged_bags(g: Any, name: str, w: Value, ids: Value, scale: "Value | None", starts: Value, include_last: bool,
                 padding: int) -> Value:
    """Bags of any lengths: each element asks whether it is the bag's. On a CPU that becomes the range of the loop."""
    if g.device.type != "cpu":
        raise Unsupported("bags of different lengths, on a GPU")
    first, end = _limits(g, starts, ids.shape[0], include_last)
    flat, shape = [first.shape[0], ids.shape[0]], [first.shape[0], ids.shape[0], w.shape[1]]
    place = Value(flat, "i64", Iota((0, 1)))
    first, end = (T.unsqueezed(v, 1) for v in (first, end))
    is_in = apply(g, "({0} <= {1} and {1} < {2})", [first, place, end], "bool", 2)
    if padding >= 0:
        is_in = apply(g, "({0} and {1} != {2})", [is_in, T.unsqueezed(ids, 0), g.value(padding)], "bool", 1)
    v = _rows(g, w, T.unsqueezed(T.unsqueezed(ids, 0), 2), shape)
    if scale is not None:
        v = apply(g, "({0} * {1})", [v, T.unsqueezed(T.unsqueezed(scale, 0), 2)], w.dtype)
    v = apply(g, "where({0}, {1}, {2})", [T.unsqueezed(is_in, 2), v, g.value(_NEUTRAL[name])], w.dtype)
    out = reduce(g, "sum" if name == "mean" else name, v, [1], False, w.dtype)
    if name == "sum":
        return out
    count = apply(g, "f32({1} - {0})", [first, end], "f32", 2)
    if padding >= 0:
        count = reduce(g, "sum", apply(g, "where({0}, 1.0, 0.0)", [is_in], "f32"), [1], True, "f32")
    text = "where({1} == 0.0, 0.0, {0})" if name == "max" else "({0} / max({1}, 1.0))"
    return apply(g, text, [out, count], w.dtype, 3)

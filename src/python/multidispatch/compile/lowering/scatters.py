"""The table, continued: elements written at places that indices say, over a copy of the rest; and bags of embeddings."""

from __future__ import annotations

from typing import Any, Sequence

from ..sizes import Unsupported, expression, same, tidy
from . import tree as T
from .reductions import _index_value, reduce
from .table import apply, as_stored, cast, entry, kind
from .tree import Apply, Const, Gather, Iota, Leaf, Value


def _check(g: Any, how: str) -> None:
    """Refuses updates whose result depends on their order, where equal bits were asked for, and on a GPU those that round
    at each update."""
    if g.dtype == "bool" and how != "=":
        raise Unsupported("sums of truth values")
    is_fixed = g.device.type == "cpu" and how != "="
    if not is_fixed and g.is_deterministic:
        raise Unsupported("writes at indices, where determinism was asked for")
    if g.device.type != "cpu" and (g.dtype not in ("f32", "f64") or how != "+="):
        raise Unsupported(f"updates of {g.dtype} by {how} on a GPU")


def _copied(g: Any, base: Value, dtype: str) -> T.Buf:
    """Memory that begins as the value; kernels that come later write into it."""
    whole = g.buf("cat", list(base.shape), dtype)
    copy = g.buf("point", list(base.shape), dtype, tree=cast(base, g.dtype).tree)
    copy.stride, copy.into = list(whole.stride), (whole, 0)
    whole.is_memory = copy.is_memory = True
    return whole


def _scattered(g: Any, base: Value, update: Value, picked: dict[int, Any], plain: dict[int, int], how: str) -> Value:
    """The base with elements of the update written (how: =, +=, max=, min=) along axes of the base at the places that
    trees over the update say, along others at an axis of the update."""
    _check(g, how)
    dtype = "f32" if how == "+=" and g.dtype in ("f16", "bf16") else g.dtype  # such sums are rounded once
    value = cast(update, g.dtype)
    if not isinstance(value.tree, Const):
        value = Value(value.shape, value.dtype, g.leaf(value))
    whole = _copied(g, base, dtype)
    stride: list[Any] = [0] * len(update.shape)
    for axis, of_update in plain.items():
        stride[of_update] = whole.stride[axis]
    b = g.buf("scatter", list(update.shape), dtype, tree=Apply("", (value.tree, *picked.values())), reduction=how,
              at=tuple((whole.stride[a], base.shape[a]) for a in picked))
    b.stride, b.into, b.is_memory = stride, (whole, 0), True
    out = Value(list(base.shape), dtype, Leaf(whole, tuple(whole.stride)))
    return out if dtype == g.dtype else cast(out, g.dtype)


def _index_memory(g: Any, v: Any, size: Any = None) -> Value:
    """An index in memory, since the left side of a formula reads no scalars. `size`: of the axis, where negative ones count
    from its end."""
    v = g.value(v)
    if kind(v.dtype) != "whole":
        raise Unsupported(f"an index of {v.dtype}")
    if size is not None:
        v = Value(v.shape, v.dtype, _index_value(v, size, True))
    return Value(v.shape, v.dtype, g.leaf(v))


@entry("index_put")
def _index_put(g: Any, a: Any, indices: Any, values: Any, accumulate: bool = False) -> Value:
    base = g.value(a)
    given = {axis: _index_memory(g, i, base.shape[axis]) for axis, i in enumerate(indices) if i is not None}
    axes = list(given)
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        raise Unsupported("indices with a gap between them")
    shape = g.broadcast([i.shape for i in given.values()])
    first, n_after = axes[0], len(base.shape) - axes[-1] - 1
    full = [*base.shape[:first], *shape, *base.shape[axes[-1] + 1:]]
    picked = {}
    for axis, i in given.items():
        wide = T.expanded(i, shape)
        for _ in range(n_after):
            wide = T.unsqueezed(wide, len(wide.shape))
        picked[axis] = T.expanded(wide, full).tree
    plain = {axis: axis for axis in range(first)}
    plain |= {axes[-1] + 1 + k: first + len(shape) + k for k in range(n_after)}
    return _scattered(g, base, T.expanded(g.value(values), full), picked, plain, "+=" if accumulate else "=")


def _rows(g: Any, a: Any, dim: int, index: Any, update: Any, how: str) -> Value:
    """base[.., index[i], ..] for update[.., i, ..]; an update without axes is repeated."""
    base, i, v = g.value(a), _index_memory(g, index), g.value(update)
    if not base.shape or len(i.shape) != 1:
        raise Unsupported("rows of a scalar, or by an index without axes")
    dim %= len(base.shape)
    full = [*base.shape[:dim], i.shape[0], *base.shape[dim + 1:]]
    for _ in base.shape[dim + 1:]:
        i = T.unsqueezed(i, len(i.shape))
    return _scattered(g, base, T.expanded(v, full), {dim: T.expanded(i, full).tree}, {a: a for a in range(len(full)) if a != dim}, how)


@entry("index_add")
def _index_add(g: Any, a: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Value:
    v = g.value(source)
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        v = apply(g, "({0} * {1})", [v, g.value(alpha)], g.dtype)
    return _rows(g, a, dim, index, v, "+=")


@entry("index_copy")
def _index_copy(g: Any, a: Any, dim: int, index: Any, source: Any) -> Value:
    return _rows(g, a, dim, index, source, "=")


@entry("index_fill.int_Scalar")
def _index_fill(g: Any, a: Any, dim: int, index: Any, value: Any) -> Value:
    return _rows(g, a, dim, index, value, "=")


_BY_NAME = {"sum": "+=", "amax": "max=", "amin": "min=", "add": "+="}


@entry("scatter_add", "scatter.src", "scatter.value", "scatter_reduce.two", "scatter.reduce", "scatter.value_reduce")
def _scatter(g: Any, a: Any, dim: int, index: Any, source: Any, by: Any = None, *, reduce: Any = None,
             include_self: bool = True) -> Value:
    base, i, v = g.value(a), _index_memory(g, index), g.value(source)
    by = "sum" if g.name == "scatter_add" else by or reduce
    how = "=" if by is None else _BY_NAME.get(by)
    if how is None or not include_self or not base.shape or len(i.shape) != len(base.shape):
        raise Unsupported(f"scatter_reduce by {by}, without self, or of a scalar")
    dim %= len(base.shape)
    if not v.shape:
        v = T.expanded(v, i.shape)
    for axis, n in enumerate(i.shape):
        if not same(n, v.shape[axis]):
            v = T.sliced(v, axis, 0, n)
    return _scattered(g, base, v, {dim: i.tree}, {a: a for a in range(len(i.shape)) if a != dim}, how)


# ---- Embeddings

@entry("embedding_dense_backward")
def _embedding_backward(g: Any, gradient: Any, ids: Any, rows: Any, padding: int, by_frequency: bool) -> Value:
    v, i = g.value(gradient), _index_memory(g, ids)
    if by_frequency or g.device.type != "cpu":
        raise Unsupported("a gradient of an embedding that counts its rows, or on a GPU")
    wide = T.expanded(T.unsqueezed(i, len(i.shape)), v.shape)
    if padding >= 0:
        v = apply(g, "where({0} == {2}, 0.0, {1})", [wide, v, g.value(int(padding))], g.dtype, 2)
    base = Value(list(g.shape), g.dtype, Const(0.0))
    last = len(v.shape) - 1
    return _scattered(g, base, v, {0: wide.tree}, {1: last}, "+=")


@entry("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(g: Any, table: Any, ids: Any, offsets: Any, scale_by_frequency: bool = False, mode: int = 0,
                   sparse: bool = False, weights: Any = None, include_last: bool = False, padding: int = -1) -> list[Any]:
    """Bags of equal length: the rows of a matrix of ids."""
    w, i, starts = g.value(table), g.value(ids), g.value(offsets)
    t = starts.tree
    is_matrix = isinstance(t, Iota) and same(t.offset, 0) and same(tidy(starts.shape[0] * t.stride[0]), i.shape[0])
    if not is_matrix or include_last or padding >= 0 or any(g.is_used(k) for k in (1, 2, 3)):
        raise Unsupported("bags of different lengths, or with a padding")
    n, length, width = starts.shape[0], t.stride[0], w.shape[1]
    leaf, name = g.leaf(w), ("sum", "mean", "max")[mode]
    bags = T.reshaped(Value(i.shape, i.dtype, g.leaf(i)), [n, length])
    assert bags is not None
    wide = T.expanded(T.unsqueezed(bags, 2), [n, length, width])
    tree: T.Tree = Gather(leaf.buf, (0, 0, leaf.stride[1]), leaf.offset, ((leaf.stride[0], w.shape[0], wide.tree),))
    v = Value([n, length, width], w.dtype, tree)
    if weights is not None:
        scale = T.reshaped(Value(i.shape, w.dtype, g.leaf(g.value(weights))), [n, length])
        assert scale is not None
        v = apply(g, "({0} * {1})", [v, T.unsqueezed(scale, 2)], w.dtype)
    return [reduce(g, name, v, [1], False, g.dtypes[0]), None, None, None]


# ---- Parts

def _with_part(g: Any, a: Any, part: Value, stride: Sequence[Any], offset: Any) -> Value:
    """A copy of the value in which the part stands, by these strides of its own memory."""
    whole = _copied(g, g.value(a), g.dtype)
    b = g.buf("point", list(part.shape), g.dtype, tree=cast(part, g.dtype).tree)
    b.stride, b.into, b.is_memory = list(stride), (whole, offset), True
    return Value(list(whole.shape), g.dtype, Leaf(whole, tuple(whole.stride)))


@entry("slice_scatter")
def _slice_scatter(g: Any, a: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    v, shape = g.value(part), list(g.shape)
    if all(map(same, v.shape, shape)):
        return cast(v, g.dtype)
    dim %= len(shape)
    first = 0 if start is None else expression(start)
    if isinstance(first, int) and first < 0:
        first = tidy(first + shape[dim])
    elif not isinstance(first, int) and not (first.is_Symbol or first.is_nonnegative):
        raise Unsupported("a slice that may begin before its axis")
    memory = T.contiguous(shape)
    stride = [tidy(s * step) if axis == dim else s for axis, s in enumerate(memory)]
    return _with_part(g, a, v, stride, tidy(first * memory[dim]))


@entry("select_scatter")
def _select_scatter(g: Any, a: Any, part: Any, dim: int, index: Any) -> Value:
    v, shape = g.value(part), list(g.shape)
    dim %= len(shape)
    at = expression(index)
    if not isinstance(at, int):
        raise Unsupported("select_scatter at a dynamic place")
    memory = T.contiguous(shape)
    offset = tidy((at if at >= 0 else shape[dim] + at) * memory[dim])
    return _with_part(g, a, v, [*memory[:dim], *memory[dim + 1:]], offset)


@entry("copy")
def _copy(g: Any, a: Any, source: Any, non_blocking: bool = False) -> Value:
    return T.expanded(cast(as_stored(g.value(source)), g.dtype), g.shape)

"""The table, continued: elements written at places that indices say, over a copy of the rest."""

from __future__ import annotations

import math
from typing import Any, Sequence

import torch

from ..sizes import Unsupported, expression, product, same, tidy
from . import tree as T
from .reductions import _index_value, reduce
from .table import REAL, apply, as_stored, cast, entry, kind, operand
from .tree import Apply, Const, Iota, Leaf, Value


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


_FEW_BINS = 32  # so many are counted by comparing each element with all of them


@entry("histc")
def _histc(g: Any, a: Any, bins: int = 100, least: Any = 0, most: Any = 0) -> Value:
    """Each element adds 1 to its bin; one outside, as nan is, adds 0 to the first."""
    v, bounds = g.value(a), [float(b) for b in (least, most) if isinstance(b, (int, float))]
    is_real, is_few = g.dtype in REAL, bins <= _FEW_BINS
    if len(bounds) < 2 or bounds[0] == bounds[1] or not is_few and (not is_real or g.device.type != "cpu"):
        raise Unsupported("a histogram whose bounds are those of the data, or of many bins of whole numbers or on a GPU")
    low, high = (_bound(b, g.dtype) for b in bounds)
    if not (low < high and math.isfinite(high - low)):
        raise Unsupported("bounds of a histogram that are none")
    flat = T.reshaped(g.stored(as_stored(v)), [product(v.shape)])
    assert flat is not None
    v = flat
    inside = apply(g, "({0} >= {1} and {0} <= {2})", [v, g.value(low), g.value(high)], "bool", 2)
    text = "({0} - {1}) * {2} / {3}" if is_real else "({0} - {1}) * {2} // {3}"
    wide = [cast(v, "i64") if not is_real else v, g.value(low), g.value(float(bins) if is_real else bins), g.value(high - low)]
    place = apply(g, text, wide, v.dtype if is_real else "i64", 4)
    index = apply(g, "where({0}, min(i64({1}), {2}), 0)", [inside, place, g.value(bins - 1)], "i64", 3)
    if is_few:
        return _counted(g, inside, index, bins)
    hits = apply(g, "where({0}, 1.0, 0.0)", [inside], g.dtype)
    base = Value(list(g.shape), g.dtype, Const(0.0))
    return _scattered(g, base, hits, {0: _index_memory(g, index).tree}, {}, "+=")


def _bound(b: float, dtype: str) -> Any:
    return int(b) if dtype not in REAL else torch.tensor(b, dtype=torch.float64 if dtype == "f64" else torch.float32).item()


def _counted(g: Any, inside: Value, index: Value, bins: int) -> Value:
    """[bins]: how many elements inside have each index."""
    both = [bins, *index.shape]
    inside, index = (T.expanded(T.unsqueezed(x, 0), both) for x in (inside, index))
    text = "where({0} and {1} == {2}, 1.0, 0.0)" if g.dtype in REAL else "i64({0} and {1} == {2})"
    wide = "f64" if g.dtype == "f64" else "f32" if g.dtype in REAL else "i64"
    is_it = Apply(text, (inside.tree, index.tree, Iota((1, 0))), 2)
    return reduce(g, "sum", Value(both, wide, is_it), [1], False, wide)


@entry("index_copy")
def _index_copy(g: Any, a: Any, dim: int, index: Any, source: Any) -> Value:
    return _rows(g, a, dim, index, source, "=")


@entry("index_fill.int_Scalar")
def _index_fill(g: Any, a: Any, dim: int, index: Any, value: Any) -> Value:
    return _rows(g, a, dim, index, value, "=")


_BY_NAME = {"sum": "+=", "amax": "max=", "amin": "min=", "add": "+=", "mean": "+="}


def _begun(g: Any, base: Value, shape: list[Any], picked: dict[int, Any], plain: dict[int, int], by: str) -> Value:
    """The base with the neutral number at the places that are written, which then do not count themselves."""
    if by in ("sum", "mean"):
        number: Any = 0.0 if g.dtype in REAL else 0
    elif g.dtype in REAL:
        number = math.inf if by == "amin" else -math.inf
    else:
        raise Unsupported(f"{by} of {g.dtype} without self")
    return _scattered(g, base, Value(list(shape), g.dtype, Const(number)), picked, plain, "=")


def _averaged(g: Any, total: Value, shape: list[Any], picked: dict[int, Any], plain: dict[int, int], with_self: bool) -> Value:
    """The sum over how many were added: counted in f32."""
    if g.dtype not in REAL:
        raise Unsupported(f"a mean of {g.dtype}")
    whole, dtype = Value(list(total.shape), "f32", Const(float(with_self))), g.dtypes[0]
    g.dtypes[0] = "f32"
    try:
        count = _scattered(g, whole, Value(list(shape), "f32", Const(1.0)), picked, plain, "+=")
    finally:
        g.dtypes[0] = dtype
    return apply(g, "({0} / max({1}, 1.0))", [total, operand(count, g.dtype)], g.dtype, 3)


@entry("scatter_add", "scatter.src", "scatter.value", "scatter_reduce.two", "scatter.reduce", "scatter.value_reduce")
def _scatter(g: Any, a: Any, dim: int, index: Any, source: Any, by: Any = None, *, reduce: Any = None,
             include_self: bool = True) -> Value:
    base, i, v = g.value(a), _index_memory(g, index), g.value(source)
    by = "sum" if g.name == "scatter_add" else by or reduce
    how = "=" if by is None else _BY_NAME.get(by)
    if how is None or not base.shape or len(i.shape) != len(base.shape):
        raise Unsupported(f"scatter_reduce by {by}, or of a scalar")
    dim %= len(base.shape)
    if not v.shape:
        v = T.expanded(v, i.shape)
    for axis, n in enumerate(i.shape):
        if not same(n, v.shape[axis]):
            v = T.sliced(v, axis, 0, n)
    picked, plain = {dim: i.tree}, {a: a for a in range(len(i.shape)) if a != dim}
    if not include_self:
        base = _begun(g, base, i.shape, picked, plain, by)
    out = _scattered(g, base, v, picked, plain, how)
    return _averaged(g, out, i.shape, picked, plain, include_self) if by == "mean" else out


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

"""The table, continued: views, which read the same elements by other strides."""

from __future__ import annotations

from typing import Any

from ..sizes import Unsupported, contiguous, expression, is_dense, product, same
from . import tree as T
from .table import entry
from .tree import Leaf, Value


@entry("permute")
def _permute(g: Any, a: Any, dims: list[int]) -> Value:
    v = g.value(a)
    return T.permuted(v, [d % len(v.shape) for d in dims])


@entry("transpose.int", "t")
def _transpose(g: Any, a: Any, i: int = 0, j: int = 1) -> Value:
    v = g.value(a)
    dims = list(range(len(v.shape)))
    if len(dims) > 1:
        dims[i], dims[j] = dims[j], dims[i]
    return T.permuted(v, dims)


@entry("expand")
def _expand(g: Any, a: Any, shape: Any, implicit: bool = False) -> Value:
    return T.expanded(g.value(a), g.shape)


@entry("view", "_unsafe_view", "reshape", "squeeze.dim", "squeeze.dims", "squeeze", "unsqueeze", "flatten.using_ints")
def _view(g: Any, a: Any, *_: Any) -> Value:
    v = g.value(a)
    # PyTorch has checked what SymPy cannot see; row-major memory has any such shape
    if not same(product(v.shape), product(g.shape)):
        return Value(list(g.shape), v.dtype, Leaf(g.leaf(g.stored(v)).buf, tuple(contiguous(g.shape))))
    out = T.reshaped(v, g.shape)
    if out is not None:
        return out
    small = T.narrowed(v)
    if small is not v and not isinstance(v.tree, Leaf):  # what is repeated is computed once
        v = T.expanded(g.stored(small), v.shape)
    return T.reshaped(g.stored(v), g.shape)  # type: ignore[return-value]


@entry("as_strided")
def _as_strided(g: Any, a: Any, size: Any, stride: Any, offset: Any = None) -> Value:
    """Strides over the memory that the description of the operand promises."""
    described, v = g.node.args[0].meta["val"], g.value(a)
    leaf = g.described(v, described)
    begin = expression(described.storage_offset())
    is_so = all(same(n, 1) or same(s, expression(t)) for n, s, t in zip(v.shape, leaf.stride, described.stride()))
    if not is_so or not same(leaf.offset, 0) or not same(begin, 0):
        raise Unsupported("as_strided of a part of memory")
    b = leaf.buf
    wanted = [expression(s) for s in stride]
    if b.kind == "cat" or b.into or not is_dense(b.shape, b.stride) or any(same(s, 0) for s in wanted):
        raise Unsupported("as_strided of memory with gaps")
    return Value(list(g.shape), v.dtype, Leaf(b, tuple(wanted), 0 if offset is None else expression(offset)))


@entry("select.int")
def _select(g: Any, a: Any, dim: int, index: Any) -> Value:
    v = g.value(a)
    dim %= len(v.shape)
    index = expression(index)
    if not isinstance(index, int) and index.could_extract_minus_sign():
        raise Unsupported("select from the end by a dynamic index")
    return T.selected(v, dim, index if not isinstance(index, int) or index >= 0 else v.shape[dim] + index)


@entry("slice.Tensor")
def _slice(g: Any, a: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    v = g.value(a)
    dim %= len(v.shape)
    first = 0 if start is None else expression(start)
    if same(v.shape[dim], g.shape[dim]) and step == 1:
        return v
    if isinstance(first, int) and first < 0:
        first = v.shape[dim] + first
    elif not isinstance(first, int) and not (first.is_Symbol or first.is_nonnegative):
        raise Unsupported("a slice that may begin before its axis")
    return T.sliced(v, dim, first, g.shape[dim], step)


@entry("split_with_sizes", "split.Tensor", "chunk", "unbind.int")
def _split(g: Any, a: Any, sizes: Any, dim: int = 0) -> list[Value]:
    v = g.whole(g.value(a))
    if "unbind" in g.name:
        axis = sizes % len(v.shape)
        return [T.selected(v, axis, i) for i in range(len(g.shapes))]
    dim %= len(v.shape)
    out, start = [], 0
    for shape in g.shapes:
        out.append(T.sliced(v, dim, start, shape[dim]))
        start = start + shape[dim]
    return out



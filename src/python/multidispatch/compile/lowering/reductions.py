"""The table, continued: reductions, norms, products, what is read by index, and cat."""

from __future__ import annotations

import operator
from typing import Any, Sequence

import torch

from ..sizes import Unsupported, contiguous, product, same, tidy
from . import tree as T
from .table import apply, as_stored, cast, entry, kind, operand
from .tree import Apply, Buf, Gather, Leaf, Value


def _measured(g: Any, v: Value, axes: Sequence[int]) -> Value:
    """The value, with some tensor that has each of these axes: a kernel reads sizes from its tensors."""
    def is_known(a: int) -> bool:
        return isinstance(v.shape[a], int) or any(not same(t.stride[a], 0) for t in T.reads(v.tree))

    return v if all(map(is_known, axes)) else Value(list(v.shape), v.dtype, g.leaf(g.stored(v)))


def reduce(g: Any, name: str, v: Value, dims: Sequence[int] | None, keepdim: bool, dtype: str) -> Value:
    """A reduction over some axes, or over all."""
    rank = len(v.shape)
    where = sorted({d % rank for d in dims} if dims else range(rank)) if rank else []
    shape = [s for a, s in enumerate(v.shape) if a not in where]
    if not where:  # the tensor has one element
        if name.startswith("var"):
            raise Unsupported("the variance of a scalar")
        return Value([], dtype, T.Const(0)) if name.startswith("arg") else v
    v = _measured(g, v, where)
    last = T.permuted(v, [a for a in range(rank) if a not in where] + where)
    buf = g.buf("reduce", shape, dtype, tree=last.tree, reduction=name, reduced=[v.shape[a] for a in where])
    out = Value(shape, dtype, Leaf(buf, tuple(contiguous(shape))))
    for axis in where if keepdim else ():
        out = T.unsqueezed(out, axis)
    return out


@entry("sum.dim_IntList", "sum", "mean.dim", "mean", "amax", "amin", "prod", "prod.dim_int", "any", "any.dim",
       "any.dims", "all", "all.dim", "max", "min")
def _reduce(g: Any, a: Any, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    v = g.value(a)
    name = {"amax": "max", "amin": "min"}.get(g.name.split(".")[0], g.name.split(".")[0])
    if name in ("any", "all"):
        v = cast(v, "bool")
    elif g.dtype == "bool" and name in ("max", "min"):
        name = "any" if name == "max" else "all"
    elif g.dtype == "bool":
        raise Unsupported(f"{name} of truth values")
    elif kind(g.dtype) != kind(v.dtype) or g.dtype == "f64":
        v = cast(v, g.dtype)
    return reduce(g, name, v, [dims] if isinstance(dims, int) else dims, keepdim, g.dtype)


@entry("argmax", "argmin")
def _arg(g: Any, a: Any, dim: int | None = None, keepdim: bool = False) -> Value:
    return reduce(g, g.name, as_stored(g.value(a)), None if dim is None else [dim], keepdim, "i64")


@entry("max.dim", "min.dim")
def _max_dim(g: Any, a: Any, dim: int, keepdim: bool = False) -> list[Value]:
    v, name = as_stored(g.value(a)), g.name[:3]
    if v.dtype == "bool":
        raise Unsupported(f"{name} of truth values")
    return [reduce(g, name, v, [dim], keepdim, v.dtype), reduce(g, "arg" + name, v, [dim], keepdim, "i64")]


def _variance(g: Any, v: Value, dims: Any, correction: Any, keepdim: bool) -> Value:
    if correction is None or correction == 1:
        return reduce(g, "var unbiased", v, dims, keepdim, v.dtype)
    out = reduce(g, "var", v, dims, keepdim, v.dtype)
    if correction == 0:
        return out
    if correction != int(correction):
        raise Unsupported(f"variance with correction {correction}")
    rank = len(v.shape)
    n = product([v.shape[d] for d in ({d % rank for d in dims} if dims else range(rank))])
    wide = "f64" if v.dtype == "f64" else "f32"
    return apply(g, f"({{0}} * {wide}({{1}}) / {wide}(max({{1}} - {{2}}, 0)))", [
        out, Value([], "i64", T.Const(n)), g.value(int(correction))], v.dtype, 4)


@entry("var.correction", "var_mean.correction", "std.correction", "var.dim")
def _var(g: Any, a: Any, dims: Any = None, unbiased: Any = True, *, correction: Any = None,
         keepdim: bool = False) -> Any:
    v = g.shared(g.value(a))
    correction = correction if correction is not None else int(bool(unbiased))
    var = _variance(g, v, dims, correction, keepdim)
    if g.name.startswith("var_mean"):
        return [var, reduce(g, "mean", v, dims, keepdim, v.dtype)]
    return apply(g, "sqrt({0})", [var], var.dtype) if g.name.startswith("std") else var


@entry("cumsum", "cumprod")
def _scan(g: Any, a: Any, dim: int, **_: Any) -> Value:
    v = cast(g.value(a), g.dtype)
    return scan(g, g.name, v, dim % len(v.shape), g.dtype) if v.shape else v


def scan(g: Any, name: str, v: Value, dim: int, dtype: str, is_second: bool = False) -> Value:
    """A running reduction along an axis: the last one of its memory, or the second one, so that all others lie side by
    side."""
    v = _measured(g, v, [dim])
    order = [a for a in range(len(v.shape)) if a != dim] + [dim]
    back = [*range(dim), len(v.shape) - 1, *range(dim, len(v.shape) - 1)]
    last = T.permuted(v, order)
    buf = g.buf("scan", last.shape, dtype, tree=last.tree, reduction=name, is_memory=True)
    if is_second and len(order) > 2:
        moved = T.contiguous([last.shape[a] for a in (0, len(order) - 1, *range(1, len(order) - 1))])
        buf.stride = [moved[0], *moved[2:], moved[1]]
    return T.permuted(Value(last.shape, dtype, Leaf(buf, tuple(buf.stride))), back)


@entry("_softmax", "_log_softmax")
def _softmax(g: Any, a: Any, dim: int, half: bool = False) -> Value:
    v = operand(g.value(a), g.dtype)
    if not v.shape:
        raise Unsupported("softmax of a scalar")
    v = g.shared(v)
    top = reduce(g, "max", v, [dim], True, "f32" if g.dtype != "f64" else "f64")
    less = apply(g, "({0} - {1})", [v, top], top.dtype)
    if g.name == "_log_softmax":
        less = g.shared(less)
        total = reduce(g, "sum", apply(g, "exp({0})", [less], top.dtype, 8), [dim], True, top.dtype)
        out = apply(g, "({0} - log({1}))", [less, total], top.dtype, 9)
    else:
        e = g.shared(apply(g, "exp({0})", [less], top.dtype, 8))
        out = apply(g, "({0} / {1})", [e, reduce(g, "sum", e, [dim], True, top.dtype)], top.dtype, 3)
    return Value(out.shape, g.dtype, out.tree)


@entry("native_layer_norm")
def _layer_norm(g: Any, a: Any, shape: Any, weight: Any, bias: Any, eps: float) -> list[Value]:
    v = g.value(a)
    v = g.shared(v)
    dims = list(range(len(v.shape) - len(shape), len(v.shape)))
    wide = "f64" if v.dtype == "f64" else "f32"
    mean = reduce(g, "mean", v, dims, True, wide)
    var = reduce(g, "var", v, dims, True, wide)
    rstd = g.shared(apply(g, "rsqrt({0} + {1})", [var, g.value(float(eps))], wide, 4))
    out = apply(g, "(({0} - {1}) * {2})", [v, mean, rstd], wide, 2)
    if weight is not None:
        out = apply(g, "({0} * {1})", [out, g.value(weight)], wide)
    if bias is not None:
        out = apply(g, "({0} + {1})", [out, g.value(bias)], wide)
    return [Value(x.shape, d, x.tree) for x, d in zip((out, mean, rstd), g.dtypes)]


# ---- Products


def product_of(g: Any, a: Value, b: Value, n_batch: int, dtype: str = "", order: Sequence[int] | None = None) -> Value:
    """[*batch, m, n]: the sum over the last axes of a [*batch, m, ..] times b [*batch, n, ..], in the dtype of the operands
    or a wider one, which must be given for whole numbers and reals of 8 bits. Its memory has the axes in `order`."""
    if kind(a.dtype) != "real" and not dtype or kind(a.dtype) == "real" and a.dtype != b.dtype:
        raise Unsupported(f"a product of {a.dtype} and {b.dtype}")
    shape, over = [*a.shape[:n_batch + 1], b.shape[n_batch]], a.shape[n_batch + 1:]
    left = T.expanded(T.unsqueezed(a, n_batch + 1), [*shape, *over])
    right = T.expanded(T.unsqueezed(b, n_batch), [*shape, *over])
    order = range(n_batch + 2) if order is None else order
    all_axes = [*order, *range(n_batch + 2, n_batch + 2 + len(over))]
    body = Apply("{0} * {1}", tuple(T.permuted(x, all_axes).tree for x in (left, right)))
    buf = g.buf("product", [shape[i] for i in order], dtype or a.dtype, tree=body, reduction="sum", reduced=over)
    stride = [s for _, s in sorted(zip(order, buf.stride))]
    return Value(shape, buf.dtype, Leaf(buf, tuple(stride)))


def _product(g: Any, a: Value, b: Value, n_batch: int) -> Value:
    """[*batch, m, k] times [*batch, k, n]."""
    return product_of(g, a, T.permuted(b, [*range(n_batch), n_batch + 1, n_batch]), n_batch)


def operand_memory(g: Any, a: Any) -> Value:
    """An operand of a product: memory, by whatever strides, unless its reader is a chain (running/chains.py). With batches
    it is row-major if it is new, or each matrix the other way round, as what it is made of: they may merge."""
    v = g.value(a)
    if len(v.shape) > 2 and not isinstance(v.tree, Leaf):
        order, batch = T.memory_order(v), list(range(len(v.shape) - 2))
        v = g.point(v, order) if order[:-2] == batch else g.stored(v)
    return Value(v.shape, v.dtype, g.place(v))


@entry("mm", "bmm")
def _mm(g: Any, a: Any, b: Any, out_dtype: Any = None) -> Value:
    return _product(g, operand_memory(g, a), operand_memory(g, b), 1 if g.name == "bmm" else 0)


@entry("addmm", "baddbmm")
def _addmm(g: Any, c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Value:
    out = _product(g, operand_memory(g, a), operand_memory(g, b), 1 if g.name == "baddbmm" else 0)
    if alpha != 1:
        out = apply(g, "({0} * {1})", [out, g.value(alpha)], g.dtype)
    if beta == 0:
        return out
    scaled = g.value(c) if beta == 1 else apply(g, "({0} * {1})", [g.value(c), g.value(beta)], g.dtype)
    return apply(g, "({0} + {1})", [out, scaled], g.dtype)


# ---- By index


def _counts_up(tree: T.Tree) -> bool:
    """True for places that count from 0 or more, also divided."""
    if isinstance(tree, Apply) and tree.text == "({0} // {1})" and isinstance(tree.args[1], T.Const):
        return _counts_up(tree.args[0]) and isinstance(tree.args[1].value, int) and tree.args[1].value > 0
    return isinstance(tree, T.Iota) and all(isinstance(s, int) and s >= 0 for s in (*tree.stride, tree.offset))


def _index_value(v: Value, size: Any, may_be_negative: bool) -> T.Tree:
    if kind(v.dtype) != "whole":
        raise Unsupported(f"an index of {v.dtype}")
    if not may_be_negative or _counts_up(v.tree):
        return v.tree
    return Apply("where({0} < 0, {0} + {1}, {0})", (v.tree, T.Const(size)), 2)


def _gathered(leaf: Leaf, stride: Sequence[Any], picked: Sequence[tuple[Any, Any, T.Tree]]) -> T.Tree:
    """Memory read at `stride`, and along further axes (stride, size, index) where an index says.

    Indices that count up (positions) are strides themselves, if a row too many would lie outside the memory: then a call
    whose index is out of range does not fit the plan."""
    out, offset, left = list(stride), leaf.offset, []
    for s, n, index in picked:
        if isinstance(index, T.Iota):
            if same(tidy(s * n), product(leaf.buf.shape)) and same(leaf.offset, 0) and not leaf.buf.into:
                out = [tidy(a + s * b) for a, b in zip(out, index.stride)]
                offset = tidy(offset + s * index.offset)
                continue
            index = Apply("max({0}, 0)", (index,), 0)  # not the plain index: its axis would have the result's size
        left.append((s, n, index))
    return Gather(leaf.buf, tuple(out), offset, tuple(left)) if left else Leaf(leaf.buf, tuple(out), offset)


@entry("embedding")
def _embedding(g: Any, table: Any, ids: Any, *_: Any, **__: Any) -> Value:
    leaf, i = g.leaf(g.value(table)), g.value(ids)
    rows, columns = g.value(table).shape
    wide = T.expanded(T.unsqueezed(i, len(i.shape)), [*i.shape, columns])
    stride = (0,) * len(i.shape) + (leaf.stride[1],)
    tree = _gathered(leaf, stride, [(leaf.stride[0], rows, _index_value(wide, rows, False))])
    return Value([*i.shape, columns], g.dtype, tree)


@entry("index.Tensor")
def _index(g: Any, a: Any, indices: Any) -> Value:
    v = g.value(a)
    given = [(axis, g.value(i)) for axis, i in enumerate(indices) if i is not None]
    axes = [axis for axis, _ in given]
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        raise Unsupported("indices with a gap between them")
    leaf = g.leaf(v)
    shape = g.broadcast([i.shape for _, i in given])
    before, after = v.shape[:axes[0]], v.shape[axes[-1] + 1:]
    out = [*before, *shape, *after]
    stride = (*leaf.stride[:axes[0]], *(0,) * len(shape), *leaf.stride[axes[-1] + 1:])
    picked = []
    for axis, i in given:
        wide = T.expanded(i, shape)
        for _ in after:
            wide = T.unsqueezed(wide, len(wide.shape))
        wide = T.expanded(wide, out)
        picked.append((leaf.stride[axis], v.shape[axis], _index_value(wide, v.shape[axis], True)))
    return Value(out, g.dtype, _gathered(leaf, stride, picked))


@entry("gather", "index_select")
def _gather(g: Any, a: Any, dim: int, index: Any, *_: Any, **__: Any) -> Value:
    v, i = g.value(a), g.value(index)
    if not v.shape or g.name == "gather" and len(i.shape) != len(v.shape):
        raise Unsupported("gather from a scalar, or by an empty index of another rank")
    dim %= len(v.shape)
    leaf = g.leaf(v)
    shape = list(g.shape)
    if g.name == "index_select":
        for _ in v.shape[dim + 1:]:
            i = T.unsqueezed(i, len(i.shape))
        i = T.expanded(i, shape)
    stride = (*leaf.stride[:dim], 0, *leaf.stride[dim + 1:])
    picked = [(leaf.stride[dim], v.shape[dim], _index_value(i, v.shape[dim], False))]
    return Value(shape, g.dtype, _gathered(leaf, stride, picked))


# ---- Parts of one memory


_MOST_PARTS = 4  # the most parts of a cat that is computed where it is read


def _placed(tree: T.Tree, axis: int, start: int, size: int, is_plain: bool) -> T.Tree:
    """The tree of a part of a cat as one over the whole: read `start` further back along the axis. `is_plain`: a plain index
    may read the first part, as the formula language has it where each other part is read behind that."""
    def at(t: Leaf) -> T.Tree:
        if same(t.stride[axis], 0):
            return t
        place: T.Tree = T.Iota(tuple(int(a == axis) for a in range(len(t.stride))), -start)
        if start == 0 and not is_plain:
            place = T.Apply("min({0}, {1})", (place, T.Const(size - 1)), 1)
        left = (*t.stride[:axis], 0, *t.stride[axis + 1:])
        return Gather(t.buf, left, t.offset, ((t.stride[axis], size, place),))

    return T.replaced(tree, at)


def _rotation(g: Any, parts: list[Value], axis: int) -> Value | None:
    """A cat of parts of one tensor, such as the rotated halves of rotary embeddings: computed where it is read."""
    read = [t for p in parts for t in T.leaves(p.tree)]
    if len(parts) > _MOST_PARTS or any(not isinstance(p.shape[axis], int) for p in parts) or any(
            not isinstance(t, Leaf) or t.buf is not read[0].buf for t in read):  # type: ignore[union-attr]
        return None
    end = sum(p.shape[axis] for p in parts)
    position = T.Iota(tuple(int(a == axis) for a in range(len(g.shape))))
    is_plain = all(any(not same(t.stride[axis], 0) for t in T.leaves(p.tree)) for p in parts)
    tree: T.Tree | None = None
    for p in reversed(parts):
        end -= p.shape[axis]
        part = _placed(p.tree, axis, end, p.shape[axis], is_plain)
        is_before = T.Apply("({0} < {1})", (position, T.Const(end + p.shape[axis])), 0)
        tree = part if tree is None else T.Apply("where({0}, {1}, {2})", (is_before, part, tree))
    assert tree is not None
    return Value(list(g.shape), g.dtype, tree)


def _writes_into(p: Value, node: Any, whole: Buf, offset: Any) -> bool:
    """True if an operation of several results now writes this part, PyTorch's or products such as the gradients of
    attention: if all of its result is the part, and nothing else reads it."""
    t = p.tree
    if not isinstance(t, Leaf) or t.buf.kind not in ("eager", "product") or t.buf.into or not same(t.offset, 0):
        return False
    while node.target is not operator.getitem and len(node.users) == 1 and node.args \
            and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    if node.target is not operator.getitem or len(node.users) != 1:
        return False
    stride = _strides_in(t.buf, p.shape, t.stride, whole.stride)
    if stride is None:
        return False
    t.buf.stride, t.buf.into, t.buf.is_memory = stride, (whole, offset), True
    return True


def _strides_in(b: Buf, shape: list[Any], read: Any, wanted: Any) -> list[Any] | None:
    """`shape` with strides `read` is all of `b`, each axis one of b's or several that follow each other. The strides of b's
    axes if that had the strides `wanted`; None if it is not all of b."""
    left = [a for a, n in enumerate(b.shape) if not same(n, 1)]
    out: list[Any] = [0] * len(b.shape)
    for n, step, to in zip(shape, read, wanted):
        inner: Any = 1
        while not same(inner, n):
            at = [a for a in left if same(b.stride[a], tidy(step * inner))]
            if len(at) != 1:
                return None
            out[at[0]] = tidy(to * inner)
            inner = tidy(inner * b.shape[at[0]])
            left.remove(at[0])
    return None if left else out


@entry("cat")
def _cat(g: Any, tensors: Any, dim: int = 0) -> Value:
    parts = [g.value(t) for t in tensors]
    parts = [p for p in parts if not (len(p.shape) == 1 and same(p.shape[0], 0))]
    if not parts or any(p.dtype != g.dtype for p in parts):
        raise Unsupported("cat of several dtypes, or of nothing")
    dim %= len(g.shape)
    if len(parts) == 1:
        return parts[0]
    rotation = _rotation(g, parts, dim)
    if rotation is not None:
        return rotation
    whole: Buf = g.buf("cat", list(g.shape), g.dtype)
    start: Any = 0
    nodes = [n for n in g.node.args[0] if isinstance(n, torch.fx.Node)]
    for p, node in zip(parts, nodes if len(nodes) == len(parts) else [None] * len(parts)):
        if node is not None and _writes_into(p, node, whole, start * whole.stride[dim]):
            start = start + p.shape[dim]
            continue
        part = g.buf("point", list(p.shape), g.dtype, tree=p.tree)
        part.stride = list(whole.stride)
        part.into = (whole, start * whole.stride[dim])
        part.is_memory = True
        start = start + p.shape[dim]
    whole.is_memory = True
    assert same(product(whole.shape), product(g.shape))
    return Value(list(g.shape), g.dtype, Leaf(whole, tuple(whole.stride)))

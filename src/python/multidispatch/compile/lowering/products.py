"""The table, continued: products of integers and of 8-bit reals, and of rows that belong to groups, as of experts."""

from __future__ import annotations

from typing import Any

from ..sizes import Unsupported, same
from . import tree as T
from .reductions import operand_memory, product_of, reduce
from .table import REAL, apply, cast, entry, kind
from .tree import Apply, Const, Gather, Iota, Leaf, Value


@entry("_int_mm")
def _int_mm(g: Any, a: Any, b: Any) -> Value:
    return product_of(g, operand_memory(g, a), T.permuted(operand_memory(g, b), [1, 0]), 0, "i32")


@entry("_scaled_mm")
def _scaled_mm(g: Any, a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any = None, scale_result: Any = None,
               out_dtype: Any = None, use_fast_accum: bool = False) -> Value:
    """Of 8-bit reals, with a scale for each operand, or one for each row of it."""
    rows, columns = g.shape
    if scale_result is not None or g.dtype not in REAL:
        raise Unsupported("a product of 8-bit reals with a result of as many")
    out = product_of(g, operand_memory(g, a), T.permuted(operand_memory(g, b), [1, 0]), 0, "f32")
    for scale, shape in ((g.value(scale_a), [rows, 1]), (g.value(scale_b), [1, columns])):
        is_one = all(same(s, 1) for s in scale.shape)
        if not is_one and (len(scale.shape) != 2 or not all(map(same, scale.shape, shape))):
            raise Unsupported("scales of parts of rows")
        out = apply(g, "({0} * {1})", [out, scale], "f32")
    return out if bias is None else apply(g, "({0} + {1})", [out, g.value(bias)], g.dtype)


def _group_of(g: Any, ends: Value, rows: Any) -> Value:
    """The group of each row, by the row behind each group's last; as many as there are groups where a row has none."""
    both = [rows, ends.shape[0]]
    end = T.expanded(T.unsqueezed(cast(ends, "i64"), 0), both)
    is_behind = Apply("i64({0} >= {1})", (Iota((1, 0)), end.tree), 1)
    return reduce(g, "sum", Value(both, "i64", is_behind), [1], False, "i64")


def _check_device(g: Any) -> None:
    """Ours sort rows that are sorted here already: two mixtures of experts took twice as long on an H200."""
    if g.device.type != "cpu":
        raise Unsupported("a product by groups of sorted rows, for which PyTorch's kernel is faster on a GPU")


def _by_group(g: Any, x: Value, w: Value, group: Leaf, dtype: str) -> Value:
    """[rows, n]: each row of a [rows, k] times the one of weights [groups, k, n] that the rows' group says."""
    groups, depth, columns = w.shape
    whole = [x.shape[0], columns, depth]
    leaf, index = g.leaf(w), Leaf(group.buf, (group.stride[0], 0, 0), group.offset)
    chosen = Gather(leaf.buf, (0, leaf.stride[2], leaf.stride[1]), leaf.offset, ((leaf.stride[0], groups, index),))
    left = T.expanded(T.unsqueezed(x, 1), whole)
    buf = g.buf("product", whole[:2], dtype, tree=Apply("{0} * {1}", (left.tree, chosen)), reduction="sum", reduced=[depth])
    return Value(whole[:2], dtype, Leaf(buf, tuple(buf.stride)))


def _grouped(g: Any, a: Any, weights: Any, ends: Any, dtype: str) -> tuple[Value, Value]:
    """The product by groups of sorted rows; and the groups. Rows of no group are taken for the last one's."""
    x, w = operand_memory(g, a), operand_memory(g, weights)
    if len(x.shape) != 2 or len(w.shape) != 3 or ends is None or kind(x.dtype) != "real" or x.dtype != w.dtype:
        raise Unsupported("a product by groups of this form")
    _check_device(g)
    group = _group_of(g, g.value(ends), x.shape[0])
    known = Apply("min({0}, {1})", (group.tree, Const(w.shape[0] - 1)))
    return _by_group(g, x, w, g.leaf(g.stored(Value(group.shape, "i64", known))), dtype), group


def _bounds(g: Any, ends: Value) -> tuple[Value, Value]:
    """Where each group's rows begin, the end of those before it; and where they end."""
    both = [ends.shape[0], ends.shape[0]]
    end = g.stored(cast(ends, "i64"))
    before = Apply("where({0} < {1}, {2}, 0)", (Iota((0, 1)), Iota((1, 0)), T.expanded(T.unsqueezed(end, 0), both).tree), 1)
    return g.stored(reduce(g, "max", Value(both, "i64", before), [1], False, "i64")), end


def _of_groups(g: Any, a: Any, b: Any, ends: Any) -> Value:
    """[groups, m, n]: the product of the columns of a [m, rows] and the rows of b [rows, n] that are each group's, as in the
    gradient of the groups' matrices."""
    x, y = operand_memory(g, a), operand_memory(g, b)
    if kind(x.dtype) != "real" or x.dtype != y.dtype:
        raise Unsupported("a product by groups of this form")
    begin, end = _bounds(g, g.value(ends))
    whole = [end.shape[0], x.shape[0], y.shape[1], x.shape[1]]
    left, right = T.unsqueezed(x, 1), T.permuted(y, [1, 0])
    over = [T.expanded(T.unsqueezed(T.unsqueezed(T.unsqueezed(v, 1), 1), 1), whole).tree for v in (begin, end)]
    tree = Apply("where({0} <= {1} and {1} < {2}, {3} * {4}, 0)",
                 (over[0], Iota((0, 0, 0, 1)), over[1], T.expanded(left, whole).tree, T.expanded(right, whole).tree))
    buf = g.buf("product", whole[:3], g.dtype, tree=tree, reduction="sum", reduced=whole[3:])
    return Value(whole[:3], g.dtype, Leaf(buf, tuple(buf.stride)))


@entry("multidispatch.grouped_rows")
def _grouped_rows(g: Any, a: Any, weights: Any, groups: Any) -> Value:
    x, w = operand_memory(g, a), operand_memory(g, weights)
    if kind(x.dtype) != "real" or x.dtype != w.dtype:
        raise Unsupported("a product by groups of this form")
    return _by_group(g, x, w, g.leaf(g.value(groups)), g.dtype)


@entry("_grouped_mm")
def _grouped_mm(g: Any, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Value:
    if bias is not None:
        raise Unsupported("a product by groups with a bias")
    if offs is not None and len(g.value(a).shape) == len(g.value(b).shape) == 2:
        return _of_groups(g, a, b, offs)
    return _grouped(g, a, b, offs, g.dtype)[0]


@entry("transformers.grouped_mm_fallback")
def _grouped_mm_fallback(g: Any, a: Any, b: Any, offs: Any) -> Value:
    """Rows of no group are zeros here."""
    out, group = _grouped(g, a, b, offs, g.dtype)
    has_group = Apply("({0} < {1})", (T.expanded(T.unsqueezed(group, 1), out.shape).tree, Const(g.value(b).shape[0])))
    return Value(out.shape, out.dtype, Apply("where({0}, {1}, 0)", (has_group, out.tree)))

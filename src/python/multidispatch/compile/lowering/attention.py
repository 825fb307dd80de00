"""Attention as trees: this package's operations (compile/attention.py), and PyTorch's own."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from ..sizes import Unsupported, expression, magnitude, same
from . import tree as T
from .reductions import operand_memory, product_of, reduce
from .table import apply, entry
from .tree import Apply, Const, Iota, Value

_CHEAP = 4  # a mask of at most this cost is computed where it is read


class _Heads:
    """Tensors [.., heads, rows, columns] with the heads of queries as [heads of keys, those that share one]."""

    def __init__(self, g: Any, q: Value, k: Value) -> None:
        self.g, self.rank = g, len(q.shape)
        self.n_shared = 1
        if self.rank > 2 and not same(q.shape[-3], k.shape[-3]):
            self.n_shared = q.shape[-3] // k.shape[-3]
        self.batch = self.rank - 2 + (self.n_shared != 1)

    def split(self, v: Value) -> Value:
        """Of queries, their results and masks (a mask may have size 1 there)."""
        axis = self.rank - 3
        if self.n_shared == 1:
            return v
        if same(v.shape[axis], 1):
            return T.unsqueezed(v, axis)
        parts = [v.shape[axis] // self.n_shared, self.n_shared]
        return T.reshaped(v, [*v.shape[:axis], *parts, *v.shape[axis + 1:]])  # type: ignore[return-value]

    def joined(self, v: Value) -> Value:
        axis = self.rank - 3
        if self.n_shared == 1:
            return v
        size = v.shape[axis] * v.shape[axis + 1]
        return T.reshaped(v, [*v.shape[:axis], size, *v.shape[axis + 2:]])  # type: ignore[return-value]

    def repeated(self, v: Value) -> Value:
        """Of keys and values: without copies."""
        if self.n_shared == 1:
            return v
        shape = [*v.shape[:-2], self.n_shared, *v.shape[-2:]]
        return T.expanded(T.unsqueezed(v, len(v.shape) - 2), shape)


def _transposed(v: Value) -> Value:
    n = len(v.shape)
    return T.permuted(v, [*range(n - 2), n - 1, n - 2])


def _mask(g: Any, h: _Heads, mask: Any) -> Value:
    """Computed where it is read if it is cheap, else memory without the axes along which it is repeated."""
    v = g.value(mask)
    if T.cost(v.tree) > _CHEAP or any(isinstance(t, T.Gather) for t in T.leaves(v.tree)):
        v = T.narrowed(v)
        v = Value(v.shape, v.dtype, g.leaf(v))
    for _ in range(h.rank - len(v.shape)):
        v = T.unsqueezed(v, 0)
    return h.split(v)


def _scaled(g: Any, q: Value, scale: Any) -> Value:
    if scale is None:
        return Value([], "f32", Apply("rsqrt(f32({0}))", (Const(q.shape[-1]),), 3))
    return g.value(scale)


def _score_tree(g: Any, h: _Heads, q: Value, k: Value, mask: Any, is_causal: bool, scale: Any) -> Value:
    # dtype of the scores: rounding them to 16 bits would change weights by whole factors
    wide = "f64" if q.dtype == "f64" else "f32"
    s = apply(g, "({0} * {1})", [product_of(g, q, k, h.batch, wide), _scaled(g, q, scale)], wide)
    if is_causal:
        rows, columns = ((0,) * (len(s.shape) - 2) + place for place in ((1, 0), (0, 1)))
        below = Apply("({0} <= {1})", (Iota(columns), Iota(rows)))
        s = apply(g, "where({0}, {1}, (-inf))", [Value(s.shape, "bool", below), s], wide)
    if mask is not None:
        m = _mask(g, h, mask)
        text = "where({1}, {0}, (-inf))" if m.dtype == "bool" else "({0} + {1})"
        s = apply(g, text, [s, m], wide)
    return s


def _operands(g: Any, q: Any, k: Any, v: Any) -> tuple[_Heads, Value, Value, Value]:
    q, k, v = (operand_memory(g, x) for x in (q, k, v))
    h = _Heads(g, q, k)
    return h, h.split(q), h.repeated(k), h.repeated(v)


def _result_order(node: Any, i: int, h: _Heads, n_shared: int = 1) -> list[int]:
    """The axes of result i, with heads split in two if they are shared, as PyTorch's description lays them in memory."""
    value = node.meta["val"]
    value = value if isinstance(value, torch.Tensor) else value[i]
    shape, stride = ([expression(s) for s in x] for x in (value.shape, value.stride()))
    moved = iter(sorted((a for a in range(h.rank) if not same(shape[a], 1)), key=lambda a: -magnitude(stride[a])))
    order = [a if same(shape[a], 1) else next(moved) for a in range(h.rank)]
    heads = h.rank - 3
    if n_shared == 1:
        return order
    return [x for a in order for x in ([heads, heads + 1] if a == heads else [a + (a > heads)])]


def attention(g: Any, q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any, needs_lse: bool) -> list[Any]:
    """softmax(scale * q k^T, masked) v. Rows that are masked as a whole are 0, and their lse is -inf."""
    h, q, k, v = _operands(g, q, k, v)
    s = g.shared(_score_tree(g, h, q, k, mask, is_causal, scale))
    wide = s.dtype
    top = reduce(g, "max", s, [-1], True, wide)
    top = g.shared(apply(g, "where({0} == (-inf), 0.0, {0})", [top], wide, 2))
    e = g.shared(apply(g, "exp({0} - {1})", [s, top], wide, 9))
    total = reduce(g, "sum", e, [-1], True, wide)
    lse = _lse(g, h, top, total) if needs_lse else None
    p = apply(g, "({0} / where({1} == 0.0, 1.0, {1}))", [e, total], wide, 4)
    p = operand_memory(g, Value(p.shape, q.dtype, p.tree))
    out = product_of(g, p, _transposed(v), h.batch, q.dtype, _result_order(g.node, 0, h, h.n_shared))
    return [h.joined(out), lse]


def _lse(g: Any, h: _Heads, top: Value, total: Value) -> Value:
    top, total = (T.selected(v, len(v.shape) - 1, 0) for v in (top, total))
    rows = g.stored(apply(g, "({0} + log({1}))", [top, total], top.dtype, 9))
    wide = h.joined(T.unsqueezed(rows, len(rows.shape)))
    return T.selected(wide, len(wide.shape) - 1, 0)


def _backward_trees(g: Any, dy: Any, q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any, y: Any,
                    lse: Any) -> list[Any]:
    """With p = exp(s - lse), a product each: dv = p^T dy, ds = p (dy v^T - sum(dy y)) scale, dq = ds k, dk = ds^T q."""
    h, q, k, v = _operands(g, q, k, v)
    dy, y = (h.split(g.value(x)) for x in (dy, y))
    dy = operand_memory(g, dy)
    wide = "f64" if q.dtype == "f64" else "f32"
    s = _score_tree(g, h, q, k, mask, is_causal, scale)
    rows = T.unsqueezed(_split_rows(h, g.value(lse)), len(s.shape) - 1)
    p = apply(g, "where({1} == (-inf), 0.0, exp({0} - {1}))", [s, rows], wide, 10)
    p = operand_memory(g, Value(p.shape, q.dtype, p.tree))
    inner = reduce(g, "sum", apply(g, "({0} * {1})", [dy, y], wide), [-1], True, wide)
    dp = product_of(g, dy, v, h.batch, wide)
    ds = apply(g, "({0} * ({1} - {2}) * {3})", [p, dp, inner, _scaled(g, q, scale)], wide, 3)
    ds = operand_memory(g, Value(ds.shape, q.dtype, ds.tree))
    by_queries = _result_order(g.node, 0, h, h.n_shared)
    return [h.joined(product_of(g, ds, _transposed(k), h.batch, q.dtype, by_queries)) if g.is_used(0) else None,
            _over_rows(g, ds, q, 1, h) if g.is_used(1) else None, _over_rows(g, p, dy, 2, h) if g.is_used(2) else None]


def _split_rows(h: _Heads, v: Value) -> Value:
    return T.selected(h.split(T.unsqueezed(v, len(v.shape))), h.batch + 1, 0)


def _over_rows(g: Any, a: Value, b: Value, result: int, h: _Heads) -> Value:
    """[.., keys, columns]: a^T b, summed over all rows of queries that share keys."""
    lead, n = h.rank - 2, len(a.shape)
    a, b = (T.permuted(x, [*range(lead), n - 1, *range(lead, n - 1)]) for x in (a, b))
    return product_of(g, a, b, lead, b.dtype, _result_order(g.node, result, h))


def _handler(names: Sequence[str], place: Callable[..., tuple[Any, ...]]) -> None:
    def f(g: Any, *args: Any, **options: Any) -> Any:
        mask, dropout, is_causal, scale = place(*args[3:], **options)
        if dropout != 0.0 or g.dtype not in ("f16", "bf16") and g.device.type == "cuda":
            raise Unsupported("attention with dropout, or of f32 on a GPU")
        many = len(g.shapes) > 1
        n_ours = 2 if "cpu" in g.name else 1  # other results, such as a GPU's lse, are as PyTorch's kernel has them
        if many and any(g.is_used(i) for i in range(n_ours, len(g.node.meta["val"]))):
            raise Unsupported("attention for a backward of PyTorch's")
        values = [g.value(x) for x in args[:3]]
        _check_shapes(*values)
        out = attention(g, *values, mask, is_causal, scale, n_ours == 2 and g.is_used(1))
        return out if many else out[0]

    entry(*names)(f)


def _check_shapes(q: Value, k: Value, v: Value) -> None:
    def alike(a: Sequence[Any], b: Sequence[Any]) -> bool:
        return len(a) == len(b) and all(map(same, a, b))

    lead, heads = -3 if len(q.shape) > 2 else -2, len(q.shape) > 2 and (q.shape[-3], k.shape[-3])
    shares = not heads or same(*heads) or all(isinstance(n, int) for n in heads) and heads[0] % heads[1] == 0
    if not shares or not alike(q.shape[:lead], k.shape[:lead]) or not alike(k.shape[:-1], v.shape[:-1]) \
            or not same(q.shape[-1], k.shape[-1]):
        raise Unsupported("attention whose tensors are broadcast")


# Each operation of PyTorch: mask, dropout, is_causal, scale among the arguments after v.
_handler(["_scaled_dot_product_flash_attention_for_cpu"],
         lambda dropout=0.0, causal=False, *, attn_mask=None, scale=None: (attn_mask, dropout, causal, scale))
_handler(["_scaled_dot_product_flash_attention"],
         lambda dropout=0.0, causal=False, debug=False, *, scale=None: (None, dropout, causal, scale))
_handler(["_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"],
         lambda mask, lse, dropout=0.0, causal=False, debug=False, *, scale=None: (mask, dropout, causal, scale))
_handler(["_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention"],
         lambda mask=None, dropout=0.0, causal=False, debug=False, *, scale=None, enable_gqa=False:
         (mask, dropout, causal, scale))


@entry("multidispatch.attention", "multidispatch.attention_saving")
def _ours(g: Any, q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    saves = g.name.endswith("saving")
    out = attention(g, *(g.value(x) for x in (q, k, v)), mask, is_causal, scale, saves)
    return out if saves else out[0]


entry("multidispatch.attention_backward")(_backward_trees)

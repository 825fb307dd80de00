"""The table, continued: windows that slide over axes, as views with more axes: unfold, and pools of all kinds, those that
windows.py does not write out. Diagonals, running extremes, searches among sorted values."""

from __future__ import annotations

from typing import Any, Sequence

from ..sizes import Unsupported, expression, same, tidy
from . import tree as T
from .places import padded, read_at
from .reductions import reduce, scan
from .table import REAL, apply, as_stored, cast, entry
from .tree import Apply, Const, Iota, Leaf, Value

_MOST_BOUNDS = 512  # of a search among sorted values, which here looks at each of them


def windows(g: Any, v: Value, axes: Sequence[int], size: Sequence[int], step: Sequence[int], spread: Sequence[int],
            n: Sequence[Any]) -> Value:
    """The windows along some axes, `n` of them each: their own axes come last. `spread`: between elements of a window."""
    leaf = g.leaf(v)
    shape, stride = list(v.shape), list(leaf.stride)
    for axis, k, s, d, many in zip(axes, size, step, spread, n):
        shape[axis] = many
        shape.append(k)
        stride.append(leaf.stride[axis] * d)
        stride[axis] = leaf.stride[axis] * s
    return Value(shape, v.dtype, Leaf(leaf.buf, tuple(stride), leaf.offset))


@entry("unfold")
def _unfold(g: Any, a: Any, dim: int, size: int, step: int) -> Value:
    v = g.value(a)
    if not v.shape or not isinstance(size, int):
        raise Unsupported("windows of a scalar, or of a size that varies")
    dim %= len(v.shape)
    return windows(g, v, [dim], [size], [step], [1], [g.shape[dim]])


@entry("diagonal")
def _diagonal(g: Any, a: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    v = g.value(a)
    leaf, rank = g.leaf(v), len(v.shape)
    i, j = dim1 % rank, dim2 % rank
    first = leaf.stride[j] * offset if offset > 0 else -leaf.stride[i] * offset
    kept = [s for axis, s in enumerate(leaf.stride) if axis not in (i, j)]
    return Value(list(g.shape), v.dtype, Leaf(leaf.buf, (*kept, leaf.stride[i] + leaf.stride[j]), leaf.offset + first))


# ---- Pools over the last two axes

def _pair(x: Any, default: Sequence[int] = ()) -> list[int]:
    out = [x] if isinstance(x, int) else list(x) or list(default)
    if not all(isinstance(n, int) for n in out):
        raise Unsupported("a window of a size that varies")
    return out * 2 if len(out) == 1 else out


def _padded(g: Any, v: Value, padding: Sequence[int], more: int, number: float) -> Value:
    """The value with a border; `more` is added behind, for windows that begin inside and end outside."""
    rank = len(v.shape)
    if not any(padding) and not more:
        return v
    borders = {rank - 2 + i: (p, p + more) for i, p in enumerate(padding)}
    shape = [n + sum(borders.get(axis, (0, 0))) for axis, n in enumerate(v.shape)]
    return Value(shape, v.dtype, padded(g, v, borders, shape, Const(number)).tree)


def _slid(g: Any, v: Value, k: list[int], step: list[int], spread: list[int]) -> Value:
    rank = len(v.shape)
    return windows(g, v, [rank - 2, rank - 1], k, step, spread, g.shape[-2:])


def rounded_up(step: Sequence[Any]) -> Any:
    """How far windows may reach beyond an end where the last begins inside (ceil_mode)."""
    if not all(isinstance(s, int) for s in step):
        raise Unsupported("a window of a size that varies")
    return max(step) - 1


def _place(columns: int, spread: list[int], has_border: bool) -> str:
    """The text of a maximum's place in the plane: {0} its number in the window, which begins at row {1} and column {2}; {3}
    and {4} the plane's columns and rows. A border wins where all is -inf: then it is the first place inside."""
    row, column = f"({{1}} + {{0}} // {columns} * {spread[0]})", f"({{2}} + {{0}} % {columns} * {spread[1]})"
    place = f"({row} * {{3}} + {column})"
    if not has_border:
        return place
    first = [f"({{{i}}} + (max(-{{{i}}}, 0) + {d - 1}) // {d} * {d})" for i, d in zip((1, 2), spread)]
    inside = f"{row} >= 0 and {row} < {{4}} and {column} >= 0 and {column} < {{3}}"
    return f"where({inside}, {place}, {first[0]} * {{3}} + {first[1]})"


def max_pool(g: Any, a: Any, k: Any, step: Any = (), padding: Any = 0, spread: Any = 1, ceil: bool = False) -> list[Any]:
    """max_pool2d_with_indices."""
    v, k = as_stored(g.value(a)), _pair(k)
    step, padding, spread = _pair(step, k), _pair(padding), _pair(spread)
    if v.dtype not in REAL:
        raise Unsupported(f"a pool of {v.dtype}")
    rank, more = len(v.shape), rounded_up(step) if ceil else 0
    slid = _slid(g, _padded(g, v, padding, more, float("-inf")), k, step, spread)
    out = [reduce(g, "max", slid, [-2, -1], False, v.dtype), None]
    if g.is_used(1):
        at = reduce(g, "argmax", slid, [-2, -1], False, "i64")
        y, x = (Value(list(at.shape), "i64", Iota(tuple(s * (axis == rank - 2 + i) for axis in range(rank)), -p))
                for i, (s, p) in enumerate(zip(step, padding)))
        rows, columns = (g.value(expression(n)) for n in v.shape[-2:])
        out[1] = apply(g, _place(k[1], spread, any(padding) or more > 0), [at, y, x, columns, rows], "i64", 8)
    return out


def _counted(g: Any, axis: int, k: int, step: int, padding: int, inside: tuple[Any, Any]) -> T.Tree:
    """How many elements of each window lie inside (from, to)."""
    begin = Iota(tuple(step * (a == axis) for a in range(len(g.shape))), -padding)
    return Apply(f"(min({{0}} + {k}, {{1}}) - max({{0}}, {{2}}))", (begin, Const(inside[1]), Const(inside[0])), 3)


def mean_of(g: Any, total: Value, k: Any, step: Any, padding: Any, ceil: bool, with_border: bool, divisor: int | None) -> Value:
    """The sums of windows over how many elements each has: with those of the border, but none beyond it."""
    k = _pair(k)
    step, padding = _pair(step, k), _pair(padding)
    is_even = not ceil and (with_border or not any(padding))
    if divisor or is_even:
        return Value(total.shape, g.dtype, Apply("({0} / {1})", (total.tree, Const(float(divisor or k[0] * k[1]))), 3))
    wide, rank = "f64" if g.dtype == "f64" else "f32", len(g.shape)
    sizes = [expression(n) for n in g.node.args[0].meta["val"].shape[-2:]]
    inside = [(-p, tidy(n + p)) if with_border else (0, n) for n, p in zip(sizes, padding)]
    n = [_counted(g, rank - 2 + i, k[i], step[i], padding[i], inside[i]) for i in (0, 1)]
    return Value(total.shape, g.dtype, Apply(f"({{0}} / {wide}({{1}} * {{2}}))", (total.tree, *n), 4))


def avg_pool(g: Any, a: Any, k: Any, step: Any = (), padding: Any = 0, ceil: bool = False, with_border: bool = True,
             divisor: int | None = None) -> Value:
    """avg_pool2d."""
    v, size = g.value(a), _pair(k)
    pads = _pair(padding)
    if v.dtype not in REAL:
        raise Unsupported(f"a mean pool of {v.dtype}")
    more = rounded_up(_pair(step, size)) if ceil else 0
    slid = _slid(g, _padded(g, v, pads, more, 0.0), size, _pair(step, size), [1, 1])
    total = reduce(g, "sum", slid, [-2, -1], False, "f64" if v.dtype == "f64" else "f32")
    return mean_of(g, total, k, step, padding, ceil, with_border, divisor)


@entry("_adaptive_avg_pool2d")
def _adaptive(g: Any, a: Any, size: Any) -> Value:
    """Where all windows are of one size."""
    v = g.value(a)
    if g.device.type != "cpu":
        raise Unsupported("PyTorch's kernels for windows, on a GPU")
    sizes = [*v.shape[-2:], *g.shape[-2:]]
    if v.dtype not in REAL or not all(isinstance(n, int) and n > 0 for n in sizes) or any(sizes[i] % sizes[2 + i] for i in (0, 1)):
        raise Unsupported("a pool with windows of several sizes")
    k = [sizes[i] // sizes[2 + i] for i in (0, 1)]
    return reduce(g, "mean", _slid(g, v, k, k, [1, 1]), [-2, -1], False, g.dtype)


# ---- Running extremes, and searches among sorted values

@entry("cummax", "cummin")
def _running(g: Any, a: Any, dim: int) -> list[Any]:
    """The place is that of the last element that is the extreme: a running maximum of places."""
    v = as_stored(g.value(a))
    if v.dtype == "bool" or not v.shape:
        raise Unsupported(f"{g.name} of truth values, or of a scalar")
    top = scan(g, g.name, v, dim % len(v.shape), v.dtype)
    if not g.is_used(1):
        return [top, None]
    place = Value(list(v.shape), "i64", Iota(tuple(int(axis == dim % len(v.shape)) for axis in range(len(v.shape)))))
    is_nan = " or isnan({0})" if v.dtype in REAL else ""
    hits = apply(g, f"where({{0}} == {{1}}{is_nan}, {{2}}, 0)", [g.shared(v), top, place], "i64", 3)
    return [top, scan(g, "cummax", hits, dim % len(v.shape), "i64")]


@entry("logcumsumexp")
def _running_sums_of_exp(g: Any, a: Any, dim: int) -> Value:
    """A running sum of exp(x - the maximum so far), which shrinks where the maximum grows; and that maximum."""
    v = g.value(a)
    if g.dtype not in REAL:
        raise Unsupported(f"logcumsumexp of {g.dtype}")
    if not v.shape:
        return v
    dim, wide = dim % len(v.shape), "f64" if g.dtype == "f64" else "f32"
    v = g.shared(cast(v, wide))
    top = scan(g, "cummax", v, dim, wide)
    at = Apply("max({0}, 0)", (Iota(tuple(int(axis == dim) for axis in range(len(v.shape))), -1),), 1)
    before = Value(list(v.shape), wide, read_at(g, top, {dim: at}))
    less = "where({0} == {1}, 1.0, exp({0} - {1}))"  # of equal infinities, too
    shrinks, term = apply(g, less, [before, top], wide, 9), apply(g, less, [v, top], wide, 9)
    total = scan(g, "recur", Value(list(v.shape), wide, Apply("{0}, {1}", (shrinks.tree, term.tree), 1)), dim, wide)
    out = apply(g, "({0} + log({1}))", [top, total], wide, 9)
    return Value(out.shape, g.dtype, out.tree)


@entry("multidispatch.linear_scan")
def _linear_scan(g: Any, a: Any, b: Any, dim: int, reverse: bool) -> list[Any]:
    """Running products of the first, and y = a * y before + b. The first factor is not used: it may be nan."""
    wide = "f64" if g.dtype == "f64" else "f32"
    factor, term = (cast(g.value(x), wide) for x in (a, b))
    dim, shape = dim % len(term.shape), list(factor.shape)
    if same(shape[dim], 1):
        return [factor, term]
    place = Iota(tuple(int(axis == dim) for axis in range(len(shape))))
    first = expression(shape[dim]) - 1 if reverse else 0
    later = Apply("where({0} == {1}, 0.0, {2})", (place, Const(first), factor.tree), 2)
    options = ", reverse" if reverse else ""
    pair = Value(shape, wide, Apply("{0}, {1}" + options, (later, term.tree), 1))
    alone = Value(shape, wide, Apply("{0}" + options, (factor.tree,), 1)) if reverse else factor
    return [scan(g, "cumprod", alone, dim, wide, True) if g.is_used(0) else None, scan(g, "recur", pair, dim, wide, True)]


@entry("bucketize.Tensor", "searchsorted.Tensor")
def _search(g: Any, a: Any, b: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
            sorter: Any = None) -> Value:
    """How many of the sorted values come before: those that are not at least as great (right: not greater). All, for nan."""
    x, bounds = (g.value(a), g.value(b)) if g.name.startswith("bucketize") else (g.value(b), g.value(a))
    n, rank, in_rows = bounds.shape[-1] if bounds.shape else None, len(x.shape), len(bounds.shape) > 1
    if sorter is not None or not isinstance(n, int) or n > _MOST_BOUNDS or in_rows and len(bounds.shape) != rank:
        raise Unsupported("a search among many sorted values, or by places of theirs")
    wide = T.expanded(T.unsqueezed(x, rank), [*x.shape, n])
    if in_rows:
        bounds = T.expanded(T.unsqueezed(bounds, rank - 1), wide.shape)
    test = "(not ({1} > {0}))" if right or side == "right" else "(not ({1} >= {0}))"
    common = "f64" if "f64" in (x.dtype, bounds.dtype) else "f32" if x.dtype in REAL or bounds.dtype in REAL else "i64"
    hits = apply(g, test, [cast(as_stored(v), common) for v in (wide, bounds)], "bool", 2)
    return reduce(g, "sum", cast(hits, "i64"), [rank], False, g.dtype)

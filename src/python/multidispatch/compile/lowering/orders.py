"""The table, continued: the greatest of few elements, and few elements in order. The place of an element is the number of
those before it, so all pairs are compared; where there are many, sorting is PyTorch's."""

from __future__ import annotations

from typing import Any

from ..sizes import Unsupported
from . import tree as T
from .places import read_at
from .reductions import reduce
from .table import REAL, cast, entry, kind
from .tree import Apply, Iota, Value

_MOST = 64  # elements: beyond, PyTorch sorts them faster on a CPU
_EQUAL = "({0} == {1} and {3} > {2})"  # of equal ones the earlier is before


def _before(dtype: str, descending: bool) -> str:
    """{0}, at place {2}, comes before {1}, at {3}. NaN is the greatest."""
    a, b = ("{0}", "{1}") if descending else ("{1}", "{0}")
    if dtype not in REAL:
        return f"({a} > {b} or {_EQUAL})"
    both = "(isnan({0}) and isnan({1}) and {3} > {2})"
    return f"({a} > {b} or (isnan({a}) and not isnan({b})) or {_EQUAL} or {both})"


def _along(rank: int, axis: int) -> Iota:
    return Iota(tuple(int(a == axis) for a in range(rank)))


def ordered(g: Any, v: Value, dim: int, first: int, n_wanted: int, descending: bool) -> list[Any]:
    """Values and places of the elements that come first, first + 1, .. along an axis."""
    n = v.shape[dim]
    if not isinstance(n, int) or n > _MOST or v.dtype not in (*REAL, "bool", "i64", "i32", "i16", "i8", "u8"):
        raise Unsupported(f"the order of {'many elements' if v.dtype != 'u64' else v.dtype}")
    v = Value(list(v.shape), v.dtype, g.leaf(v))
    compared = cast(v, "i64") if kind(v.dtype) != "real" else v
    rank, wide = len(v.shape) + 1, [*v.shape, n]
    other = [*range(dim), *range(dim + 1, len(v.shape)), dim]  # the element that may come before lies along a new axis
    mine = T.expanded(T.unsqueezed(compared, rank - 1), wide)
    theirs = T.expanded(T.unsqueezed(T.permuted(compared, other), dim), wide)
    test = Apply(_before(v.dtype, descending), (theirs.tree, mine.tree, _along(rank, rank - 1), _along(rank, dim)), 4)
    before = reduce(g, "sum", Value(wide, "i64", Apply("i64({0})", (test,), 1)), [rank - 1], False, "i64")
    before = Value(list(v.shape), "i64", g.leaf(before))
    shape = [*v.shape[:dim], n_wanted, *v.shape[dim + 1:]]
    at = T.expanded(T.unsqueezed(T.permuted(before, other), dim), [*shape, n])
    hit = Apply("where({0} == {1}, {2}, 0)", (at.tree, Iota(_along(rank, dim).stride, first), _along(rank, rank - 1)), 2)
    place = reduce(g, "sum", Value([*shape, n], "i64", hit), [rank - 1], False, "i64")
    place = Value(shape, "i64", g.leaf(place))
    return [Value(shape, v.dtype, read_at(g, v, {dim: place.tree})) if g.is_used(0) else None, place]


def _scalar(v: Value) -> list[Any]:
    return [v, Value([], "i64", T.Const(0))]


@entry("topk")
def _topk(g: Any, a: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Any]:
    v = g.value(a)
    if not isinstance(k, int):
        raise Unsupported("as many of the greatest as a size says")
    if not v.shape:
        raise Unsupported("the greatest of a scalar")
    return ordered(g, v, dim % len(v.shape), 0, k, largest)


@entry("sort", "sort.stable")
def _sort(g: Any, a: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> list[Any]:
    v = g.value(a)
    if not v.shape:
        return _scalar(v)
    dim %= len(v.shape)
    n = v.shape[dim]
    return ordered(g, v, dim, 0, n if isinstance(n, int) else 0, bool(descending))


@entry("kthvalue")
def _kthvalue(g: Any, a: Any, k: Any, dim: int = -1, keepdim: bool = False) -> list[Any]:
    v = g.value(a)
    if not isinstance(k, int) or not v.shape:
        raise Unsupported("an element whose place is a size, or of a scalar")
    dim %= len(v.shape)
    out = ordered(g, v, dim, k - 1, 1, False)
    return out if keepdim else [x and T.selected(x, dim, 0) for x in out]

"""Whole numbers that follow from an element's place alone: ranges, comparisons of ranges, and masks made of these.

So what a model computes from its sizes alone (positions, which token may see which) is known before it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable

import torch

from ..sizes import Unsupported, expression, same, tidy
from .uniform import Values

aten, prims = torch.ops.aten, torch.ops.prims


@dataclass(frozen=True)
class Line:
    """start + the sum of step * index over the axes, which count from the last one: -1, -2, .."""

    start: Any
    step: tuple[tuple[int, Any], ...] = ()

    def steps(self) -> dict[int, Any]:
        return dict(self.step)


@dataclass(frozen=True)
class Where:
    """True where the line is at most 0; `is_equal`: where it is 0."""

    line: Line
    is_equal: bool = False


@dataclass(frozen=True)
class Mask:
    """0 where the condition holds, elsewhere so small that exp of it is 0."""

    where: Where


Known = Any  # Line, Where, Mask or bool


def _line(start: Any, steps: dict[int, Any]) -> Line:
    return Line(tidy(start), tuple(sorted((a, tidy(s)) for a, s in steps.items() if not same(s, 0))))


def _sum(a: Line, b: Line, factor: int = 1) -> Line:
    steps = a.steps()
    for axis, step in b.step:
        steps[axis] = steps.get(axis, 0) + factor * step
    return _line(a.start + factor * b.start, steps)


def _scaled(a: Line, factor: Any) -> Line:
    return _line(a.start * factor, {axis: step * factor for axis, step in a.step})


def _on_line(x: Known, f: Callable[[Line], Line | None]) -> Known | None:
    """Applies f, which reorders or selects elements, to the line inside of a Line, Where or Mask."""
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, Line):
        return f(x)
    inner = _on_line(x.line if isinstance(x, Where) else x.where, f)
    return None if inner is None else replace(x, line=inner) if isinstance(x, Where) else replace(x, where=inner)


# Rules: rule(reader, node) gives what is known of the node, or None.

def _range(r: Reader, node: Any) -> Known | None:
    if node.target is prims.iota.default:
        return _line(_size(node.kwargs["start"]), {-1: _size(node.kwargs["step"])})
    start, step = 0, 1
    if node.target is not aten.arange.default:
        start, step = node.args[0], node.args[2] if len(node.args) > 2 else 1
    return _line(_size(start), {-1: _size(step)})


def _moved(axes: Callable[[Reader, Any], list[int | None]]) -> Callable[[Reader, Any], Known | None]:
    """`axes` says where each axis of the operand goes; None: nowhere, as it has one element."""
    def rule(r: Reader, node: Any) -> Known | None:
        to, rank, result = axes(r, node), r.rank(node.args[0]), r.rank(node)
        return _on_line(r.of(node.args[0]), lambda line: _line(line.start, {
            to[rank + axis] - result: step for axis, step in line.step}))  # type: ignore[operator]
    return rule


def _unsqueeze(r: Reader, node: Any) -> list[int | None]:
    at = node.args[1] % r.rank(node)
    return [a + (a >= at) for a in range(r.rank(node.args[0]))]


def _permute(r: Reader, node: Any) -> list[int | None]:
    order = [a % r.rank(node) for a in node.args[1]]
    return [order.index(a) for a in range(len(order))]


def _expand(r: Reader, node: Any) -> list[int | None]:
    return [a + r.rank(node) - r.rank(node.args[0]) for a in range(r.rank(node.args[0]))]


def _view(r: Reader, node: Any) -> list[int | None]:
    """For a view that only adds or drops axes of one element: the new place of each old axis."""
    before, after = r.shape(node.args[0]), r.shape(node)
    real = [a for a, n in enumerate(after) if not same(n, 1)]
    if not _equal([n for n in before if not same(n, 1)], [after[a] for a in real]):
        raise Unsupported("axes are joined or divided")
    left = iter(real)
    return [None if same(n, 1) else next(left) for n in before]


def _slice(r: Reader, node: Any) -> Known | None:
    given: list[Any] = [*node.args, *(0, 0, None, 1)[len(node.args) - 1:]]
    x, axis, start, end, step = given
    axis, start = axis - r.rank(x) if axis >= 0 else axis, _size(start or 0)
    if x.target is aten.constant_pad_nd.default and axis == -1 and same(start, 0) and len(x.args[1]) == 2 \
            and same(_size(x.args[1][0]), 0) and same(_size(end), r.shape(x.args[0])[-1]):
        return r.of(x.args[0])  # PyTorch pads a mask for alignment and cuts it back: the result is the mask
    if step != 1 or not (start >= 0 if isinstance(start, int) else start.is_nonnegative):
        return None
    return _on_line(r.of(x), lambda line: _line(line.start + line.steps().get(axis, 0) * start, line.steps()))


def _cat(r: Reader, node: Any) -> Known | None:
    """A cat of lines that continue each other is one line."""
    axis = (node.args[1] if len(node.args) > 1 else 0) % r.rank(node) - r.rank(node)
    place: list[Any] = [0]
    for x in node.args[0]:
        place.append(tidy(place[-1] + r.shape(x)[axis]))
    lines: list[Any] = [r.of(x) for x in node.args[0]]
    if not all(isinstance(line, Line) for line in lines):
        return None
    long = next((line for x, line in zip(node.args[0], lines) if not same(r.shape(x)[axis], 1)), lines[0])
    step = long.steps().get(axis, 0)
    whole = {_line(line.start - step * p, line.steps() | {axis: step}) for line, p in zip(lines, place)}
    return whole.pop() if len(whole) == 1 else None


def _added(sign: int) -> Callable[[Reader, Any], Known | None]:
    def rule(r: Reader, node: Any) -> Known | None:
        a, b = r.of(node.args[0]), r.of(node.args[1])
        return _sum(a, b, sign) if isinstance(a, Line) and isinstance(b, Line) and not node.kwargs else None
    return rule


def _multiplied(r: Reader, node: Any) -> Known | None:
    a, b = r.of(node.args[0]), r.of(node.args[1])
    if not isinstance(a, Line) or not isinstance(b, Line):
        return None
    return _scaled(a, b.start) if not b.step else _scaled(b, a.start) if not a.step else None


def _copied(r: Reader, node: Any) -> Known | None:
    x = r.of(node.args[0])
    return Line(int(x)) if r.dtype(node) == torch.int64 and isinstance(x, bool) else x


def _compared(what: str) -> Callable[[Reader, Any], Known | None]:
    def rule(r: Reader, node: Any) -> Known | None:
        a, b = r.of(node.args[0]), r.of(node.args[1])
        if not isinstance(a, Line) or not isinstance(b, Line):
            return None
        d = _sum(a, b, -1) if what in ("le", "lt", "eq", "ne") else _sum(b, a, -1)
        if what in ("lt", "gt"):
            d = _sum(d, Line(1))  # whole numbers: a < b is a + 1 <= b
        if d.step or not isinstance(d.start, int):
            return None if what == "ne" else Where(d, what == "eq")
        return d.start <= 0 if what not in ("eq", "ne") else (d.start == 0) == (what == "eq")
    return rule


def _both(r: Reader, node: Any) -> Known | None:
    a, b = r.of(node.args[0]), r.of(node.args[1])
    if r.dtype(node) != torch.bool or a is None or b is None:
        return None
    return b if a is True or a == b else a if b is True else False if a is False or b is False else None


def _cumsum(r: Reader, node: Any) -> Known | None:
    x = r.of(node.args[0])
    return Line(0) if x is False or x == Line(0) else None


def _is_never_negative(line: Line) -> bool:
    return all(isinstance(n, int) and n >= 0 for n in (line.start, *line.steps().values()))


def _index(r: Reader, node: Any) -> Known | None:
    x, places = r.of(node.args[0]), node.args[1]
    if isinstance(x, bool):  # as a mask of what is no padding, where nothing is
        return x if all(isinstance(line := r.of(p), Line) and _is_never_negative(line) for p in places if p is not None) else None
    if not isinstance(x, Line) or len(places) != r.rank(node.args[0]) or any(p is None for p in places):
        return None
    out = Line(x.start)
    for axis, step in x.step:
        place = r.of(places[axis])
        if not isinstance(place, Line) or not _is_never_negative(place):
            return None  # a negative place would count from the end
        out = _sum(out, _scaled(place, step))
    return out


def _opposite(x: Known | None) -> Known | None:
    if isinstance(x, bool):
        return not x
    return Where(_sum(Line(1), x.line, -1)) if isinstance(x, Where) and not x.is_equal else None


def _not(r: Reader, node: Any) -> Known | None:
    return _opposite(r.of(node.args[0])) if r.dtype(node) == torch.bool else None


def _mask(r: Reader, node: Any) -> Known | None:
    if node.target is aten.where.self:
        condition, a, b = node.args
    else:  # masked_fill
        b, condition, a = node.args
    shown = r.of(condition)
    if r.values.is_all(b, 0):
        shown, b = _opposite(shown), a
    elif not r.values.is_all(a, 0):
        return None
    hidden = r.values.number(b)
    is_low = hidden is not None and r.dtype(node).is_floating_point and hidden <= torch.finfo(r.dtype(node)).min
    return Mask(shown) if is_low and isinstance(shown, Where) else None


_RULES: dict[Any, Callable[["Reader", Any], Known | None]] = {
    aten.arange.default: _range, aten.arange.start: _range, aten.arange.start_step: _range, prims.iota.default: _range,
    aten.unsqueeze.default: _moved(_unsqueeze), aten.permute.default: _moved(_permute),
    aten.expand.default: _moved(_expand), aten.slice.Tensor: _slice, aten.cat.default: _cat,
    **{view: _moved(_view) for view in (aten.view.default, aten._unsafe_view.default, aten.reshape.default,
                                        aten.squeeze.dims, aten.squeeze.dim)},
    **{copy: _copied for copy in (aten._to_copy.default, aten.clone.default, aten.alias.default, aten.detach.default,
                                  prims.convert_element_type.default)},
    aten.add.Tensor: _added(1), aten.add.Scalar: _added(1), aten.sub.Tensor: _added(-1), aten.sub.Scalar: _added(-1),
    aten.mul.Tensor: _multiplied, aten.mul.Scalar: _multiplied,
    **{getattr(getattr(aten, what), kind): _compared(what) for what in ("le", "lt", "ge", "gt", "eq", "ne")
       for kind in ("Tensor", "Scalar")},
    aten.bitwise_and.Tensor: _both, aten.logical_and.default: _both, aten.logical_not.default: _not,
    aten.bitwise_not.default: _not, aten.cumsum.default: _cumsum, aten.index.Tensor: _index, aten.where.self: _mask,
    aten.masked_fill.Scalar: _mask, aten.masked_fill.Tensor: _mask}


def _size(x: Any) -> Any:
    if isinstance(x, torch.fx.Node):
        x = x.meta["val"]
    if isinstance(x, float):
        raise Unsupported("no whole number")
    return expression(x)


def _equal(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


class Reader:
    """What is known of the nodes of a graph: `reader.of(node)`."""

    def __init__(self, module: Any) -> None:
        self.values, self.known = Values(module), dict[Any, Known]()
        for node in module.graph.nodes:
            known = self._read(node)
            if known is not None:
                self.known[node] = self._without_ones(known, node)

    def of(self, x: Any) -> Known | None:
        if not isinstance(x, torch.fx.Node):
            return x if isinstance(x, bool) else Line(x) if isinstance(x, int) else None
        if isinstance(x.meta.get("val"), torch.SymInt):
            return Line(expression(x.meta["val"]))
        return self.known.get(x)

    def shape(self, node: Any) -> list[Any]:
        return [expression(s) for s in node.meta["val"].shape]

    def rank(self, node: Any) -> int:
        return node.meta["val"].dim()

    def dtype(self, node: Any) -> torch.dtype:
        return node.meta["val"].dtype

    def _read(self, node: Any) -> Known | None:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            return None
        number = self.values.known.get(node)
        if isinstance(number, bool):
            return self._fitting(number, value)
        if isinstance(number, int):
            return self._fitting(Line(number), value)
        if node.target not in _RULES:
            return None
        try:
            return self._fitting(_RULES[node.target](self, node), value)
        except Unsupported:
            return None

    @staticmethod
    def _fitting(known: Known | None, value: torch.Tensor) -> Known | None:
        """The line, if the dtype holds all its numbers without rounding."""
        kinds: dict[torch.dtype, Any] = {torch.int64: Line, torch.bool: (bool, Where)}
        return known if isinstance(known, kinds.get(value.dtype, Mask if value.is_floating_point() else ())) else None

    def _without_ones(self, known: Known, node: Any) -> Known:
        """An axis of one element has no step."""
        shape = self.shape(node)
        return _on_line(known, lambda line: _line(line.start, {
            a: s for a, s in line.step if not same(shape[a], 1)}))

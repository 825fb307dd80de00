"""A group of results as the text of a formula, with the tensors that it reads."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from ..lowering.tree import Apply, Buf, Const, Gather, Iota, Leaf, Tree, leaves
from ..sizes import Dims, Unsupported, magnitude, same, tidy
from .loops import Group, Index, access


# What a reduction over one element is, where it is not that element.
_OF_ONE = {"argmax": "0", "argmin": "0", "var": "(body - body)", "var unbiased": "nan"}
_OF_ONE_REAL = _OF_ONE | {"sum": "(body + 0.0)", "mean": "(body + 0.0)"}  # a sum begins with 0: -0.0 becomes 0.0

_OF_UPDATES = {"+=": "sum", "max=": "max", "min=": "min"}


@dataclass
class Argument:
    """A tensor of a formula: memory of `buf` by strides. Or (buf is None) the whole number `offset`."""

    buf: Buf | None
    size: list[Any]
    stride: list[Any]
    offset: Any = 0


@dataclass
class Formula:
    text: str
    sizes: str
    arguments: list[Argument] = field(default_factory=list)  # in the formula's order


@dataclass(eq=False)
class _Read:
    """What a leaf reads: strides by loop, changed when loops merge."""

    by: dict[Index, Any]


class Unmeasured(Exception):
    """No tensor of the kernel has the size of one of its loops: what it computes on the way has to become memory."""


class Writer:
    def __init__(self, group: Group, dims: Dims) -> None:
        self.group, self.dims = group, dims
        self.root = group.root
        self.order = sorted(group.members, key=lambda b: b.number)
        self.stored = {b: f"Y{i or ''}" for i, b in enumerate([group.root, *group.also])}
        self.reads: dict[tuple[Buf, int], _Read] = {}
        self.uses: dict[Buf, int] = {}
        for b in self.order:
            assert b.tree is not None
            for t in leaves(b.tree):
                self.reads[b, id(t)] = _Read(access(t.stride, group.axes[b]))
        for b in self.order:
            self._count(b.tree)
        self.axes = {b: list(group.axes[b]) for b in self.order}
        self.reduced = {b: {i for i in group.axes[b][len(b.shape):] if i is not None} for b in self.order}
        self.out = {b: _Read(access(b.stride, self._result_axes(b))) for b in self.stored}
        if all(b.kind != "scan" for b in self.order):
            self._sort_loops()
        self._merge()
        self.names: dict[Index, str] = {}
        for b in (self.root, *self.order):
            for index in self.axes[b]:
                if index is not None:
                    self.names.setdefault(index, f"x{len(self.names)}")
        self.named: dict[Any, tuple[str, Argument]] = {}
        self.scalars: dict[str, Argument] = {}
        self.measured: set[Index] = set()  # loops that are an axis of a tensor

    def _count(self, tree: Tree | None) -> None:
        if isinstance(tree, Leaf):
            self.uses[tree.buf] = self.uses.get(tree.buf, 0) + 1
        elif isinstance(tree, Apply):
            for a in tree.args:
                self._count(a)
        elif isinstance(tree, Gather):
            for _, _, index in tree.axes:
                self._count(index)

    def _result_axes(self, b: Buf) -> list[Index | None]:
        return self.group.axes[b][:len(b.shape)]

    def _sort_loops(self) -> None:
        """Loops in the order of the result's memory, the reduced ones behind them: neighbours may then merge."""
        place = {i: -magnitude(s) for i, s in self.out[self.root].by.items()}
        for b in self.order:
            free = [i for i in self.axes[b] if i not in self.reduced[b]]
            over = [i for i in self.axes[b] if i in self.reduced[b]]
            self.axes[b] = sorted(free, key=lambda i: 0 if i is None else place.get(i, 0)) + over

    # ---- Merging loops that every tensor walks through as one

    def _merge(self) -> None:
        merged = True
        while merged:
            merged = False
            axes = [i for i in self.axes[self.root] if i is not None]
            for p, q in zip(axes, axes[1:]):
                if self._merges(p, q):
                    self._do_merge(p, q)
                    merged = True
                    break

    def _walks(self) -> list[dict[Index, Any]]:
        return [r.by for r in (*self.reads.values(), *self.out.values())]

    def _merges(self, p: Index, q: Index) -> bool:
        for by in self._walks():
            if (p in by) != (q in by) or p in by and not same(by[p], tidy(by[q] * q.size)):
                return False
        for b in self.order:
            axes = [i for i in self.axes[b] if i is not None]
            if b.kind == "scan" and q is axes[-1]:
                return False
            if (p in axes) != (q in axes) or p in axes and axes.index(q) != axes.index(p) + 1:
                return False
            if (p in self.reduced[b]) != (q in self.reduced[b]):
                return False
        return True

    def _do_merge(self, p: Index, q: Index) -> None:
        new = Index(tidy(p.size * q.size))
        for b in self.order:
            if p in self.axes[b]:
                self.axes[b][self.axes[b].index(p)] = new
                self.axes[b].remove(q)
            if p in self.reduced[b]:
                self.reduced[b] = self.reduced[b] - {p, q} | {new}
        for by in self._walks():
            if p in by:
                by[new] = by.pop(q)
                del by[p]

    # ---- Text

    def _subscript(self, by: dict[Index, Any]) -> list[Index]:
        """The loops in the order of the tensor's memory, so that the library sees from the text how the tensor lies."""
        return sorted(by, key=lambda i: (-magnitude(by[i]), int(self.names[i][1:])))

    def _argument(self, key: Any, argument: Argument) -> str:
        if key not in self.named:
            self.named[key] = (f"A{len(self.named)}", argument)
        return self.named[key][0]

    def _leaf(self, b: Buf, t: Leaf | Gather) -> str:
        by = self.reads[b, id(t)].by
        if isinstance(t, Leaf) and t.buf in self.axes:
            return self._computed(t.buf)
        gathered = t.axes if isinstance(t, Gather) else ()
        is_guarded = isinstance(t, Gather) and t.is_guarded
        axes = [(s, n, self._tree(b, index), is_guarded and isinstance(index, Iota) and not same(index.offset, 0))
                for s, n, index in gathered]
        axes += [(by[i], i.size, self.names[i], False) for i in self._subscript(by)]
        self.measured.update(by)
        # the index is a shifted loop and no tensor, so the axes can be in the order of memory
        if any(isinstance(index, Iota) for _, _, index in gathered):
            axes.sort(key=lambda axis: -magnitude(axis[0]))
        stride, size, parts, guarded = map(list, zip(*axes)) if axes else ([], [], [], [])
        # two reads by different indices share one argument if all else is equal
        key = (t.buf.number, len(gathered), tuple(map(str, size)), tuple(map(str, stride)), str(t.offset),
               tuple(self.names[i] for i in self._subscript(by)))
        name = self._argument(key, Argument(t.buf, size, stride, t.offset))
        read = f"{name}[{', '.join(parts)}]"
        guard = [f"{part} >= 0 and {part} < size({name}.{axis})" for axis, part in enumerate(parts) if guarded[axis]]
        return f"where({' and '.join(guard)}, {read}, 0)" if guard else read

    def _computed(self, x: Buf) -> str:
        if x in self.stored:
            return self._result(x)
        if self._is_named(x):
            return f"t{self.order.index(x)}[{', '.join(self._indices(x))}]"
        return self._element(x)

    def _is_named(self, x: Buf) -> bool:
        """True for a `let`: what is read twice, and what is computed once a row."""
        return x.kind == "reduce" or self.uses[x] > 1 or x in self.group.named or len(self._indices(x)) < len(self._indices(self.root))

    def _indices(self, x: Buf) -> list[str]:
        return [self.names[i] for i in self.axes[x] if i is not None and i not in self.reduced[x]]

    def _number(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            text = "nan" if math.isnan(value) else "inf" if math.isinf(value) else repr(abs(value))
            return f"(-{text})" if math.copysign(1.0, value) < 0 else text
        if isinstance(value, int):
            if not -2 ** 63 < value < 2 ** 63:
                raise Unsupported(f"number {value} does not fit into 64 bits")
            return f"(-{-value})" if value < 0 else str(value)
        text = self.dims.text(value)
        self.scalars.setdefault(text, Argument(None, [], [], value))
        return f"n{list(self.scalars).index(text)}"

    def _iota(self, b: Buf, t: Iota) -> str:
        by = self.reads[b, id(t)].by
        parts = [self.names[i] if same(s, 1) else f"{self.names[i]} * {self._number(s)}" for i, s in by.items()]
        if not same(t.offset, 0) or not parts:
            parts.append(self._number(t.offset))
        return f"({' + '.join(parts)})"

    def _tree(self, b: Buf, t: Tree) -> str:
        if isinstance(t, Const):
            return self._number(t.value)
        if isinstance(t, Iota):
            return self._iota(b, t)
        if isinstance(t, (Leaf, Gather)):
            return self._leaf(b, t)
        return t.text.format(*(self._tree(b, a) for a in t.args))

    def _scatter(self, b: Buf) -> str:
        """Writes at indices: the tree has the value, and the index of each axis of `at`."""
        assert isinstance(b.tree, Apply)
        value, *indices = (self._tree(b, t) for t in b.tree.args)
        plain = [self.names[i] for i in self._subscript(self.out[b].by)]
        left = ", ".join([*indices, *plain])
        own = [self.names[i] for i in self.axes[b] if i is not None]
        over = [name for name in own if not re.search(rf"\b{name}\b", left) and re.search(rf"\b{name}\b", value)]
        if over and b.reduction in _OF_UPDATES:  # the places do not depend on them, as positions do not on the batch
            value = f"{_OF_UPDATES[b.reduction]}[{', '.join(over)}]({value})"
        return f"{self.stored[b]}[{left}] {b.reduction} {value}"

    def _element(self, b: Buf) -> str:
        assert b.tree is not None
        body = self._tree(b, b.tree)
        if not b.reduction:
            return body
        if b.kind == "scan":
            return f"{b.reduction}[{self.names[self.axes[b][-1]]}]({body})" if self.axes[b][-1] else body
        over = ", ".join(self.names[i] for i in self.axes[b] if i in self.reduced[b])
        if not over:  # the reduction is over one element
            is_real = b.dtype in ("f16", "bf16", "f32", "f64")
            return (_OF_ONE_REAL if is_real else _OF_ONE).get(b.reduction, body).replace("body", body)
        name, _, options = b.reduction.partition(" ")
        return f"{name}[{over}]({body}{', ' + options if options else ''})"

    def _result(self, b: Buf) -> str:
        return f"{self.stored[b]}[{', '.join(self.names[i] for i in self._subscript(self.out[b].by))}]"

    def write(self) -> Formula:
        lines = []
        for x in self.order:
            if x.kind == "scatter":
                lines.append(self._scatter(x))
            elif x in self.stored:
                if any(name not in {self.names[i] for i in self.out[x].by} for name in self._indices(x)):
                    raise Unsupported("an output is expanded")
                lines.append(f"{self._result(x)} = {self._element(x)}")
            elif self._is_named(x):
                lines.append(f"let t{self.order.index(x)}[{', '.join(self._indices(x))}] = {self._element(x)}")
        text = "; ".join(lines)
        arguments = dict(self.named.values())
        for b, name in self.stored.items():
            out = self._subscript(self.out[b].by)
            self.measured.update(out)
            arguments[name] = Argument(b, [*(n for _, n in b.at), *(i.size for i in out)],
                                       [*(s for s, _ in b.at), *(self.out[b].by[i] for i in out)])
        if any(not isinstance(i.size, int) and i not in self.measured for i in self.names):
            raise Unmeasured
        dtypes = {name: a.buf.dtype for name, a in arguments.items() if a.buf is not None}
        ordered = [arguments[name] for name in dict.fromkeys(re.findall(r"\b(?:A|Y)\d*(?=\[)", text))]
        for name, dtype in dtypes.items():
            text = re.sub(rf"\b{name}\[", f"{name}:{dtype}[", text, count=1)
        if self.scalars:
            text = "scalar " + ", ".join(f"n{i}:i64" for i in range(len(self.scalars))) + "; " + text
        # A kernel over one loop is the same for all lengths.
        sizes = "" if len(self.names) == 1 and not any(self.reduced.values()) else \
            ", ".join(f"{name}={i.size}" for i, name in self.names.items() if isinstance(i.size, int))
        return Formula(text, sizes, [*self.scalars.values(), *ordered])


def write(group: Group, dims: Dims) -> Formula:
    formula = Writer(group, dims).write()
    if len(formula.arguments) > 30 or any(len(a.size) > 8 for a in formula.arguments):
        raise Unsupported("a kernel with too many tensors or axes")
    return formula

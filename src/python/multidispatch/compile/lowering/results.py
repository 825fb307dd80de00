"""What a plan gives back: new memory, views of memory, arguments, sizes and other objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import torch

from ..sizes import Unsupported, expression, is_dense, one_or_none, product, same
from . import tree as T
from .tree import Buf, Leaf, Value

_MEMORY = ("point", "reduce", "product", "eager", "cat")


@dataclass
class Output:
    kind: str  # new, view, argument, size, object
    buf: Buf | None = None  # new
    # view: first the buf whose memory it has, then the place of that buf's output; -1 - i for argument i
    value: Any = None
    stride: Sequence[Any] = ()
    shape: Sequence[Any] = ()
    offset: Any = 0


class Results:
    """Adds the outputs of a lowered graph.

    Results that the user sees have memory of their own. Those that only the backward reads may be views: of each other,
    and of memory that is no result itself (hidden outputs, behind all others)."""

    def __init__(self, lowering: Any) -> None:
        self.g = lowering
        self.place: dict[Buf, int] = {}  # place of the output that owns the memory

    def add(self, results: Sequence[Any]) -> None:
        out = self.g.out
        for i, x in enumerate(results):
            is_seen = self.g.n_visible is None or i < self.g.n_visible
            out.outputs.append(self._result(x, is_seen, i))
        for o in out.outputs[:len(results)]:
            if o.kind == "view":
                o.value = self._base(o.value)

    def _base(self, b: Buf) -> int:
        out = self.g.out
        if b.kind == "input":
            return next(-1 - at for at, x in out.inputs if x is b)
        if b not in self.place:
            self.place[b] = len(out.outputs)
            out.outputs.append(Output("new", b, None, list(b.stride), list(b.shape)))
            out.n_hidden += 1
        return self.place[b]

    def _result(self, x: Any, is_seen: bool, place: int) -> Output:
        if not isinstance(x, torch.fx.Node):
            return Output("object", value=x)
        value = self.g.env[x]
        if not isinstance(value, Value):
            if isinstance(value, torch.SymInt):
                return Output("size", value=expression(value))
            if value is None or isinstance(value, (bool, int, float, str)):
                return Output("object", value=value)
            raise Unsupported(f"a result of type {type(value).__name__}")
        if x.op == "placeholder":
            nodes = [n for n in self.g.module.graph.nodes if n.op == "placeholder"]
            return Output("argument", value=nodes.index(x))
        self.g.check_tensor(x.meta["val"])
        stride = [expression(s) for s in x.meta["val"].stride()]
        return self._tensor(value, stride, is_seen, place)

    def _tensor(self, value: Value, stride: list[Any], is_seen: bool, place: int) -> Output:
        memory, shape = list(stride), value.shape
        for axis, n in enumerate(shape):
            if same(stride[axis], 0) and not same(n, 1):  # expanded: its memory has one element there, or none
                value = T.sliced(value, axis, 0, one_or_none(n))
                memory[axis] = 1
        t = value.tree
        if isinstance(t, Leaf) and self._is_memory(value, t, memory):
            b = t.buf
            if b.kind != "input" and self._is_all(value, t, memory) and b not in self.place:
                b.is_memory = True
                self.place[b] = place
                return Output("new", b, None, stride, shape)
            is_whole = b.kind == "input" or is_dense(b.shape, b.stride)
            if not is_seen and same(product(shape), product(value.shape)) and is_whole:
                b.is_memory = True
                return Output("view", None, b, stride, shape, t.offset)
        b = self.g.buf("point", value.shape, value.dtype, tree=t)
        b.stride, b.is_memory = memory, True
        self.place[b] = place
        return Output("new", b, None, stride, shape)

    @staticmethod
    def _is_memory(v: Value, t: Leaf, stride: list[Any]) -> bool:
        """True if the result lies in a buf's memory as PyTorch expects it."""
        return t.buf.kind in (*_MEMORY, "input") and not t.buf.into and t.buf.dtype == v.dtype \
            and all(same(n, 1) or same(a, b) for n, a, b in zip(v.shape, t.stride, stride))

    @staticmethod
    def _is_all(v: Value, t: Leaf, stride: list[Any]) -> bool:
        """True if it is all of that memory."""
        return same(t.offset, 0) and same(product(v.shape), product(t.buf.shape)) and is_dense(v.shape, stride) \
            and is_dense(t.buf.shape, t.buf.stride)

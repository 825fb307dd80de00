"""Chains: a product, what makes weights of it along a row, and the product of the weights with values. As one formula they
are one kernel where the library has a fused one (src/stage/chain.h), and otherwise no worse than three."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from ..lowering.tree import Apply, Buf, Gather, Leaf, Tree, cost, leaves, reads
from ..sizes import Unsupported, contiguous, magnitude, product, same
from .loops import Group, Index, common_axes, full_shape, reshape, result_axes

_LAZY = ("point", "reduce", "product")  # results that are computed where they are read, or become memory
_MOST_MEMBERS = 14
_MOST_READ = 20  # the most tensors that the kernel reads
_MOST_AT_END = 3  # the most tensors that what is computed of the result may read
_CHEAP = 6  # what has no product and no row's result behind it is computed in the kernel up to this cost
_NARROW = ("f16", "bf16")


def _axes_read(t: Leaf, axes: list[Any]) -> list[tuple[int, Any]]:
    """The axes of a tree that a leaf walks along, with their strides, the outermost first."""
    found = [(i, s) for i, (s, index) in enumerate(zip(t.stride, axes)) if index is not None and not same(s, 0)]
    return sorted(found, key=lambda x: -magnitude(x[1]))


def _reads(reader: Buf, b: Buf) -> list[Any]:
    return [t for t in reads(reader.tree) if t.buf is b]


def _divided(end: Buf, by: Leaf) -> list[list[Any]] | None:
    """For each axis the sizes that it divides into where `end` reads another result, whose axes these are; None if the
    axes of that do not lie within those of `end`."""
    full = full_shape(end)
    read = [i for i, _ in _axes_read(by, [None if same(n, 1) else n for n in full])]
    sizes = iter([n for n in by.buf.shape if not same(n, 1)])
    out: list[list[Any]] = [[n] for n in full]
    for i in read:
        parts: list[Any] = []
        while not same(product(parts), full[i]):
            n = next(sizes, None)
            if n is None:
                return None
            parts.append(n)
        out[i] = parts
    is_all = next(sizes, None) is None and all(len(p) == 1 for p in out[len(end.shape):])
    return out[:len(end.shape)] if is_all else None


class _Finder:
    """Looks for the chain of `end`, the product with the values. `root` is the same, or the only reader of it."""

    def __init__(self, root: Buf, end: Buf, weights: Buf, readers: dict[Buf, list[Buf]], taken: set[Buf]) -> None:
        self.group, self.taken = Group(root, {}), taken
        self.readers = readers
        self.root, self.end, self.weights = root, end, weights
        self.key: Any = None  # the loop over the keys
        self.product: Buf | None = None
        self.is_row = False

    def find(self) -> Group | None:
        if not self._is_ours(self.weights) or not self._divide() or not self._open():
            return None
        waiting = {t.buf for t in leaves(self.end.tree) if isinstance(t, Leaf)}
        while waiting:
            b = max(waiting, key=lambda x: x.number)
            waiting.remove(b)
            if self._take(b):
                waiting |= {t.buf for t in leaves(b.tree) if isinstance(t, Leaf)}
                waiting -= set(self.group.axes)
        members = self.group.members
        is_chain = self.product is not None and self.is_row and self.weights in self.group.axes \
            and len(members) <= _MOST_MEMBERS and sum(len(leaves(x.tree)) for x in members) <= _MOST_READ
        return self.group if is_chain else None

    def _open(self) -> bool:
        self.group.axes[self.root] = [None if same(n, 1) else Index(n) for n in full_shape(self.root)]
        if self.root is not self.end:
            axes = self._loops(self.end)
            if axes is None:
                return False
            self.group.axes[self.end] = [*axes, *(None if same(n, 1) else Index(n) for n in self.end.reduced)]
            self.group.inline.append(self.end)
        self.key = self.group.axes[self.end][-1]
        return True

    def _align(self) -> tuple[list[Any], list[Any] | None]:
        """Loops for the axes of the root, and which of them each axis of the end is."""
        loops = [None if same(n, 1) else Index(n) for n in self.root.shape]
        of_end = loops if self.root is self.end else result_axes(self.end, _reads(self.root, self.end)[0], loops)
        return loops, of_end

    def _divide(self) -> bool:
        """Divides axes as the end's operands have them: heads that were merged with the batch, or whose keys are shared."""
        assert self.end.tree is not None
        if self.root is not self.end and not self._divide_root():
            return False
        for place in range(2):
            loops, axes = self._align()
            t = leaves(self.end.tree)[place]
            if axes is None:
                return False
            if not isinstance(t, Leaf) or t.buf.kind != "point" or not self._is_ours(t.buf):
                continue
            parts = _divided(self.end, t)
            if parts is not None and any(len(p) > 1 for p in parts) and not self._divide_as(loops, axes, parts):
                return False
        return True

    def _divide_root(self) -> bool:
        """Divides axes of what reads the end as that has them."""
        parts = _divided(self.root, _reads(self.root, self.end)[0])
        if parts is None or all(len(p) == 1 for p in parts):
            return True
        return all(map(same, self.root.stride, contiguous(self.root.shape))) \
            and reshape(self.root, [n for p in parts for n in p])

    def _divide_as(self, loops: list[Any], axes: list[Any], parts: list[list[Any]]) -> bool:
        own = {i: p for i, p in zip(axes, parts) if i is not None}
        shape = [n for i, size in zip(loops, self.root.shape) for n in own.get(i, [size])]
        return all(map(same, self.root.stride, contiguous(self.root.shape))) and reshape(self.root, shape)

    def _is_ours(self, b: Buf) -> bool:
        return not b.is_memory and not b.into and b not in self.taken and all(
            r is self.end or r in self.group.axes or self._is_result_of_row(r, b) for r in self.readers.get(b, ()))

    def _is_result_of_row(self, r: Buf, b: Buf) -> bool:
        """True for a result of the graph that is made of the row's results alone, such as a logarithm of the sum."""
        if r.kind != "point" or not r.is_memory or r.into or r.number >= self.root.number:
            return False
        if len(r.shape) != len(b.shape) or not all(map(same, r.shape, b.shape)):
            return False
        plain = contiguous(b.shape)
        return all(map(same, r.stride, plain)) and all(
            isinstance(t, Leaf) and _is_of_row(t.buf) and all(map(same, t.stride, plain)) for t in leaves(r.tree))

    def _loops(self, b: Buf) -> list[Any] | None:
        """The loops for the axes of `b`, if all members read it in one way."""
        return common_axes(b, [(r, t) for r in self.group.axes for t in _reads(r, b)], self.group)

    def _take(self, b: Buf) -> bool:
        """True if `b` is computed in the kernel."""
        if b.kind not in _LAZY or b.tree is None or not self._is_ours(b):
            return False
        if b.kind == "product" and self.product is not None or not self._suits(b):
            return False
        axes = self._loops(b)
        if axes is None:
            return False
        over = self._reduced(b, axes)
        if over is None:
            return False
        self.group.axes[b] = [*axes, *over]
        self.group.inline.append(b)
        if b.kind == "product":
            self.product = b
        self.is_row |= b.kind == "reduce"
        for r in self.readers.get(b, ()):
            if r is not self.end and r not in self.group.axes:
                self.group.axes[r] = list(axes)
                self.group.also.append(r)
        return True

    def _reduced(self, b: Buf, axes: list[Any]) -> list[Any] | None:
        """The loops of what `b` reduces: a row's are the keys."""
        if b.kind == "point":
            return []
        if b.kind == "reduce":
            fits = b.reduction in ("sum", "max") and len(b.reduced) == 1 and self.key is not None \
                and same(b.reduced[0], self.key.size) and self.key not in axes
            return [self.key] if fits else None
        return [None if same(n, 1) else Index(n) for n in b.reduced] if self.key in axes else None

    def _suits(self, b: Buf) -> bool:
        """Queries, keys and values are memory; what a product reads may be a copy, which is not made then."""
        assert b.tree is not None
        if any(r.kind == "product" or is_copy(r) for r in self.readers.get(b, ())):
            return b is self.weights or is_copy(b)
        return b.kind != "point" or _follows(b) or cost(b.tree) <= _CHEAP and not any(
            isinstance(t, Gather) for t in leaves(b.tree))


def is_copy(b: Buf) -> bool:
    return b.kind == "point" and isinstance(b.tree, Leaf)


def _is_of_row(b: Buf) -> bool:
    """True for a row's result, and what is made of such results alone, computed on the way."""
    return not b.is_memory and (b.kind == "reduce" or b.kind == "point" and b.tree is not None and all(
        isinstance(t, Leaf) and _is_of_row(t.buf) for t in leaves(b.tree)))


def _follows(b: Buf) -> bool:
    """True if a row's result or a product is computed on the way to `b`."""
    return any(not t.buf.is_memory and (t.buf.kind in ("reduce", "product") or t.buf.kind == "point" and _follows(t.buf))
               for t in reads(b.tree))


def rounded(b: Buf) -> Tree:
    """Weights in 16 bits are rounded as memory would round them: tensor cores take them so."""
    tree, text = b.tree, b.dtype + "({0})"
    assert tree is not None
    is_so = isinstance(tree, Leaf) or isinstance(tree, Apply) and tree.text == text
    return tree if b.dtype not in _NARROW or is_so else Apply(text, (tree,), 0)


def _weights(end: Buf) -> list[Buf]:
    """What may be the weights that a product multiplies values with: it is made of a row's results."""
    read = leaves(end.tree)
    if len(read) != 2 or len(end.reduced) != 1 or not all(isinstance(t, Leaf) for t in read):
        return []
    return [t.buf for t in reads(end.tree) if t.buf.kind == "point" and not is_copy(t.buf) and _follows(t.buf)]


def _root_of(end: Buf, readers: dict[Buf, list[Buf]]) -> Buf:
    """What is computed of the end, such as another order of it, if that alone reads it."""
    only = readers.get(end, [])
    if end.is_memory or len(only) != 1 or only[0].kind != "point" or only[0].into:
        return end
    of_end = _reads(only[0], end)
    is_plain = len(of_end) == 1 and isinstance(of_end[0], Leaf) and len(leaves(only[0].tree)) <= _MOST_AT_END
    return only[0] if is_plain and same(product(only[0].shape), product(end.shape)) else end


def find_chains(bufs: list[Buf], readers: dict[Buf, list[Buf]], taken: set[Buf]) -> dict[Buf, Group]:
    """The chains among results, by their roots. A result belongs to one at most, and none of `taken` does."""
    out: dict[Buf, Group] = {}
    taken = set(taken)
    for b in reversed(bufs):
        if b.kind != "product" or b in taken or b not in readers and not b.is_memory:
            continue
        group = None
        for root, weights in itertools.product(dict.fromkeys((_root_of(b, readers), b)), _weights(b)):
            with contextlib.suppress(Unsupported):
                group = group or _Finder(root, b, weights, readers, taken).find()
        if group is None:
            continue
        for t in leaves(b.tree):
            if isinstance(t, Leaf) and t.buf in group.axes:
                t.buf.tree = rounded(t.buf)
        taken |= set(group.axes)
        out[group.root] = group
    return out

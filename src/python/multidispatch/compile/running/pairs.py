"""Pairs: products of rows and keys, weights made of them, and several products of the weights with operands, over the keys
and over the rows. Such is the gradient of attention. As one formula of several results they are one kernel where the
library has one (src/stage/pairs.c), and otherwise no worse than a kernel each."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

from ..lowering.tree import Buf, Gather, Leaf, leaves, reads
from ..sizes import Unsupported, same
from .chains import is_copy, rounded
from .loops import Group, Index, access, common_axes, full_shape

_PRODUCTS = 2  # weights of one product, such as the gradient of an activation, are as good in memory
_MOST_SUMS, _MOST_MEMBERS, _MOST_READ = 4, 14, 24


def _holds_product(b: Buf) -> bool:
    """True for what is computed of a product on the way."""
    return b.kind == "point" and not b.is_memory and any(
        not t.buf.is_memory and (t.buf.kind == "product" or _holds_product(t.buf)) for t in reads(b.tree))


def _operands(b: Buf) -> list[Leaf]:
    """The two operands of a product that are read at plain places, else nothing."""
    found = [t for t in leaves(b.tree) if isinstance(t, Leaf)]
    return found if len(found) == 2 and len(leaves(b.tree)) == 2 else []


class _Finder:
    """Collects what belongs to `weights`, and then looks for the loops of each part."""

    def __init__(self, weights: Buf, readers: dict[Buf, list[Buf]]) -> None:
        self.readers = readers
        self.inside: set[Buf] = set()  # weights and what they are made of
        self.ends: set[Buf] = set()
        self.is_whole = True
        self.walked: list[tuple[Buf, Any, dict[Index, Any]]] = []  # what operands were read, and how
        waiting = [weights]
        while waiting and self.is_whole:
            b = waiting.pop()
            if b not in self.inside:
                self.inside.add(b)
                waiting += self._neighbours(b)

    def _neighbours(self, b: Buf) -> list[Buf]:
        """What is computed of `b`, and of what it is computed, without memory and ends."""
        self.is_whole &= not b.is_memory and not b.into and b.kind in ("point", "product")
        out = [t.buf for t in reads(b.tree) if t.buf.kind == "product" or _holds_product(t.buf)] if b.kind == "point" else []
        self.is_whole &= all(not x.is_memory for x in out)
        for r in self.readers.get(b, ()):
            if r.kind == "product" and b.kind == "point" and _operands(r):
                self.ends.add(r)
            else:
                self.is_whole &= r.kind == "point" and not is_copy(r)
                out.append(r)
        return out

    def find(self, first_reader: Callable[[Buf], float], dtypes: Sequence[str]) -> Group | None:
        ends = sorted(self.ends, key=lambda b: b.number)
        products = [b for b in self.inside if b.kind == "product"]
        members = [*ends, *self.inside]
        if not self.is_whole or not 1 < len(ends) <= _MOST_SUMS or len(products) != _PRODUCTS \
                or len(members) > _MOST_MEMBERS or sum(len(leaves(b.tree)) for b in members) > _MOST_READ \
                or not all(_operands(b) for b in products) or self.ends & self.inside \
                or any(t.buf.dtype not in dtypes for b in (*ends, *products) for t in _operands(b) if t.buf not in self.inside) \
                or any(first_reader(b) < ends[-1].number for b in ends) \
                or any(isinstance(t, Gather) for b in members for t in leaves(b.tree)):
            return None
        group = Group(ends[-1], {}, also=ends[:-1])
        return group if self._lay_out(group, ends) else None

    # ---- Loops

    def _lay_out(self, group: Group, ends: list[Buf]) -> bool:
        first = ends[0]
        group.axes[first] = [None if same(n, 1) else Index(n) for n in full_shape(first)]
        self._note(first, group.axes[first])
        waiting = set(self.inside)
        while waiting or len(group.axes) < len(self.inside) + len(ends):
            placed = [b for b in sorted(waiting, key=lambda b: -b.number) if self._place(b, group)]
            placed += [e for e in ends if e not in group.axes and self._place_end(e, group)]
            if not placed:
                return False
            waiting -= set(placed)
        group.inline += sorted(self.inside, key=lambda b: b.number)
        group.named |= {t.buf for e in ends for t in _operands(e) if t.buf in self.inside}
        return self._agree(group)

    def _place(self, b: Buf, group: Group) -> bool:
        """Finds the loops of a part where the loops of one that reads it are known."""
        known = [r for r in self.readers[b] if r in group.axes]
        axes = common_axes(b, [(r, t) for r in known for t in reads(r.tree) if t.buf is b], group)
        if axes is None:
            return False
        group.axes[b] = self._named_alike(b, [*axes, *(None if same(n, 1) else Index(n) for n in b.reduced)])
        self._note(b, group.axes[b])
        return True

    def _place_end(self, end: Buf, group: Group) -> bool:
        """The same from the weights that an end reads."""
        weights = next((t for t in _operands(end) if t.buf in group.axes), None)
        if weights is None:
            return False
        by = {i: (s, loop) for i, (s, loop) in enumerate(zip(weights.buf.stride, group.axes[weights.buf])) if loop is not None}
        axes: list[Index | None] = []
        for n, step in zip(full_shape(end), weights.stride):
            found = [i for i, (s, loop) in by.items() if same(s, step) and same(loop.size, n)] if not same(n, 1) else []
            axes.append(by.pop(found[0])[1] if found else None if same(n, 1) else Index(n))
            if not found and not same(n, 1) and not same(step, 0):
                return False
        if by or not same(weights.offset, 0):
            return False
        group.axes[end] = self._named_alike(end, axes)
        self._note(end, group.axes[end])
        return True

    def _note(self, b: Buf, axes: list[Index | None]) -> None:
        if b.kind == "product":
            self.walked += [(t.buf, t.offset, access(t.stride, axes)) for t in _operands(b) if t.buf not in self.inside]

    def _named_alike(self, b: Buf, axes: list[Index | None]) -> list[Index | None]:
        """The loops, where those along the columns of an operand are those of an earlier read of it: one argument."""
        if b.kind != "product":
            return axes
        for t in _operands(b):
            by = access(t.stride, axes)
            for buf, offset, other in self.walked:
                own, its = [i for i in by if i not in other], [i for i in other if i not in by]
                if buf is t.buf and same(offset, t.offset) and len(own) == len(its) == 1 and same(own[0].size, its[0].size) \
                        and same(by[own[0]], other[its[0]]) and all(same(by[i], other[i]) for i in by if i in other) \
                        and its[0] not in axes:
                    return [its[0] if i is own[0] else i for i in axes]
        return axes

    def _agree(self, group: Group) -> bool:
        """True if all readers of a part walk along it in the same way, now that all loops are known."""
        return all(common_axes(b, [(r, t) for r in self.readers[b] for t in reads(r.tree) if t.buf is b], group)
                   == group.axes[b][:len(b.shape)] for b in self.inside)


def find_pairs(bufs: list[Buf], readers: dict[Buf, list[Buf]], by_pytorch: dict[Buf, float],
               dtypes: Sequence[str]) -> dict[Buf, Group]:
    """The pairs among results, by their roots. `dtypes`: of the operands that kernels take."""
    def first_reader(b: Buf) -> float:
        return min([*(r.number for r in readers.get(b, ())), by_pytorch.get(b, math.inf)])

    out: dict[Buf, Group] = {}
    seen: set[Buf] = set()
    for b in bufs:
        for t in _operands(b) if b.kind == "product" else ():
            if t.buf in seen or not _holds_product(t.buf) or is_copy(t.buf):
                continue
            finder = _Finder(t.buf, readers)
            seen |= finder.inside
            try:
                group = finder.find(first_reader, dtypes)
            except Unsupported:
                continue
            if group is not None:
                for w in group.named:
                    w.tree = rounded(w)
                out[group.root] = group
    return out

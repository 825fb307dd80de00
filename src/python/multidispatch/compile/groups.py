"""Cuts what a graph computes into kernels: which results become memory, and which are computed where they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .sizes import Unsupported, contiguous, magnitude, product, same, tidy
from .tree import Buf, Gather, Iota, Leaf, Tree, Value, cost, leaves, reshaped

LAZY = ("point", "reduce", "product")
_CHEAP = 3  # operations that are rather computed twice than stored
_MOST_READ_TWICE = 2  # tensors as large as a result that are rather read twice than the result stored
_MOST_INLINE = 12  # results inside one kernel
_MOST_READ = 20  # tensors that one kernel reads


@dataclass(eq=False)
class Index:
    """A loop of a kernel."""

    size: Any


Axes = "list[Index | None]"  # of a tree; None: the axis has size 1


@dataclass(eq=False)
class Group:
    """A kernel: the result `root`, and the results that it computes on the way, with the loops of their trees."""

    root: Buf
    axes: dict[Buf, list[Index | None]]
    inline: list[Buf]


def full_shape(buf: Buf) -> list[Any]:
    """The shape of a buf's tree: reductions have their reduced axes at the end."""
    return [*buf.shape, *buf.reduced]


def access(stride: Any, axes: list[Index | None]) -> dict[Index, Any]:
    """Strides by loop."""
    out: dict[Index, Any] = {}
    for s, index in zip(stride, axes):
        if index is not None and not same(s, 0):
            out[index] = tidy(out.get(index, 0) + s)
    return out


def _result_axes(buf: Buf, leaf: Leaf, axes: list[Index | None]) -> list[Index | None] | None:
    """The loops for the axes of `buf` where a tree with these loops reads it; None if it is read in another way."""
    if not same(leaf.offset, 0):
        return None
    by = access(leaf.stride, axes)
    loops = sorted(by, key=lambda i: -magnitude(by[i]))
    sizes = [i.size for i in loops]
    if not all(map(same, contiguous(sizes), [by[i] for i in loops])) or not same(product(sizes), product(buf.shape)):
        return None
    real = [n for n in buf.shape if not same(n, 1)]
    if (len(real) != len(sizes) or not all(map(same, real, sizes))) and not _reshape(buf, sizes):
        return None
    left = iter(loops)
    return [None if same(n, 1) else next(left) for n in buf.shape]


def _reshape(buf: Buf, shape: list[Any]) -> bool:
    """Gives a result another shape: its memory, and so all that reads it, stays the same."""
    if buf.tree is None:
        return False
    try:
        v = reshaped(Value(full_shape(buf), buf.dtype, buf.tree), [*shape, *buf.reduced])
    except Unsupported:
        return False
    if v is None:
        return False
    buf.shape, buf.tree, buf.stride = shape, v.tree, contiguous(shape)
    return True


def _tree_axes(buf: Buf, result: list[Index | None], group: Group) -> list[Index | None]:
    """The loops of a tree, given those of its result. Reduced axes share loops of the root where they fit (a row)."""
    out = list(result)
    free = [i for i in group.axes[group.root] if i is not None and i not in out]
    if buf.kind == "product":
        free += [i for x in group.inline if x.kind == "product" for i in _reduced(x, group.axes[x])]
    for size in buf.reduced:
        index = None
        if not same(size, 1):
            index = next((i for i in free if same(i.size, size)), None) or Index(size)
            free = [i for i in free if i is not index]
        out.append(index)
    return out


class Grouping:
    def __init__(self, bufs: list[Buf]) -> None:
        self.groups: dict[Buf, Group] = {}
        self.places: dict[Buf, list[Group]] = {}  # where a result is computed
        self.readers: dict[Buf, list[tuple[Buf, Tree]]] = {}
        readers = self.readers
        for b in bufs:
            for t in leaves(b.tree) if b.tree is not None else ():
                if not isinstance(t, Iota):
                    readers.setdefault(t.buf, []).append((b, t))
        for b in bufs:  # operands of products, and what is read by index, is memory
            for t in leaves(b.tree) if b.tree is not None else ():
                if b.kind in ("product", "scan") and not isinstance(t, Iota) or isinstance(t, Gather):
                    t.buf.is_memory = True  # type: ignore[union-attr]
                if isinstance(t, Gather):
                    self._index_memory(t)
        for b in reversed(bufs):
            if b.tree is None:
                continue
            if b.is_memory:
                self._open(b)
                continue
            live = [(c, t) for c, t in readers.get(b, ()) if c in self.places]
            if live and not self._inline(b, live):
                b.is_memory = True
                self._open(b)

    @staticmethod
    def _index_memory(t: Gather) -> None:
        for _, _, tree in t.axes:
            for leaf in leaves(tree):
                if not isinstance(leaf, Iota) and leaf.buf.kind != "point":
                    leaf.buf.is_memory = True

    def _open(self, b: Buf) -> None:
        axes = [None if same(s, 1) else Index(s) for s in full_shape(b)]
        group = Group(b, {b: axes}, [])
        self.groups[b] = group
        self.places[b] = [group]

    def _found(self, b: Buf, live: list[tuple[Buf, Tree]]) -> dict[int, tuple[Group, list[Index | None]]] | None:
        """The groups that read a result, each with the loops for its axes; None if one cannot."""
        found: dict[int, tuple[Group, list[Index | None]]] = {}
        for c, t in live:
            if not isinstance(t, Leaf):
                return None
            for group in self.places[c]:
                axes = _result_axes(b, t, group.axes[c])
                if axes is None or id(group) in found and found[id(group)][1] != axes:
                    return None
                found[id(group)] = (group, axes)
        return found

    def _inline(self, b: Buf, live: list[tuple[Buf, Tree]]) -> bool:
        shape = b.shape
        found = self._found(b, live)
        if found is not None and b.shape is not shape:  # the last reader changed it: what the others were told is void
            shape = b.shape
            found = self._found(b, live)
        if found is None or b.shape is not shape:
            return False
        assert b.tree is not None
        if len(found) > 1 and not self._is_computed_twice(b):
            return False
        if not all(self._suits(b, group, axes) for group, axes in found.values()):
            return False
        for group, axes in found.values():
            group.axes[b] = _tree_axes(b, axes, group)
            group.inline.append(b)
        self.places[b] = [group for group, _ in found.values()]
        return True

    def _is_computed_twice(self, b: Buf) -> bool:
        """True for what several kernels rather compute each than read from memory. What ends a product is stored with it:
        a residual sum that each reader computed would read all sums before it again."""
        if b.kind != "point" or cost(b.tree) > _CHEAP:
            return False
        large = [t for t in leaves(b.tree) if not isinstance(t, Iota) and all(not same(s, 0) for s in t.stride)]
        ends_product = any(t.buf.kind == "product" and not t.buf.is_memory and all(r is b for r, _ in self.readers[t.buf])
                           for t in large)
        return not ends_product and len(large) <= _MOST_READ_TWICE

    @staticmethod
    def _suits(b: Buf, group: Group, axes: list[Index | None]) -> bool:
        """True if a kernel may compute `b` on its way."""
        root_axes = {i for i in group.axes[group.root] if i is not None}
        outside = root_axes - set(axes)
        kinds = [x.kind for x in group.inline]
        assert b.tree is not None
        if len(kinds) >= _MOST_INLINE or group.root.kind == "product":
            return False
        reads = sum(len(leaves(x.tree)) for x in [group.root, b, *group.inline] if x.tree is not None)
        if reads > _MOST_READ:
            return False
        if b.kind == "point":
            return not outside or cost(b.tree) <= _CHEAP or _follows_reduction(b) or bool(_reduced_by(group) & outside)
        if b.kind == "product":
            others = [x for x in group.inline if x.kind == "product"]
            return (not outside and group.root.kind == "point" and "reduce" not in kinds
                    and (not others or len(others) == 1 and _is_pair(b, axes, others[0], group)))
        if "product" in kinds:
            return False
        row = _tree_axes(b, axes, group)
        reduced = {i for i in row if i is not None} - set(axes)
        return outside <= reduced and (not _reduced_by(group) or _reduced_by(group) == reduced)


def _reduced(b: Buf, axes: list[Index | None]) -> set[Index]:
    return {i for i in axes[len(b.shape):] if i is not None}


def _reduced_by(group: Group) -> set[Index]:
    return set().union(*(_reduced(b, group.axes[b]) for b in [group.root, *group.inline]))


def _is_pair(b: Buf, axes: list[Index | None], other: Buf, group: Group) -> bool:
    """True for products of the same rows with two matrices of equal layout, which one kernel computes side by side."""
    if axes != group.axes[other][:len(other.shape)] or not all(map(same, b.reduced, other.reduced)):
        return False
    reads = []
    for loops, x in (([*axes, *group.axes[other][len(other.shape):]], b), (group.axes[other], other)):
        assert x.tree is not None
        operands = leaves(x.tree)
        if len(operands) != 2 or any(not isinstance(t, Leaf) for t in operands):
            return False
        reads.append([(t.buf, access(t.stride, loops), t.offset) for t in operands])  # type: ignore[union-attr]

    def equal(a: Any, c: Any) -> bool:
        return a[1].keys() == c[1].keys() and all(same(a[1][i], c[1][i]) for i in a[1])

    for first, second in ((0, 1), (1, 0)):
        rows, its_rows = reads[0][first], reads[1][first]
        if rows[0] is its_rows[0] and same(rows[2], its_rows[2]) and equal(rows, its_rows):
            return reads[0][second][0] is not reads[1][second][0] and equal(reads[0][second], reads[1][second])
    return False


def _follows_reduction(b: Buf) -> bool:
    """True for what is computed once a row."""
    assert b.tree is not None
    return any(not isinstance(t, Iota) and t.buf.kind == "reduce" and not t.buf.is_memory for t in leaves(b.tree))

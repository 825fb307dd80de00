"""Cuts what a graph computes into kernels: which results become memory, and which are computed where they are read."""

from __future__ import annotations

import math
from typing import Any, Iterable, Sequence

from ..lowering.tree import Buf, Gather, Leaf, cost, leaves, n_large, reads
from ..sizes import contiguous, same
from .chains import find_chains
from .loops import Group, Index, access, common_axes, full_shape, result_axes
from .pairs import find_pairs

_CHEAP = 3  # a value of at most this cost is computed by each reader instead of stored
_MOST_READ_TWICE = 2  # and only if it reads at most this many tensors of its own size
_MOST_INLINE = 12  # the most results that one kernel computes on its way
_MOST_READ = 20  # the most tensors that one kernel reads
_MOST_STORED = 4  # the most results that a kernel stores beside its root


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
    """`by_pytorch`: the bufs that operations of PyTorch read, each with the place in the graph of its first such reader.
    `paired`: the types of operands that the device's kernels for pairs take."""

    def __init__(self, bufs: list[Buf], by_pytorch: Sequence[tuple[Buf, float]] = (), paired: Sequence[str] = ()) -> None:
        self.by_pytorch: dict[Buf, float] = {}
        for b, place in by_pytorch:
            self.by_pytorch[b] = min(place, self.by_pytorch.get(b, place))
        self.groups: dict[Buf, Group] = {}
        self.places: dict[Buf, list[Group]] = {}  # the kernels that compute a result
        self.readers: dict[Buf, dict[Buf, None]] = {}
        for b in bufs:
            for t in reads(b.tree):
                self.readers.setdefault(t.buf, {})[b] = None
                if isinstance(t, Gather):  # what is read by index is memory
                    t.buf.is_memory = True
                    self._index_memory(t)
        living = self._living(bufs)
        chains = find_pairs(bufs, living, self.by_pytorch, paired) if paired else {}
        chains |= find_chains(bufs, living, {b for g in chains.values() for b in g.axes})
        self._operands_are_memory(bufs, chains.values())
        for b in reversed(bufs):
            if b.tree is None or b in self.places:
                continue
            live = self._live(b)
            if b in chains and (b.is_memory or live):
                self._place(chains[b])
            elif b.is_memory or live and not self._inline(b, live):
                b.is_memory = True
                if not self._absorb(b, live):
                    self._open(b)
        join_siblings(self)

    def _living(self, bufs: list[Buf]) -> dict[Buf, list[Buf]]:
        """The readers of each result, without those whose own result nobody needs."""
        out: dict[Buf, list[Buf]] = {}
        for b in reversed(bufs):
            found = [c for c in self.readers.get(b, ()) if c.is_memory or c.into or c in out]
            if found:
                out[b] = found
        return out

    @staticmethod
    def _operands_are_memory(bufs: list[Buf], chains: Iterable[Group]) -> None:
        """Operands of products and scans become memory, and so does all that a chain reads."""
        readers = {b: set[Buf]() for b in bufs if b.kind in ("product", "scan")}
        for group in chains:
            readers |= dict.fromkeys(group.axes, set(group.axes))
        for b, own in readers.items():
            for t in reads(b.tree):
                t.buf.is_memory |= t.buf not in own

    def _place(self, group: Group) -> None:
        """Makes a kernel of a chain."""
        for b in (group.root, *group.also):
            b.is_memory = True
        self.groups[group.root] = group
        for b in group.members:
            self.places[b] = [group]

    def _live(self, b: Buf) -> list[tuple[Buf, Leaf | Gather]]:
        """The bufs that read a result, each with the leaf by which it does so now: a change of shape replaces
        leaves."""
        return [(c, t) for c in self.readers.get(b, ()) if c in self.places for t in reads(c.tree) if t.buf is b]

    @staticmethod
    def _index_memory(t: Gather) -> None:
        for _, _, tree in t.axes:
            for leaf in reads(tree):
                if leaf.buf.kind != "point":
                    leaf.buf.is_memory = True

    def _open(self, b: Buf) -> None:
        axes = [None if same(s, 1) else Index(s) for s in full_shape(b)]
        group = Group(b, {b: axes})
        self.groups[b] = group
        self.places[b] = [group]

    def _found(self, b: Buf, live: list[tuple[Buf, Leaf | Gather]]) -> dict[int, tuple[Group, list[Index | None]]] | None:
        """The groups that read a result, each with the loops for its axes; None if one cannot."""
        found: dict[int, tuple[Group, list[Index | None]]] = {}
        for c, t in live:
            if not isinstance(t, Leaf):
                return None
            for group in self.places[c]:
                axes = result_axes(b, t, group.axes[c])
                if axes is None or id(group) in found and found[id(group)][1] != axes:
                    return None
                found[id(group)] = (group, axes)
        return found

    def _inline(self, b: Buf, live: list[tuple[Buf, Leaf | Gather]]) -> bool:
        shape = b.shape
        found = self._found(b, live)
        # looking at a reader gave `b` another shape, so the others are asked again
        if found is not None and b.shape is not shape:
            shape = b.shape
            found = self._found(b, live)
        if found is None or b.shape is not shape:
            return False
        assert b.tree is not None
        if len(found) > 1 and not self._is_computed_twice(b):
            return False
        if self._ends_own_product(b) and any(x.kind == "reduce" for group, _ in found.values() for x in group.members):
            # the kernel of a product holds no other reduction, so a reduction that reads `b` is a kernel of its own
            return False
        if not all(self._suits(b, group, axes) for group, axes in found.values()):
            return False
        for group, axes in found.values():
            group.axes[b] = _tree_axes(b, axes, group)
            group.inline.append(b)
        self.places[b] = [group for group, _ in found.values()]
        return True

    def _is_computed_twice(self, b: Buf) -> bool:
        """True if each of several readers computes `b` instead of reading it from memory. The end of a product is
        stored: if each reader computed a residual sum, it would read all residual sums before that again."""
        assert b.tree is not None
        return b.kind == "point" and cost(b.tree) <= _CHEAP and not self._ends_own_product(b) \
            and n_large(b.tree) <= _MOST_READ_TWICE

    def first_reader(self, b: Buf) -> float:
        """The place in the graph of the first kernel or operation of PyTorch that reads `b` from memory."""
        own = self.places.get(b, ())
        groups = [g.root.number for c in self.readers.get(b, ()) for g in self.places.get(c, ()) if g not in own]
        return min([*groups, self.by_pytorch.get(b, math.inf)], default=math.inf)

    def _absorb(self, b: Buf, live: list[tuple[Buf, Leaf | Gather]]) -> bool:
        """True if the first kernel that reads a result computes and stores it, too: then it need not read it."""
        if b.kind not in ("point", "reduce") or b.into or not all(map(same, b.stride, contiguous(b.shape))):
            return False
        first = self.first_reader(b)
        group = next((g for g in self.groups.values() if g.root.number == first), None)
        if group is None or len(group.also) >= _MOST_STORED or self._ends_own_product(b) or group.root.into \
                or any(x.kind in ("product", "scan") for x in group.members):
            return False
        axes = common_axes(b, [(c, t) for c, t in live if c in group.axes], group)
        if axes is None or not self._suits(b, group, axes):
            return False
        root_axes = {i for i in group.axes[group.root] if i is not None}
        outside, reduced = root_axes - set(axes), {i for i in axes if i is not None} - root_axes
        is_row = b.kind == "reduce" or _follows_reduction(b)
        if outside and not is_row:
            return False
        if not outside and (reduced or group.root.kind == "reduce"):
            return False  # such a kernel would be one over rows, and those read columns slowly
        group.axes[b] = _tree_axes(b, axes, group)
        group.also.append(b)
        self.places[b] = [group]
        return True

    def _ends_own_product(self, b: Buf) -> bool:
        """True if `b` may be the end of a product's kernel."""
        assert b.tree is not None
        return any(isinstance(t, Leaf) and t.buf.kind == "product" and not t.buf.is_memory
                   and all(c is b for c in self.readers[t.buf]) for t in leaves(b.tree))

    @staticmethod
    def _suits(b: Buf, group: Group, axes: list[Index | None]) -> bool:
        """True if a kernel may compute `b` on its way."""
        root_axes = {i for i in group.axes[group.root] if i is not None}
        outside = root_axes - set(axes)
        kinds = [x.kind for x in (*group.also, *group.inline)]
        assert b.tree is not None
        if len(kinds) >= _MOST_INLINE or group.root.kind == "product":
            return False
        if sum(len(leaves(x.tree)) for x in [b, *group.members]) > _MOST_READ:
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
    return set().union(*(_reduced(b, group.axes[b]) for b in group.members))


def _is_pair(b: Buf, axes: list[Index | None], other: Buf, group: Group) -> bool:
    """True for products of the same rows with two matrices of equal layout, which one kernel computes side by side."""
    if axes != group.axes[other][:len(other.shape)] or not all(map(same, b.reduced, other.reduced)):
        return False
    found = []
    for loops, x in (([*axes, *group.axes[other][len(other.shape):]], b), (group.axes[other], other)):
        assert x.tree is not None
        operands = leaves(x.tree)
        if len(operands) != 2 or any(not isinstance(t, Leaf) for t in operands):
            return False
        found.append([(t.buf, access(t.stride, loops), t.offset) for t in operands])  # type: ignore[union-attr]

    def equal(a: Any, c: Any) -> bool:
        return a[1].keys() == c[1].keys() and all(same(a[1][i], c[1][i]) for i in a[1])

    for first, second in ((0, 1), (1, 0)):
        rows, its_rows = found[0][first], found[1][first]
        if rows[0] is its_rows[0] and same(rows[2], its_rows[2]) and equal(rows, its_rows):
            return found[0][second][0] is not found[1][second][0] and equal(found[0][second], found[1][second])
    return False


def _follows_reduction(b: Buf) -> bool:
    """True for what is computed once a row."""
    return any(t.buf.kind == "reduce" and not t.buf.is_memory for t in reads(b.tree))


# ---- Reductions that walk over the same tensors side by side

def _read_by(group: Group) -> set[Buf]:
    return {t.buf for b in group.members for t in reads(b.tree) if t.buf not in group.axes}


def _join(first: Group, second: Group) -> bool:
    """Makes the second kernel compute the first's results, too. False if their loops are not the same."""
    a, b = first.axes[first.root], second.axes[second.root]
    if len(a) != len(b) or any((i is None) != (j is None) for i, j in zip(a, b)):
        return False
    loops = {i: j for i, j in zip(a, b) if i is not None}
    if not all(same(i.size, j.size) for i, j in loops.items() if j is not None):
        return False
    moved = {x: [loops.get(i, i) if i is not None else None for i in axes] for x, axes in first.axes.items()}
    if any(x in second.axes and second.axes[x] != axes for x, axes in moved.items()):
        return False
    second.axes |= moved
    second.also += [first.root, *first.also]
    second.inline += [x for x in first.inline if x not in second.inline]
    return True


def join_siblings(grouping: Grouping) -> None:
    """Sums over the same loops that read a tensor in common, such as the gradients of a norm's weight and bias."""
    sums = sorted((g for g in grouping.groups.values() if g.root.kind == "reduce" and not g.root.into
                   and all(x.kind != "product" for x in g.members)), key=lambda g: g.root.number)
    for at, first in enumerate(sums):
        shape = full_shape(first.root)
        for second in sums[at + 1:]:
            fits = len(second.root.reduced) == len(first.root.reduced) and len(full_shape(second.root)) == len(shape) \
                and all(map(same, full_shape(second.root), shape)) and _read_by(first) & _read_by(second) \
                and len(first.also) + len(second.also) < _MOST_STORED \
                and len(_read_by(first) | _read_by(second)) <= _MOST_READ
            if fits and all(grouping.first_reader(b) > second.root.number for b in (first.root, *first.also)) \
                    and _join(first, second):
                del grouping.groups[first.root]
                for x in first.axes:
                    grouping.places[x] = [second if g is first else g for g in grouping.places[x]]
                break

"""What a graph computes, before it is cut into kernels.

A Value has a shape and a tree. The leaves of a tree read memory (of Bufs) by strides, so a view of a value is the same
tree with other strides. A Buf is memory, or a result that may become memory: `lower` decides which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

from ..sizes import Unsupported, contiguous, magnitude, product, same, tidy

Size = Any  # int or sympy.Expr


@dataclass(eq=False)
class Buf:
    """kind: input, constant, eager (PyTorch writes it), point, reduce, product, scan, cat, scatter (what it writes into
    another's memory)."""

    kind: str
    shape: list[Size]
    dtype: str
    number: int
    tree: "Tree | None" = None  # point, reduce, product: what an element is, over shape + reduced
    reduction: str = ""  # reduce: sum, max, ...
    reduced: list[Size] = field(default_factory=list)  # sizes of the tree's last axes, which are reduced
    stride: list[Size] = field(default_factory=list)
    is_memory: bool = False
    into: "tuple[Buf, Size] | None" = None  # a part of a cat, or a scatter: the whole, and the offset in it
    at: tuple[tuple[Size, Size], ...] = ()  # scatter: stride and size of the whole's axes at whose indices it writes
    data: Any = None  # constant: the tensor
    node: Any = None  # of the graph: what it was made for
    id: int = 0  # the tensor's id in the sequence; 0: not added yet

    def __post_init__(self) -> None:
        if not self.stride:
            self.stride = contiguous(self.shape)


@dataclass(eq=False, frozen=True)
class Const:
    value: Any  # bool, int, float, or a SymPy expression


@dataclass(eq=False, frozen=True)
class Leaf:
    buf: Buf
    stride: tuple[Size, ...]
    offset: Size = 0


@dataclass(eq=False, frozen=True)
class Iota:
    """The whole number offset + sum of stride * index."""

    stride: tuple[Size, ...]
    offset: Size = 0


@dataclass(eq=False, frozen=True)
class Gather:
    """Reads `buf` at offset + strides, and along further axes (stride, size, tree of the index) where an index says. Guarded:
    zero where an index that is shifted (an Iota with an offset) lies outside of its axis."""

    buf: Buf
    stride: tuple[Size, ...]
    offset: Size
    axes: "tuple[tuple[Size, Size, Tree], ...]"
    is_guarded: bool = False


@dataclass(eq=False, frozen=True)
class Apply:
    """A pointwise operation: `text` with {0}, {1}, .. for the operands."""

    text: str
    args: "tuple[Tree, ...]"
    cost: int = 1


Tree = Const | Leaf | Iota | Gather | Apply


@dataclass
class Value:
    shape: list[Size]
    dtype: str  # of the library: f32, i64, bool, ...
    tree: Tree


Move = Callable[[tuple[Size, ...], Size], tuple[tuple[Size, ...], Size]]


def move(tree: Tree, how: Move) -> Tree:
    """The tree with other strides and offsets at its leaves."""
    done: dict[int, Tree] = {}

    def walk(t: Tree) -> Tree:
        if id(t) not in done:
            done[id(t)] = walk_new(t)
        return done[id(t)]

    def walk_new(t: Tree) -> Tree:
        if isinstance(t, Const):
            return t
        if isinstance(t, Apply):
            return Apply(t.text, tuple(walk(a) for a in t.args), t.cost)
        stride, offset = how(t.stride, t.offset)
        if isinstance(t, Leaf):
            return Leaf(t.buf, stride, offset)
        if isinstance(t, Iota):
            return Iota(stride, offset)
        return Gather(t.buf, stride, offset, tuple((s, n, walk(i)) for s, n, i in t.axes), t.is_guarded)

    return walk(tree)


def replaced(tree: Tree, how: "Callable[[Leaf], Tree]") -> Tree:
    """The tree with other Leafs."""
    done: dict[int, Tree] = {}

    def walk(t: Tree) -> Tree:
        if id(t) not in done:
            done[id(t)] = (how(t) if isinstance(t, Leaf) else Apply(t.text, tuple(map(walk, t.args)), t.cost)
                           if isinstance(t, Apply) else t)
        return done[id(t)]

    return walk(tree)


def leaves(tree: "Tree | None") -> list[Leaf | Gather | Iota]:
    """All leaves of the tree but constants, each object once."""
    seen: dict[int, Tree | None] = {}
    stack: list[Tree | None] = [tree]
    while stack:
        t = stack.pop()
        if id(t) in seen:
            continue
        seen[id(t)] = t
        if isinstance(t, Apply):
            stack.extend(t.args)
        elif isinstance(t, Gather):
            stack.extend(i for _, _, i in t.axes)
    return [t for t in seen.values() if isinstance(t, (Leaf, Gather, Iota))]


def reads(tree: "Tree | None") -> list[Leaf | Gather]:
    """The leaves of the tree that read memory."""
    return [t for t in leaves(tree) if not isinstance(t, Iota)]


def cost(tree: Tree) -> int:
    """The cost of computing an element: 1 for a cheap operation, more for others."""
    if isinstance(tree, Apply):
        return tree.cost + sum(cost(a) for a in tree.args)
    return 2 if isinstance(tree, Gather) else 0


def n_large(tree: Tree) -> int:
    """How many tensors as large as the value are read."""
    return sum(all(not same(s, 0) for s in t.stride) for t in reads(tree))


def ends_product(tree: Tree) -> bool:
    """True for operations on a product's result."""
    return isinstance(tree, Apply) and any(isinstance(t, Leaf) and t.buf.kind == "product" for t in leaves(tree))


# ---- Views


def permuted(v: Value, dims: Sequence[int]) -> Value:
    return Value([v.shape[d] for d in dims], v.dtype, move(v.tree, lambda s, o: (tuple(s[d] for d in dims), o)))


def expanded(v: Value, shape: Sequence[Size]) -> Value:
    """Broadcast to a shape of at least the value's rank."""
    new = len(shape) - len(v.shape)
    keeps = [same(a, b) for a, b in zip(v.shape, shape[new:])]
    if any(not k and not same(a, 1) for k, a in zip(keeps, v.shape)):
        raise Unsupported(f"shape {v.shape} does not broadcast to {list(shape)}")
    if new == 0 and all(keeps):
        return v
    return Value(list(shape), v.dtype,
                 move(v.tree, lambda s, o: ((0,) * new + tuple(x if k else 0 for x, k in zip(s, keeps)), o)))


def unsqueezed(v: Value, axis: int) -> Value:
    return Value(v.shape[:axis] + [1] + v.shape[axis:], v.dtype,
                 move(v.tree, lambda s, o: (s[:axis] + (0,) + s[axis:], o)))


def narrowed(v: Value) -> Value:
    """The value with one element along axes on which it does not depend."""
    for axis, n in enumerate(v.shape):
        if not same(n, 1) and all(same(t.stride[axis], 0) for t in leaves(v.tree)):
            v = unsqueezed(selected(v, axis, 0), axis)
    return v


def selected(v: Value, axis: int, index: Size) -> Value:
    return Value(v.shape[:axis] + v.shape[axis + 1:], v.dtype,
                 move(v.tree, lambda s, o: (s[:axis] + s[axis + 1:], tidy(o + s[axis] * index))))


def sliced(v: Value, axis: int, start: Size, size: Size, step: int = 1) -> Value:
    return Value(v.shape[:axis] + [size] + v.shape[axis + 1:], v.dtype,
                 move(v.tree, lambda s, o: (s[:axis] + (tidy(s[axis] * step),) + s[axis + 1:],
                                            tidy(o + s[axis] * start))))


def memory_order(v: Value) -> list[int]:
    """The axes as what is read lies in memory, the outermost first; as they are if nothing read says that, or if two
    tensors say different things."""
    orders = set()
    for t in leaves(v.tree):
        axes = [a for a, n in enumerate(v.shape) if not same(n, 1)]
        if not isinstance(t, Iota) and not any(same(t.stride[a], 0) for a in axes):
            orders.add(tuple(sorted(axes, key=lambda a: -magnitude(t.stride[a]))))
    if len(orders) != 1:
        return list(range(len(v.shape)))
    ordered = iter(orders.pop())
    return [a if same(n, 1) else next(ordered) for a, n in enumerate(v.shape)]


def _matched(old: Sequence[Size], new: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """Axes of two shapes in groups of equal products. One group if nothing smaller is found."""
    out: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = [], []
        left: Size = 1
        right: Size = 1
        while not (a or b) or not same(left, right):
            if i < len(old) and (j == len(new) or magnitude(left) <= magnitude(right)):
                left, i = tidy(left * old[i]), a.append(i) or i + 1  # type: ignore[func-returns-value]
            elif j < len(new):
                right, j = tidy(right * new[j]), b.append(j) or j + 1  # type: ignore[func-returns-value]
            else:
                return [(list(range(len(old))), list(range(len(new))))]
        out.append((a, b))
    return out


def _reshaped_strides(stride: Sequence[Size], old: Sequence[Size], new: Sequence[Size],
                      groups: list[tuple[list[int], list[int]]]) -> tuple[Size, ...] | None:
    out: list[Size] = [0] * len(new)
    for a, b in groups:
        real = [(stride[x], old[x]) for x in a if not same(old[x], 1)]
        if any(not same(s, tidy(t * n)) for (s, _), (t, n) in zip(real, real[1:])):
            return None
        inner: Size = real[-1][0] if real else 0
        for y in reversed(b):
            out[y] = inner
            inner = tidy(inner * new[y])
    return tuple(out)


def reshaped(v: Value, shape: Sequence[Size]) -> Value | None:
    """The value with another shape, if the strides of all leaves allow that."""
    if len(shape) == len(v.shape) and all(same(a, b) for a, b in zip(shape, v.shape)):
        return v
    if not same(product(v.shape), product(shape)):
        raise Unsupported(f"shapes {v.shape} and {list(shape)} have different products")
    if same(product(shape), 0):  # nothing is read
        return Value(list(shape), v.dtype, move(v.tree, lambda s, o: (tuple(contiguous(shape)), o)))
    groups = _matched(v.shape, shape)
    for t in leaves(v.tree):
        if _reshaped_strides(t.stride, v.shape, shape, groups) is None:
            return None
    return Value(list(shape), v.dtype,
                 move(v.tree, lambda s, o: (_reshaped_strides(s, v.shape, shape, groups), o)))  # type: ignore

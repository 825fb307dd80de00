"""The table, continued: what moves a window over a tensor: convolutions, and pools.

A window is memory read by strides: along a result's axis it moves by the stride of the operation, along one of its own by
the dilation. What reaches beyond an edge reads a padded copy."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any, Sequence

import torch

from ..sizes import Unsupported, expression, first_size, product, same, tidy
from . import tree as T
from .places import padded
from .pools import avg_pool, max_pool, mean_of, rounded_up
from .reductions import operand_memory
from .table import apply, entry, kind
from .tree import Apply, Const, Gather, Iota, Leaf, Value

_MOST_POINTS = 25  # of a pooling, which is written out
_GUARDED: tuple[str, ...] = ()  # types of devices whose convolutions read windows under guards, as on Hopper; for tests
_MOST_GUARDED = 64  # points of a filter
_PIECE, _LEAST_OF_PIECE = 8, 3  # elements that kernels copy at once, of which some may be zeros


def _is_guarded(device: torch.device) -> bool:
    """True where convolutions read windows under guards, without padded copies: on Hopper, whose kernel is as fast as
    PyTorch's."""
    if device.type != "cuda":
        return device.type in _GUARDED
    try:
        return torch.cuda.get_device_capability(device) == (9, 0)
    except (AssertionError, RuntimeError):  # there is none
        return False


def _only_on_cpu(g: Any) -> None:
    if g.device.type != "cpu":
        raise Unsupported("PyTorch's kernels for windows, on a GPU")


def _each(sizes: Sequence[Any], rank: int, default: Any = None) -> list[Any]:
    """One number for each axis: PyTorch takes one for all, and none where there is a default."""
    given = [expression(s) for s in (sizes or default or [])]
    return given * rank if len(given) == 1 else given


def _padded(g: Any, v: Value, pads: Sequence[Any], number: float, more: Any = 0) -> Value:
    """A copy with so many more elements at both ends of the last axes, and `more` behind; the value itself where there are
    none."""
    shape, borders = list(v.shape), dict(enumerate(((pad, tidy(pad + more)) for pad in pads), len(v.shape) - len(pads)))
    for axis, (low, high) in borders.items():
        shape[axis] = tidy(shape[axis] + low + high)
    out = padded(g, v, borders, shape, Const(number))
    return v if out is v else g.point(out, T.memory_order(v))


def _window(leaf: Leaf, steps: Sequence[Any], dilation: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The strides of the window's places, and of the points in it."""
    last = leaf.stride[len(leaf.stride) - len(steps):]
    return [tidy(s * n) for s, n in zip(last, steps)], [tidy(s * n) for s, n in zip(last, dilation)]


@entry("convolution")
def _convolution(g: Any, x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                 output_padding: Any, groups: int) -> Value:
    v, weight = g.value(x), operand_memory(g, w)
    is_depthwise = groups > 1 and not transposed and same(weight.shape[1], 1)
    is_guarded = not is_depthwise and _is_guarded(g.device)
    if not is_guarded and not is_depthwise:
        _only_on_cpu(g)
    rank = len(weight.shape) - 2
    if len(v.shape) != rank + 2 or kind(v.dtype) != "real" or weight.dtype != v.dtype:
        raise Unsupported(f"a convolution of {v.dtype}")
    if transposed:  # windows that do not overlap, as a product and a copy: 0.57 to 0.94 of eager's speed
        raise Unsupported("a transposed convolution, for which PyTorch's kernel is faster")
    if is_depthwise:
        _check_depthwise(g, weight)
    pads, steps, apart = _each(padding, rank), _each(stride, rank), _each(dilation, rank)
    is_few = is_guarded and not same(tidy(weight.shape[1] % _PIECE), 0)
    if is_guarded:
        _check_guarded(g, v, weight, groups)
    if is_guarded and not is_few:  # a few channels get zeros behind them, in a copy of the product's own
        v, weight = _channels_last(g, v), _channels_last(g, weight)
    leaf = g.leaf(v if is_guarded else _padded(g, v, pads, 0.0))
    step, points = _window(leaf, steps, apart)
    if is_depthwise:
        return _biased(g, _depthwise(g, leaf, weight, step, points, groups), bias)
    places, inner = g.shape[2:], list(weight.shape[2:])
    out, depth = weight.shape[0], weight.shape[1]
    # axes: batch, group, channel of the group, places; summed: channel, points
    shape = [g.shape[0], groups, tidy(out // groups) if groups > 1 else out, *places]
    over = [depth, *inner]
    n, c = leaf.stride[:2]
    o, of_w, *rest = weight.tree.stride
    read = Leaf(leaf.buf, (n, tidy(c * depth), 0, *step, c, *points), leaf.offset)
    by = Leaf(weight.tree.buf, (0, tidy(o * shape[2]), o, *[0] * rank, of_w, *rest), weight.tree.offset)
    keeps = [a for a in range(len(shape)) if groups > 1 or a != 1]
    is_last = rank > 0 and same(leaf.stride[1], 1) and not same(depth, 1)  # channels last
    gives_last = is_last or is_few
    channels, spread = [a for a in keeps if a in (1, 2)], [a for a in keeps if a > 2]
    summed = list(range(len(shape), len(shape) + len(over)))
    order = [0, *spread, *channels] if gives_last else [0, *channels, *spread]
    if is_last:  # the sum goes along memory
        summed = [*summed[1:], summed[0]]
        over = [*inner, depth]
    all_axes = [*order, *summed]
    is_point = all(same(n, 1) for n in (*inner, *steps)) and all(same(p, 0) for p in pads)
    if is_guarded and not is_point:
        read = _moving(leaf, v.shape[2:], [n, tidy(c * depth), 0, *[0] * rank, c, *[0] * rank], (steps, apart, pads))
    body = Apply("{0} * {1}", tuple(_taken(t, all_axes) for t in (read, by)))
    buf = g.buf("product", [shape[a] for a in order], v.dtype, tree=body, reduction="sum", reduced=over)
    moved = dict(zip(order, buf.stride))
    return _biased(g, _as_result(g, Value([shape[a] for a in keeps], v.dtype, Leaf(buf, tuple(moved[a] for a in keeps)))), bias)


def _as_result(g: Any, v: Value) -> Value:
    """With the axes of the operation's result, of which the value may have several for one."""
    result = T.reshaped(v, g.shape) or T.reshaped(g.stored(v), g.shape)
    if result is None:
        raise Unsupported("axes of a convolution that are no view")
    return result


def _biased(g: Any, v: Value, bias: Any) -> Value:
    if bias is None:
        return v
    b = g.value(bias)
    for _ in v.shape[2:]:
        b = T.unsqueezed(b, len(b.shape))
    return apply(g, "({0} + {1})", [v, b], g.dtype)


# At the sizes of the first call. With activations around it, one thread: 8,192 results of 3 x 3 filters took 48 us, eager
# 68; 51,200 took 148, eager 106. An H200: 602,112 and a small one of one axis took 110, eager 135; larger ones with
# channels last took up to twice cuDNN's time. Filters of more points have too many tensors for a kernel: each point is a
# view.
_MOST_DEPTHWISE = {"cpu": 16384, "cuda": 1 << 20}
_MOST_OF_FILTER = 9


def _check_depthwise(g: Any, weight: Value) -> None:
    """Refuses a convolution of each channel alone for which PyTorch's kernels are faster: each filter is read for few
    results, and a product has nothing to share."""
    size, points = first_size(g.node.meta["val"].numel()), product(weight.shape[2:])
    is_large = size is None or size > _MOST_DEPTHWISE[g.device.type]
    if not isinstance(points, int) or points > _MOST_OF_FILTER or is_large:
        raise Unsupported("a depthwise convolution of many elements, for which PyTorch's kernel is faster")


def _depthwise(g: Any, leaf: Leaf, weight: Value, step: Sequence[Any], points: Sequence[Any], groups: int) -> Value:
    """Filters of one channel each, several of them for a channel: the points one after the other."""
    n, c = leaf.stride[:2]
    o, _, *inner = weight.tree.stride
    several = tidy(weight.shape[0] // groups)
    shape = [g.shape[0], groups, several, *g.shape[2:]]
    total: Value | None = None
    for place in itertools.product(*map(range, weight.shape[2:])):
        def moved(offset: Any, strides: Sequence[Any], place: tuple[int, ...] = place) -> Any:
            return tidy(offset + sum(s * i for s, i in zip(strides, place)))

        x = Value(shape, weight.dtype, Leaf(leaf.buf, (n, c, 0, *step), moved(leaf.offset, points)))
        w = Value(shape, weight.dtype, Leaf(weight.tree.buf, (0, tidy(o * several), o, *[0] * len(step)),
                                            moved(weight.tree.offset, inner)))
        parts, text = ([x, w], "({0} * {1})") if total is None else ([total, x, w], "({0} + {1} * {2})")
        total = apply(g, text, parts, weight.dtype)
    assert total is not None
    return _as_result(g, total)


def _moving(leaf: Leaf, sizes: Sequence[Any], stride: Sequence[Any],
            how: tuple[Sequence[Any], Sequence[Any], Sequence[Any]]) -> T.Tree:
    """The window by its places: steps, distances of points and pads of each axis. The axes are those of a product."""
    rank, axes = len(sizes), []
    for axis, (step, apart, pad) in enumerate(zip(*how)):
        by = [0] * len(stride)
        by[3 + axis], by[4 + rank + axis] = step, apart
        axes.append((leaf.stride[2 + axis], sizes[axis], Iota(tuple(by), tidy(-pad))))
    return Gather(leaf.buf, tuple(stride), leaf.offset, tuple(axes), True)


def _is_last(v: Value) -> bool:
    """True if channels lie side by side in memory."""
    is_point = all(same(n, 1) for n in v.shape[2:])
    return is_point or (same(v.tree.stride[1], 1) if isinstance(v.tree, Leaf) else T.memory_order(v)[-1] == 1)


def _channels_last(g: Any, v: Value) -> Value:
    """The value with its channels side by side in memory: itself, or a copy. What follows has its order, so that a network
    copies at its begin, and filters."""
    return v if _is_last(v) else g.point(v, [0, *range(2, len(v.shape)), 1])


def _check_guarded(g: Any, v: Value, weight: Value, groups: int) -> None:
    """Refuses what gemm_rows does not take: PyTorch's kernels are faster than others of ours."""
    points = product(weight.shape[2:])
    if v.dtype not in ("bf16", "f16") or groups > 1:
        raise Unsupported("a convolution on a GPU that is not of 16 bits and one group")
    out, depth = weight.shape[:2]
    if not isinstance(out, int) or out % _PIECE or not isinstance(depth, int) or depth < _LEAST_OF_PIECE:
        raise Unsupported("channels of a convolution on a GPU that are not pieces of 16 bytes")
    if points > _MOST_GUARDED or (depth % _PIECE and points == 1):
        raise Unsupported("points of a filter on a GPU, more or fewer than kernels take")


def _taken(tree: T.Tree, axes: Sequence[int]) -> T.Tree:
    return T.move(tree, lambda stride, offset: (tuple(stride[a] for a in axes), offset))


def _is_written_out(v: Value, kernel: Any) -> bool:
    """True for pools that are written out: one expression over the few points of a window."""
    size = _each(kernel, 2)
    return len(v.shape) == 4 and kind(v.dtype) == "real" and all(isinstance(s, int) for s in size) \
        and product(size) <= _MOST_POINTS


def _pooled(g: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, number: float,
            text: str) -> Value:
    """The points of each window, one after the other, by an operation of two."""
    v, size = g.value(x), _each(kernel, 2)
    more = rounded_up(_each(stride, 2, kernel)) if ceil_mode else 0
    leaf = g.leaf(_padded(g, v, _each(padding, 2), number, more))
    step, points = _window(leaf, _each(stride, 2, kernel), _each(dilation, 2))
    parts = [Value(list(g.shape), v.dtype, Leaf(leaf.buf, (*leaf.stride[:2], *step),
                                                tidy(leaf.offset + r * points[0] + s * points[1])))
             for r in range(size[0]) for s in range(size[1])]
    return reduce(lambda a, b: apply(g, text, [a, b], v.dtype), parts)


@entry("max_pool2d_with_indices")
def _max_pool(g: Any, x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
              ceil_mode: bool = False) -> list[Value | None]:
    if g.is_used(1) or not _is_written_out(g.value(x), kernel):
        _only_on_cpu(g)
        return max_pool(g, x, kernel, stride, padding, dilation, ceil_mode)
    return [_pooled(g, x, kernel, stride, padding, dilation, ceil_mode, float("-inf"), "max({0}, {1})"), None]


@entry("avg_pool2d")
def _avg_pool(g: Any, x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
              counts_padding: bool = True, divisor: Any = None) -> Value:
    if not _is_written_out(g.value(x), kernel):
        _only_on_cpu(g)
        return avg_pool(g, x, kernel, stride, padding, ceil_mode, counts_padding, divisor)
    total = _pooled(g, x, kernel, stride, padding, (1,), ceil_mode, 0.0, "({0} + {1})")
    return mean_of(g, total, kernel, stride, padding, ceil_mode, counts_padding, divisor)


@entry("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
def _interpolation(g: Any, *_: Any, **__: Any) -> Value:
    raise Unsupported("an interpolation, for which PyTorch's kernel is faster")

"""Finds attention that is written out, softmax(q k^T * scale + mask) v, and names it: one operation without the memory of
all scores. For inference: a backward reads the softmax, and what is read elsewhere stays as it is."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..attention import serves
from ..sizes import Unsupported, expression, same

aten = torch.ops.aten
_SAME_ELEMENTS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default,
                  aten.clone.default, aten.alias.default, aten.detach.default)


_BY_NAME = (aten._scaled_dot_product_flash_attention_for_cpu.default, aten.scaled_dot_product_attention.default)


def given_mask(node: Any) -> Any:
    """The mask of an attention: some have it by name, the others as the fourth argument."""
    return node.kwargs.get("attn_mask") if node.target in _BY_NAME else node.args[3]


def drop_mask(node: Any) -> None:
    if node.target not in _BY_NAME:
        node.args = (*node.args[:3], None, *node.args[4:])
    node.kwargs = {k: v for k, v in node.kwargs.items() if k != "attn_mask"}


@contextlib.contextmanager
def no_plan_for_each_shape() -> Iterator[None]:
    """While a graph of dynamic sizes is traced, PyTorch does not choose cuDNN's attention where attention is its own: that
    makes a plan for each new shape, which takes tens of milliseconds."""
    was = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(was)


@dataclass
class _Scores:
    """The operands of the scores that a softmax is taken of: softmax(q k^T * scale + mask)."""

    q: Any
    k: Any  # with its axes as the product has them: [.., size of a head, keys]
    scale: float = 1.0
    mask: Any = None


def _sizes(node: Any) -> list[Any]:
    return [expression(s) for s in node.meta["val"].shape]


def _are_same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def _heads(node: Any) -> Any:
    """The tensor of [batch, heads, rows, columns] that an operand [batch * heads, rows, columns] of a product was."""
    flat = _sizes(node)
    while isinstance(node, torch.fx.Node) and node.target in _SAME_ELEMENTS:
        node = node.args[0]
        shape = _sizes(node)
        if len(shape) == 4 and _are_same([shape[0] * shape[1], *shape[2:]], flat):
            return node
    return None


def _only_reader(node: Any) -> Any:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _through(node: Any, shape: list[Any]) -> Any:
    """Goes back over copies and conversions of reals that only the next operation reads, while the shape stays."""
    while node.target in (*_SAME_ELEMENTS, aten._to_copy.default) and len(node.users) == 1 \
            and _are_same(_sizes(node), shape) and _are_same(_sizes(node.args[0]), shape) \
            and node.args[0].meta["val"].is_floating_point():
        node = node.args[0]
    return node


def _number(x: Any) -> float | None:
    """A factor that is one number: a Python number, or a tensor made of one."""
    if isinstance(x, torch.fx.Node) and x.target in (aten.full.default, aten.scalar_tensor.default):
        x = x.args[-1]
    return float(x) if isinstance(x, (int, float)) and not isinstance(x, bool) else None


def _product_of_heads(node: Any) -> tuple[Any, Any] | None:
    """q and k^T, of four axes each, if the node is their product."""
    if node.target not in (aten.view.default, aten._unsafe_view.default, aten.reshape.default) or len(node.users) != 1:
        return None
    bmm = node.args[0]
    if bmm.target is not aten.bmm.default or len(bmm.users) != 1:
        return None
    a, b = (_heads(x) for x in bmm.args[:2])
    return (a, b) if a is not None and b is not None else None


def _scores(node: Any) -> _Scores | None:
    """Reads product, scale and mask from the softmax's operand back. The mask is outside of the scale, as attention has it."""
    shape, scale, mask = _sizes(node), 1.0, None
    while True:
        node = _through(node, shape)
        found = _product_of_heads(node)
        if found:
            return _Scores(*found, scale, mask)
        if len(node.users) != 1 or len(node.args) < 2 or "alpha" in node.kwargs:
            return None
        number = _number(node.args[1])
        if node.target in (aten.mul.Tensor, aten.mul.Scalar) and number is not None:
            node, scale = node.args[0], scale * number
        elif node.target in (aten.div.Tensor, aten.div.Scalar) and number:
            node, scale = node.args[0], scale / number
        elif node.target is aten.add.Tensor and mask is None and scale == 1.0:
            split = _mask_of(node, shape)
            if split is None:
                return None
            node, mask = split
        else:
            return None


def _mask_of(node: Any, shape: list[Any]) -> tuple[Any, Any] | None:
    """The scores and the mask of a sum: the mask has axes [.., .., queries, keys], and no product is behind it."""
    for scores, mask in (node.args[:2], node.args[1::-1]):
        if not all(isinstance(x, torch.fx.Node) for x in (scores, mask)) or not _are_same(_sizes(scores), shape):
            continue
        sizes, below = _sizes(mask), _through(scores, shape)
        if len(sizes) == 4 and _are_same(sizes[2:], shape[2:]) and mask.meta["val"].is_floating_point() \
                and all(same(a, 1) or same(a, b) for a, b in zip(sizes, shape)) \
                and (_product_of_heads(below) or below.target in (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor,
                                                                  aten.div.Scalar)):
            return scores, mask
    return None


def new_node(graph: Any, target: Any, args: tuple[Any, ...], **options: Any) -> Any:
    """A new node, with the description of its result that PyTorch keeps of every node."""
    node = graph.call_function(target, args, options)
    values = torch.fx.node.map_arg((args, options), lambda n: n.meta["val"])
    mode = next(v.fake_mode for n in node.all_input_nodes if hasattr(v := n.meta["val"], "fake_mode"))
    assert isinstance(mode, FakeTensorMode)
    with mode:
        node.meta["val"] = target(*values[0], **values[1])
    return node


def _named(graph: Any, result: Any, s: _Scores, v: Any) -> bool:
    """Puts the operation in the place of `result`, a tensor [batch, heads, queries, size of a head]."""
    tensors = [x.meta["val"] for x in (s.q, s.k, v)]
    if any(x.dtype != tensors[0].dtype or not x.is_floating_point() for x in tensors):
        return False
    (b, h, _, size), (b2, h2, size2, keys), last = _sizes(s.q), _sizes(s.k), _sizes(v)
    if not _are_same([b, h, size, b, h, keys, size], [b2, h2, size2, *last]):
        return False
    dtype = tensors[0].dtype
    with graph.inserting_before(result):
        k = new_node(graph, aten.permute.default, (s.k, [0, 1, 3, 2]))
        mask = s.mask
        if mask is not None and mask.meta["val"].dtype != dtype:
            mask = new_node(graph, aten._to_copy.default, (mask,), dtype=dtype)
        if serves(*(x.meta["val"] for x in (s.q, k, v))):
            out = new_node(graph, torch.ops.multidispatch.attention.default, (s.q, k, v, mask, False, s.scale))
        else:
            options = {"attn_mask": mask} if mask is not None else {}
            out = new_node(graph, aten.scaled_dot_product_attention.default, (s.q, k, v), scale=s.scale, **options)
    if not _are_same(_sizes(out), _sizes(result)):
        return False
    result.replace_all_uses_with(out)
    return True


def name_attention(module: Any) -> int:
    """Names each attention of the graph. Gives their number."""
    done = 0
    for softmax in [n for n in module.graph.nodes if n.target is aten._softmax.default]:
        try:
            done += _name_one(module.graph, softmax)
        except Unsupported:
            continue
    return done


def _name_one(graph: Any, softmax: Any) -> bool:
    shape = _sizes(softmax)
    if len(shape) != 4 or softmax.args[1] not in (-1, 3):
        return False
    last = softmax
    while (reader := _only_reader(last)) is not None and reader.target in (*_SAME_ELEMENTS, aten._to_copy.default):
        last = reader
    bmm = _only_reader(last)
    if bmm is None or bmm.target is not aten.bmm.default or bmm.args[0] is not last:
        return False
    result, v = _only_reader(bmm), _heads(bmm.args[1])
    scores = _scores(softmax.args[0])
    if result is None or v is None or scores is None or result.target not in _SAME_ELEMENTS:
        return False
    if not _are_same(_sizes(result), [*shape[:3], _sizes(v)[3]]):
        return False
    return _named(graph, result, scores, v)

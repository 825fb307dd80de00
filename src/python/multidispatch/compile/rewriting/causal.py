"""Finds masks of attention that only keep a token from seeing later ones, and leaves them to the operation: it skips the
half of the scores that they hide, and nobody builds them."""

from __future__ import annotations

import operator
from typing import Any, Callable, Iterator

import torch

from .. import attention as _attention  # noqa: F401 (makes the operations)
from ..sizes import Unsupported, expression, same
from .attention import given_mask, new_node
from .lines import Line, Mask, Reader, Where

aten = torch.ops.aten
_SEEN = Where(Line(0, ((-2, -1), (-1, 1))))  # column - row <= 0
_CAUSAL = (_SEEN, Mask(_SEEN))
_MOST_FLASH = 256  # elements of a head that flash attention takes
_OF_CPU, _ANY = aten._scaled_dot_product_flash_attention_for_cpu.default, aten.scaled_dot_product_attention.default
_EFFICIENT, _CUDNN = (aten._scaled_dot_product_efficient_attention.default,
                      aten._scaled_dot_product_cudnn_attention.default)
_OURS, _SAVING = torch.ops.multidispatch.attention.default, torch.ops.multidispatch.attention_saving.default
# The places of dropout (None: there is none) and is_causal among the arguments of each attention.
_PLACES = {_OF_CPU: (3, 4), _ANY: (4, 5), _EFFICIENT: (5, 6), _CUDNN: (5, 6), _OURS: (None, 4), _SAVING: (None, 4)}
# The backward of each, with the places of the mask (None: it is given by name) and of is_causal among its arguments.
_BACKWARD = {_OF_CPU: (aten._scaled_dot_product_flash_attention_for_cpu_backward.default, None, 7),
             _EFFICIENT: (aten._scaled_dot_product_efficient_attention_backward.default, 4, 11),
             _CUDNN: (aten._scaled_dot_product_cudnn_attention_backward.default, 8, 14),
             _SAVING: (torch.ops.multidispatch.attention_backward.default, 4, 5)}


def _is_square(node: Any) -> bool:
    """As PyTorch's kernels want it where there is no mask; ours take any numbers of queries and keys."""
    q, k = (x.meta["val"] for x in node.args[:2])
    return node.target in (_OURS, _SAVING) or same(expression(q.shape[2]), expression(k.shape[2]))


def _only_result_is_read(node: Any) -> bool:
    return node.target in (_ANY, _OURS) or all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)


def _has_flash(q: torch.Tensor, v: torch.Tensor) -> bool:
    """True where PyTorch's flash attention takes the tensors, whatever their sizes are, and is not forbidden."""
    size = q.shape[3]
    is_old = torch.cuda.is_available() and torch.cuda.get_device_capability(q.device) < (8, 0)
    return not is_old and torch.backends.cuda.flash_sdp_enabled() and q.dtype in (torch.float16, torch.bfloat16) \
        and isinstance(size, int) and size == v.shape[3] and size % 8 == 0 and size <= _MOST_FLASH


def _causal(graph: Any, node: Any) -> Any:
    """Replaces an attention with a causal mask by one with is_causal=True and no mask."""
    q, k, v = node.args[:3]
    scale = {"scale": node.kwargs["scale"]} if "scale" in node.kwargs else {}
    if node.target is _OF_CPU:
        return new_node(graph, _OF_CPU, (q, k, v, 0.0, True), **scale)
    if node.target is _ANY:
        return new_node(graph, _ANY, (q, k, v, None, 0.0, True), **scale)
    if node.target is _OURS:
        return new_node(graph, _OURS, (q, k, v, None, True, node.args[5]))
    if node.target is _EFFICIENT and _has_flash(q.meta["val"], v.meta["val"]):  # faster, but it takes no mask
        return new_node(graph, aten._scaled_dot_product_flash_attention.default, (q, k, v, 0.0, True, False), **scale)
    return new_node(graph, node.target, (q, k, v, None, False, 0.0, True), **scale)


def _result(node: Any) -> torch.Tensor:
    value = node.meta["val"]
    return value if isinstance(value, torch.Tensor) else value[0]


def _lie_alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(same(expression(m), expression(n)) for m, n in zip((*a.shape, *a.stride()), (*b.shape, *b.stride())))


def _rewrite(node: Any) -> bool:
    place = _PLACES[node.target][0]
    dropout = node.args[place:][:1] if place is not None else ()
    if any(p != 0.0 for p in dropout) or not _is_square(node) or not _only_result_is_read(node):
        return False
    with node.graph.inserting_before(node):
        other = _causal(node.graph, node)
    if not _lie_alike(_result(node), _result(other)):
        return False
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)
    return True


def _without_mask(node: Any, mask: int | None, is_causal: int) -> None:
    args = [*node.args, *[0.0] * (is_causal - len(node.args))]  # a dropout of 0 may be left out
    args[is_causal:is_causal + 1] = [True]
    if mask is not None:
        args[mask] = None
    node.args = tuple(args)
    node.kwargs = {k: v for k, v in node.kwargs.items() if k != "attn_mask"}


def _readers(result: Any) -> Iterator[Any]:
    """The operations that read a result, or another name of it."""
    for user in result.users:
        if user.target in (aten.alias.default, aten.detach.default):
            yield from _readers(user)
        else:
            yield user


def _rewrite_both(node: Any) -> bool:
    """The attention of a forward and its backward, which is given the same mask. PyTorch's choice of kernel stays: what
    the forward leaves for the backward is its own."""
    if node.target not in _BACKWARD or not _is_square(node):
        return False
    target, mask, is_causal = _BACKWARD[node.target]
    backwards = {n: None for result in node.users for n in _readers(result) if n.target is target}
    if len(backwards) != 1:
        return False
    backward, = backwards
    given = backward.kwargs.get("attn_mask") if mask is None else backward.args[mask]
    wants_gradient_of_mask = node.target is _EFFICIENT and backward.args[10][3]
    if given is not given_mask(node) or backward.args[1:4] != node.args[:3] or wants_gradient_of_mask:
        return False
    _without_mask(node, None if node.target is _OF_CPU else 3, _PLACES[node.target][1])
    _without_mask(backward, mask, is_causal)
    return True


def _each(module: Any, change: Callable[[Any], bool]) -> int:
    nodes = [n for n in module.graph.nodes if n.target in _PLACES and given_mask(n) is not None]
    if not nodes:
        return 0
    reader, done = Reader(module), 0
    for node in nodes:
        try:
            done += reader.of(given_mask(node)) in _CAUSAL and change(node)
        except Unsupported:
            continue
    return done


def name_causal(module: Any) -> int:
    """For a graph without a backward. Gives the number of attentions whose mask went."""
    return _each(module, _rewrite)


def name_causal_of_training(module: Any) -> int:
    """For a graph of a forward and its backward, before PyTorch divides it."""
    done = _each(module, _rewrite_both)
    if done:
        module.graph.eliminate_dead_code()
        module.recompile()
    return done

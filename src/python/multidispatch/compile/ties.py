"""Operations that see memory itself, not values: those that change tensors, and as_strided around a part of memory. PyTorch
computes them, and the views that lead to them, so that all see one memory."""

from __future__ import annotations

import operator
from typing import Any

import torch

from .sizes import expression, magnitude, same

aten = torch.ops.aten


def changes(node: torch.fx.Node) -> bool:
    """True for an operation that changes a tensor."""
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _changed(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The tensors that an operation changes."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = dict(zip((a.name for a in schema.arguments), node.args)) | dict(node.kwargs)
    written = [given.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [x for w in written for x in (w if isinstance(w, (list, tuple)) else (w,)) if isinstance(x, torch.fx.Node)]


def _viewed(node: torch.fx.Node) -> torch.fx.Node | None:
    """The tensor that a node is a view of, or gives back; None: it has memory of its own."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return None
    if node.target is operator.getitem:
        return _viewed(node.args[0])
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    shares = any(r.alias_info is not None for r in node.target._schema.returns)
    return node.args[0] if shares else None


def _root(node: torch.fx.Node) -> torch.fx.Node:
    while (base := _viewed(node)) is not None:
        node = base
    return node


def tied(nodes: list[torch.fx.Node]) -> dict[torch.fx.Node, str]:
    """The operations that PyTorch has to compute for this, each with the reason."""
    out: dict[torch.fx.Node, str] = {}
    changed = {_root(x) for n in nodes if changes(n) for x in _changed(n)}
    parts = [n for n in nodes if n.target is aten.as_strided.default and _is_part(n.args[0])]
    around = {_root(n) for n in parts}
    for n in nodes:
        if n.op != "call_function":
            continue
        if changes(n):
            out[n] = "it changes its arguments"
        elif n in parts:
            out[n] = "as_strided reads around a part of memory"
        elif _root(n) in changed:
            out[n] = "memory that is changed later"
        elif _viewed(n) is not None and _root(n) in around:
            out[n] = "a view that as_strided reads around"
    return out


def _is_part(node: Any) -> bool:
    """True for a view that does not begin where its memory does."""
    return not same(expression(node.meta["val"].storage_offset()), 0)


def overlaps(value: Any) -> bool:
    """True for a tensor whose elements lie on each other, other than by strides of 0."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    axes = [(magnitude(expression(s)), magnitude(expression(n))) for n, s in zip(value.shape, value.stride())]
    end = 1.0
    for stride, size in sorted((s, n) for s, n in axes if s > 0 and n > 1):
        if stride < end:
            return True
        end = stride * (size - 1) + end
    return False

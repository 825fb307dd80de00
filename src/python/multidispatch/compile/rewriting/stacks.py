"""Stacks whose axes are then permuted, such as the gradient of q, k and v made of those of its parts: each part is written
where it is read, and the whole is not copied."""

from __future__ import annotations

from typing import Any

import torch

from ..sizes import expression, same

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def _sizes(node: Any) -> list[Any]:
    return [expression(s) for s in node.meta["val"].shape]


def _stacked(view: Any) -> list[Any] | None:
    """The parts, if a view splits the first axis of their cat into their number and their own first axis."""
    if not isinstance(view, torch.fx.Node) or view.target not in _VIEWS or len(view.users) != 1:
        return None
    cat = view.args[0]
    if cat.target is not aten.cat.default or len(cat.users) != 1 or (cat.args[1] if len(cat.args) > 1 else 0) != 0:
        return None
    parts = cat.args[0]
    shape = _sizes(view)
    for p in parts:
        own = [len(parts), *_sizes(p)]
        if len(own) != len(shape) or not all(map(same, own, shape)) or p.meta["val"].dtype != cat.meta["val"].dtype:
            return None
    return list(parts)


def _called(graph: Any, target: Any, *args: Any) -> Any:
    node = graph.call_function(target, args)
    values = torch.fx.node.map_arg(args, lambda n: n.meta["val"])
    first = node.all_input_nodes[0].meta["val"]
    with first.fake_mode:
        node.meta["val"] = target(*values)
    return node


def order_stacks(module: Any) -> int:
    """permute(stack(parts)) becomes a cat of permuted parts. Gives the number of changes."""
    done = 0
    for node in [n for n in module.graph.nodes if n.target is aten.permute.default]:
        parts = _stacked(node.args[0])
        if parts is None or not hasattr(parts[0].meta["val"], "fake_mode"):
            continue
        order = [d % len(node.args[1]) for d in node.args[1]]
        with module.graph.inserting_before(node):
            moved = [_called(module.graph, aten.permute.default, _called(module.graph, aten.unsqueeze.default, p, 0),
                             list(order)) for p in parts]
            new = _called(module.graph, aten.cat.default, moved, order.index(0))
        node.replace_all_uses_with(new)
        done += 1
    return done

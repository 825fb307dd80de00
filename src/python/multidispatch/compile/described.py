"""Graphs that PyTorch runs by itself: some of its operations, such as convolutions, give memory in another order than the
graph says, since what picks a library for them is no condition of a graph here (general.py)."""

from __future__ import annotations

from typing import Any

import torch

from .sizes import contiguous, expression, same

aten = torch.ops.aten
# With memory in another order there may be no such view: reshape then copies.
WITHOUT_VIEWS = {aten.view.default: aten.reshape.default, aten._unsafe_view.default: aten.reshape.default}


def as_described(graph: torch.fx.Graph, node: torch.fx.Node, copied: torch.fx.Node) -> torch.fx.Node:
    """The value of `node`, whose copy in the graph is `copied`: row-major where it is described so."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dim() == 0:
        return copied
    shape, stride = ([expression(s) for s in x] for x in (value.shape, value.stride()))
    return graph.call_method("contiguous", (copied,)) if all(map(same, stride, contiguous(shape))) else copied


def for_any_order(module: Any) -> Any:
    """A copy of the module that computes the same if operations give memory in another order. What it was given lies as
    described."""
    graph = torch.fx.Graph()
    env: dict[torch.fx.Node, torch.fx.Node] = {}

    def read(n: torch.fx.Node, user: torch.fx.Node) -> torch.fx.Node:
        relies = user.op == "output" or user.target is aten.as_strided.default
        return as_described(graph, n, env[n]) if relies and n.op == "call_function" else env[n]

    for node in module.graph.nodes:
        env[node] = graph.node_copy(node, lambda n, user=node: read(n, user))
        env[node].target = WITHOUT_VIEWS.get(node.target, node.target)
    return torch.fx.GraphModule(module, graph)

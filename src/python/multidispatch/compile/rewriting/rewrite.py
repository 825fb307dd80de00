"""Rewrites of a graph before it is cut into kernels: the table of them. Each says what it did."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..randoms import draw_together
from ..report import fault
from ..ties import changes
from .attention import name_attention
from .causal import name_causal
from .complex_values import pair_complex
from .experts import leave_experts_in_place
from .stacks import order_stacks
from .uniform import fold


def _drop_unused(module: Any) -> int:
    before = len(module.graph.nodes)
    module.graph.eliminate_dead_code()
    return before - len(module.graph.nodes)


def _drop_checks(module: Any) -> int:
    """Drops torch.export's checks of dtypes and devices: a plan is made for them, and its calls are checked."""
    checks = [n for n in module.graph.nodes if n.target is torch.ops.aten._assert_tensor_metadata.default]
    for node in checks:
        module.graph.erase_node(node)
    return len(checks)


# In this order: what each line says, and the function, which changes the graph and counts its changes.
REWRITES: tuple[tuple[str, Callable[[Any], int]], ...] = (
    ("checks of dtypes dropped", _drop_checks),
    ("unused operations dropped", _drop_unused),
    ("readers of complex numbers read pairs of reals", pair_complex),
    ("operations dropped that pairs left unused", _drop_unused),
    ("seeds drawn with others", draw_together),
    ("operations on constants folded", fold),
    ("rows left where they are, which were sorted by expert", leave_experts_in_place),
    ("attentions named", name_attention),
    ("masks left to causal attention", name_causal),
    ("stacks put into the order in which they are read", order_stacks),
    ("operations dropped that rewrites left unused", _drop_unused),
)


def copy_of(graph: Any) -> Any:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def rewrite(module: Any) -> list[str]:
    """Changes the graph in place, and gives a line for each kind of change. One that fails is left out."""
    kept, done, failed = copy_of(module.graph), list[str](), set[str]()
    # rewrites take a tensor for the value that it was given
    table = REWRITES[:1] if any(map(changes, module.graph.nodes)) else REWRITES
    rest = list(table)
    while rest:
        what, f = rest.pop(0)
        if what in failed:
            continue
        try:
            if n := f(module):
                done.append(f"{n} {what}")
        except Exception:  # the graph may be half changed: all begins anew without this one
            fault(f"the graph is used without: {what}")
            failed.add(what)
            module.graph = copy_of(kept)
            rest, done = list(table), []
    if done or failed:
        module.recompile()
    return done

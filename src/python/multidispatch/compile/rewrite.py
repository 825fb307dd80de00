"""Rewrites of a graph before it is cut into kernels. Each says what it did."""

from __future__ import annotations

from typing import Any


def rewrite(module: Any) -> list[str]:
    """Changes the graph in place, and gives a line for each kind of change."""
    done: list[str] = []
    before = len(module.graph.nodes)
    module.graph.eliminate_dead_code()
    if len(module.graph.nodes) != before:
        done.append(f"{before - len(module.graph.nodes)} unused operations dropped")
        module.recompile()
    return done
